"""`WS /v1/audio/interpret`: the protocol of the interpreter."""
