"""Metrics, the log, the record of requests, and traces."""
