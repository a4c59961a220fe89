"""Pure compute: MLX and numpy. Never imports app."""
