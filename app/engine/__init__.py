"""The thread that owns MLX, its queue, admission, and the models on this machine."""
