"""How `models/phrasebook` is made: a phrase grammar in four languages and a small network that learns it."""
