"""OpenAI's realtime sockets: sessions of transcription, and what sessions of translation share with them."""
