"""ElevenLabs' interfaces: REST and WebSocket."""
