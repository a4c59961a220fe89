"""Nightingale: the service. Knows no model internals."""

__version__ = "0.1.0"
