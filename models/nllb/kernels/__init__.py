"""NLLB's kernels for NVIDIA GPUs."""
