"""Pure computation on MLX and numpy. This package never imports `app`."""
