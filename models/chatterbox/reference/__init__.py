"""From a recording to what T3 and S3Gen need to speak in its voice."""
