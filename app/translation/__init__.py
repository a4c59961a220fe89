"""Translation: service, plan of a request, stream of sentences, and live translation before speech."""
