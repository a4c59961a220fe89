"""Whisper: speech recognition and translation into English by an encoder-decoder (arXiv:2212.04356)."""
