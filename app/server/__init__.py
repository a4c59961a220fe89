"""The HTTP and WebSocket server. `app.server.app` builds it."""
