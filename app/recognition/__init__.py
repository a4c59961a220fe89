"""Speech recognition: options, service, the stream of one request, and the forms of its transcript."""
