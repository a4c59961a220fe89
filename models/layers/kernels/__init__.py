"""Kernels that several model families share."""
