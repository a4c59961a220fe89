"""ElevenLabs' surface, over HTTP and WebSockets."""
