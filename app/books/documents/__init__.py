"""Documents: text, Markdown, HTML, EPUB, DOCX and subtitles, as chapters of passages that can be spoken."""
