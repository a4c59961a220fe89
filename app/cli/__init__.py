"""The command `nightingale`, one file per command."""
