"""Voices: aliases of names, cloned voices, and their store."""
