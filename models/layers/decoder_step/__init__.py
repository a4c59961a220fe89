"""A Transformer decoder's step as one CUDA kernel, or as a few Metal kernels a layer, for every family that has one."""
