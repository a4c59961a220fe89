"""Nightingale's own routes, one subject per file."""
