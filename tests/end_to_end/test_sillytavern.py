"""Requests of SillyTavern's provider "OpenAI Compatible", as its server sends them (src/endpoints/openai.js)."""

from __future__ import annotations

import httpx
import pytest

TEXT = "Please open the window and close the door."


# Without a stored key the header is "Bearer ", of which HTTP keeps no space.
@pytest.mark.parametrize(("voice", "key", "speed"), [("slt", "Bearer", 1), ("alloy", "Bearer none", 1.05)])
def test_generate_voice(server, share_heard, voice, key, speed):
    body = {"input": TEXT, "response_format": "mp3", "voice": voice, "speed": speed, "model": "tts-1"}
    reply = httpx.post(f"{server}/v1/audio/speech", json=body, headers={"Authorization": key, "User-Agent": "node"})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "audio/mpeg"
    assert share_heard(TEXT, reply.content) >= 0.5


def test_a_voice_that_does_not_exist(server):
    """It shows the user the status and the text of the answer."""
    body = {"input": TEXT, "response_format": "mp3", "voice": "nobody", "speed": 1, "model": "tts-1"}
    reply = httpx.post(f"{server}/v1/audio/speech", json=body)
    assert reply.status_code == 400
    assert "rms, slt" in reply.json()["error"]["message"]


def test_a_page_of_sillytavern_is_no_page_of_this_server(server):
    """Its pages ask their own server. A browser that asks here is refused, as other sites are."""
    headers = {
        "Origin": "http://127.0.0.1:8000",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    reply = httpx.options(f"{server}/v1/audio/speech", headers=headers)
    assert "access-control-allow-origin" not in reply.headers
