"""ASGI middleware before every path: request id, access, limits. `key_file` reads the keys that `access` checks."""
