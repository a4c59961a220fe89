"""Pronunciation lexicons of the server and of its clients."""
