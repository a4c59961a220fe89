"""PCM, containers and resampling."""
