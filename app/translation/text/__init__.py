"""Text around translation: languages, documents, markup, glossaries."""
