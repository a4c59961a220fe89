"""Text to phonemes: normalisation, sentence splitting, markup, pronunciation. See `app.text.phonemizer`."""
