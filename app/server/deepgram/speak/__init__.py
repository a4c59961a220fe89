"""Deepgram's speech."""
