"""Kernels of the flow's estimator for NVIDIA GPUs, each beside its plain definition."""
