"""T3's decoding step for GPUs, as kernels of its own. Its plain definition is `T3.advance`."""
