"""Kokoro: StyleTTS 2's text-to-speech network with an iSTFTNet decoder (hexgrad/Kokoro-82M and its like)."""
