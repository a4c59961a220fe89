"""Nightingale: the service. It knows no model internals."""

__version__ = "0.2.0"
