"""Audio: PCM, encoders, decoders of recordings, resampling, subtitles and the watermark."""
