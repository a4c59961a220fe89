"""The decoding step as a kernel."""
