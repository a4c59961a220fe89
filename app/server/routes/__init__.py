"""Nightingale's own routes and OpenAI's, one subject per file."""
