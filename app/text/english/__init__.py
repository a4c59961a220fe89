"""English: normalisation, part-of-speech rules and pronunciation."""
