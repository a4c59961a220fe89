"""Native code for CPUs: the process before MLX loads (`process`), the module of kernels (`build`, `kernels`)."""
