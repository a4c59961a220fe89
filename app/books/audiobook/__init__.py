"""Audiobooks: a file for each chapter, all of them in one file with chapters, and speech in the times of subtitles."""
