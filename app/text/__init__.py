"""Text to phonemes: normalization, sentence splitting, markup, pronunciation. See `app.text.planner`."""
