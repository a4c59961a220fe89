"""Language models: mlx-lm's architectures, tokenizers and batches, with the native products on Linux CPUs."""
