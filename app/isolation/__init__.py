"""Processes that may die: native code reads there what strangers send."""
