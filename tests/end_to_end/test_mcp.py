"""The official client of the Model Context Protocol starts `nightingale mcp`, which asks a real server process."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
from mcp import Client, StdioServerParameters, stdio_client

from tests.processes import run, wait_until

SENTENCE = "Please open the window and close the door."


def talk(url, work, *arguments, env=None):
    """Start the command for `url`, and return what `work` does with a client of it."""
    args = ["-m", "app", "mcp", "--url", url, *arguments]

    async def inside():
        command = StdioServerParameters(command=sys.executable, args=args, env=env)
        async with asyncio.timeout(180), Client(stdio_client(command)) as client:
            return await work(client)

    return asyncio.run(inside())


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


def test_tools_say_what_they_do(server):
    tools = {tool.name: tool for tool in talk(server, lambda client: client.list_tools()).tools}
    assert set(tools) == {"speak", "translate", "list_voices", "transcribe"}
    reads = [name for name, tool in tools.items() if tool.annotations.read_only_hint]
    assert reads == ["translate", "list_voices", "transcribe"]
    assert tools["speak"].annotations.destructive_hint is False
    assert tools["speak"].input_schema["required"] == ["text"]
    assert tools["translate"].output_schema["required"] == ["text", "source", "target", "model"]


def test_speak_returns_audio(server, share_heard):
    async def work(client):
        result = await client.call_tool("speak", {"text": SENTENCE, "voice": "af_heart", "format": "wav"})
        assert not result.is_error
        (audio,) = result.content
        return audio

    audio = talk(server, work)
    assert (audio.type, audio.mime_type) == ("audio", "audio/wav")
    assert share_heard(SENTENCE, base64.b64decode(audio.data)) >= 0.5


def test_translate_and_voices(server):
    async def work(client):
        asked = {"text": "Where is the train station?", "target": "fr", "model": "phrasebook"}
        translated = await client.call_tool("translate", asked)
        women = await client.call_tool("list_voices", {"language": "EN_us", "gender": "female"})
        nobody = await client.call_tool("list_voices", {"language": "e"})
        return translated.structured_content, women.structured_content, nobody.structured_content

    translated, women, nobody = talk(server, work)
    assert (translated["source"], translated["target"], translated["model"]) == ("en", "fr", "phrasebook")
    assert "gare" in translated["text"]
    assert [voice["id"] for voice in women["voices"]] == ["af_heart"]
    assert nobody == {"voices": []}


def test_files_stay_in_their_folders(server, tmp_path):
    written, read, outside = (tmp_path / name for name in ("written", "read", "outside.wav"))
    written.mkdir()
    read.mkdir()
    outside.write_bytes(b"a secret")
    (written / "linked.wav").symlink_to(outside)
    (read / "linked.wav").symlink_to(outside)
    os.mkfifo(read / "pipe.wav")
    (read / "empty.wav").touch()

    async def work(client):
        spoken = await client.call_tool("speak", {"text": SENTENCE, "file": "new.wav", "format": "wav"})
        assert not spoken.is_error, spoken.content
        before = outside.read_bytes()
        for name in ("new.wav", "linked.wav"):
            assert "exists" in await refused(client, "speak", text=SENTENCE, file=name)
        for name in ("../new.wav", "/new.wav", ".hidden", "", "a\0b", "a/b", "é\n", "n" * 300):
            assert "plain name" in await refused(client, "speak", text=SENTENCE, file=name), name
        # A request that the server refuses leaves no file.
        assert "am_michael" in await refused(client, "speak", text=SENTENCE, voice="nobody", file="other.wav")
        for name in ("linked.wav", "../outside.wav", str(outside)):
            assert "outside" in await refused(client, "transcribe", file=name), name
        for name in ("pipe.wav", ".", "absent.wav", "a\0b", "empty.wav", "n" * 5_000):
            assert re.search("not a file|cannot be read|empty", await refused(client, "transcribe", file=name)), name
        assert outside.read_bytes() == before

    talk(server, work, "--output", str(written), "--input", str(read))
    assert sorted(path.name for path in written.iterdir()) == ["linked.wav", "new.wav"]
    assert 1 < soundfile.info(written / "new.wav").duration < 8


def test_what_is_wrong_is_an_error_of_the_tool(server):
    async def work(client):
        assert "unknown voice 'nobody'" in await refused(client, "speak", text="Hi.", voice="nobody")
        assert "letter or digit" in await refused(client, "speak", text="...")
        assert "20000" in await refused(client, "speak", text="word " * 20_000)
        assert "less than or equal to 4" in await refused(client, "speak", text="Hi.", speed=9)
        assert "valid string" in await refused(client, "speak", text=["Hi."])
        assert "malformed" in await refused(client, "speak", text="<speak>Hi")
        unknown = {"text": "Hi.", "target": "xx", "model": "phrasebook"}
        assert "no language is called" in await refused(client, "translate", **unknown)
        assert "not base64" in await refused(client, "transcribe", audio="%%%")
        assert "either" in await refused(client, "transcribe")
        assert "either" in await refused(client, "transcribe", audio="AAAA", file="a.wav")
        assert "--output FOLDER" in await refused(client, "speak", text=SENTENCE, file="new.wav")
        assert "--input FOLDER" in await refused(client, "transcribe", file="a.wav")
        # The process has survived them all, and serves several calls at once.
        asked = [client.call_tool("speak", {"text": f"Number {count}."}) for count in range(4)]
        assert [result.is_error for result in await asyncio.gather(*asked)] == [False] * 4

    talk(server, work)


def test_transcribe(listening, speech, tmp_path):
    (tmp_path / "spoken.ogg").write_bytes(speech)

    async def work(client):
        by_file = await client.call_tool("transcribe", {"file": "spoken.ogg", "language": "en"})
        by_audio = await client.call_tool("transcribe", {"audio": base64.b64encode(speech).decode()})
        noise = await refused(client, "transcribe", audio=base64.b64encode(b"no recording at all").decode())
        return by_file.structured_content, by_audio.structured_content, noise

    by_file, by_audio, noise = talk(listening, work, "--input", str(tmp_path))
    assert by_file["text"].startswith("en second 0.")
    assert "second 5." in by_audio["text"]
    assert "recording" in noise


def test_without_a_server():
    async def work(client):
        return await refused(client, "list_voices"), await refused(client, "speak", text="Hi.")

    for message in talk("http://127.0.0.1:9", work):
        assert "no server answers at http://127.0.0.1:9; start one with: nightingale serve" in message


def test_play_on_the_loudspeaker(server, tmp_path, monkeypatch):
    """A program in the place of the player keeps what it is given."""
    player = tmp_path / "afplay"
    player.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "$last" {tmp_path}/played.wav\n')
    player.chmod(0o755)
    # Without the extra `play`: a module that cannot be imported.
    (tmp_path / "sounddevice.py").write_text("raise ImportError")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    result = talk(server, lambda client: client.call_tool("speak", {"text": SENTENCE}), "--play", env=path)
    assert not result.is_error, result.content
    seconds = float(re.fullmatch(r"spoken, ([\d.]+) seconds", result.content[0].text)[1])
    assert soundfile.info(tmp_path / "played.wav").duration == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_no_half_of_a_file(server, tmp_path, end):
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "speak", "arguments": {"text": f"{SENTENCE} " * 400, "file": "long.wav", "format": "wav"}}
    lines = [
        {"id": 1, "method": "initialize", "params": start},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    command = [sys.executable, "-m", "app", "mcp", "--url", server, "--output", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line in lines:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
        process.stdin.flush()
        try:
            wait_until((tmp_path / "long.wav").exists)
            process.send_signal(end)
            assert process.wait(20) == 130
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_sends_rubbish_and_leaves(server):
    lines = [
        "rubbish",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "nothing"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "speak", "arguments": 3}}),
    ]
    done = run(sys.executable, "-m", "app", "mcp", "--url", server, input="\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in done.stdout.splitlines())
