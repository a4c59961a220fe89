"""The recipe of `models/phrasebook`: a phrase grammar in four languages and a small network that learns it."""
