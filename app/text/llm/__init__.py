"""What a language model writes, made speakable while it is being written."""
