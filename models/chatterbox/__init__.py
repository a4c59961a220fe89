"""Chatterbox (Resemble AI): text to speech tokens (T3), speech tokens to a waveform (S3Gen), in any recorded voice."""
