"""A Transformer's step of decoding, and a short encoding, as single CUDA kernels, and the step as Metal kernels."""
