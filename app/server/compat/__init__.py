"""Interfaces of other products: one adapter each."""
