"""Interpretation: speech in one language in, speech in another out, while somebody still speaks."""
