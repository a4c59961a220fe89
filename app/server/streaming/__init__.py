"""The WebSocket protocol of `/v1/audio/stream`: events, and the session as a state machine."""
