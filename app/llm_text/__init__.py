"""Text of a language model to text that can be spoken."""
