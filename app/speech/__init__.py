"""Speech synthesis: options, service, and the stream of one request."""
