"""SSML: a document to passages of text, each with the script of how it is spoken."""
