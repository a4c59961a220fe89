"""The ear in the box: a small recognizer of synthetic speech, trained at variable length with a CTC head."""
