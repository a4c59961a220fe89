"""Streaming protocols: the loop of a socket, adapters of surfaces, and the session as a state machine.

`socket` has the loop that serves every socket, `adapter` the interface of a surface. `session` is the protocol without
I/O: it takes messages of `events` and returns `effects`, which `session_socket` carries out.
"""
