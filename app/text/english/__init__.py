"""English: normalization, part-of-speech rules and pronunciation."""
