"""Deepgram's recognition."""
