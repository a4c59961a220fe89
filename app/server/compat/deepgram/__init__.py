"""Deepgram's surface, over HTTP and WebSockets (developers.deepgram.com, "Text to Speech", "Speech to Text")."""
