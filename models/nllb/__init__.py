"""NLLB-200: many-to-many translation by an M2M100 encoder-decoder (arXiv:2207.04672)."""
