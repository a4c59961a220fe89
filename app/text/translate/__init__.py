"""What translation needs to know of a text: its language, its sentences, and what must not be translated."""
