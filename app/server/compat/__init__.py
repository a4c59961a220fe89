"""Surfaces of other services: ElevenLabs, Deepgram, LibreTranslate, Wyoming."""
