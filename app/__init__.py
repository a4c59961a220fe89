"""Nightingale: the service. Knows no model internals."""

__version__ = "0.2.0"
