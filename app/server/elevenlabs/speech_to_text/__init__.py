"""ElevenLabs' recognition."""
