"""Requests of SillyTavern's provider "OpenAI Compatible", as its server sends them (src/endpoints/openai.js)."""

from __future__ import annotations

import httpx
import pytest

TEXT = "Please open the window and close the door."


# Without a stored key the header is "Bearer ", of which HTTP keeps no space.
@pytest.mark.parametrize(("voice", "key", "speed"), [("af_heart", "Bearer", 1), ("alloy", "Bearer none", 1.05)])
def test_generate_voice(server, share_heard, voice, key, speed):
    body = {"input": TEXT, "response_format": "mp3", "voice": voice, "speed": speed, "model": "tts-1"}
    reply = httpx.post(f"{server}/v1/audio/speech", json=body, headers={"Authorization": key, "User-Agent": "node"})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "audio/mpeg"
    assert share_heard(TEXT, reply.content) >= 0.5
