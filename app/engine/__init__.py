"""Model thread, its jobs and their order, admission, and the models on this machine."""
