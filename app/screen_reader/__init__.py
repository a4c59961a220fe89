"""Output module of speech-dispatcher, through which screen readers such as Orca speak."""
