"""OpenAI's surface: speech, transcriptions, models and realtime sessions."""
