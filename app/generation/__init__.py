"""Text that a language model writes: options, service and stream."""
