"""Kernels of T3's decoding step: `cuda` and `metal` run the bodies that `source` reads, on `weights` in their order."""
