"""S3Gen: speech tokens to mel frames to a waveform."""
