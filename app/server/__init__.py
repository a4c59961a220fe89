"""The HTTP and WebSocket server. `app.application` builds it."""
