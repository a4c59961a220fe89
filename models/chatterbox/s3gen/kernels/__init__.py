"""Kernels for an NVIDIA GPU, each with its plain definition in the module that calls it."""
