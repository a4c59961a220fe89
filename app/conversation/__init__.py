"""Conversations: a language model's answer, spoken while it is written."""
