"""ASGI middleware, one per file."""
