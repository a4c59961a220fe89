"""The recipe that made `models/house`: corpus, teacher, alignment, network, training, export, evaluation."""
