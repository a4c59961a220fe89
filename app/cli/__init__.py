"""Command line of `nightingale`, one file per command."""
