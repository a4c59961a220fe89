"""A language model's stream through `nightingale say --from stream-json`: speech, and real pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile

from app.cli.local import open_speech
from app.cli.playback import Destination
from app.cli.stream_json import narrate
from app.config import load_settings
from app.errors import NothingToSpeakError
from app.speech.options import SpeechOptions
from models.timeline import Timeline

pytestmark = pytest.mark.slow
STREAMS = Path(__file__).parents[2] / "golden" / "streams"
RATE = 24_000
COMMAND = [sys.executable, "-m", "app", "say", "--from", "stream-json"]


def delta(text: str) -> str:
    """A line of Chat Completions."""
    return json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def lines(text: str) -> bytes:
    """Lines of a few characters each."""
    return b"".join(delta(text[start : start + 5]).encode() + b"\n" for start in range(0, len(text), 5))


@pytest.fixture
def say(call):
    return partial(call, "say", "--from", "stream-json")


@pytest.fixture
def process(environment) -> Iterator[subprocess.Popen[bytes]]:
    """A running command that writes raw PCM, its input open."""
    started = subprocess.Popen(
        [*COMMAND, "-o", "-", "--format", "pcm"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    yield started
    started.kill()
    for pipe in (started.stdin, started.stdout, started.stderr):
        if not pipe.closed:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    started.wait()


def hears(recognize, pcm: np.ndarray, words: str, least: int) -> None:
    heard = recognize(pcm, RATE).split()
    assert sum(word in heard for word in words.split()) >= least, heard


def test_a_stream_becomes_a_file_that_a_recognizer_understands(say, recognize, tmp_path):
    made = []
    for name in ("claude-code-partial.jsonl", "openai-chat.sse"):
        path = tmp_path / "speech.wav"
        done = say("-o", str(path), "--voice", "af_heart", stdin=(STREAMS / name).read_bytes())
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        pcm, rate = soundfile.read(path, dtype="float32")
        assert rate == RATE
        made.append(pcm)
    # Both tell the same text, so that hearing one of them is enough.
    assert made[0].size == pytest.approx(made[1].size, rel=0.05)
    hears(recognize, made[1], "good morning the house is quiet only the wind is in the trees", 8)
    hears(recognize, made[1], "please open the window the window is open now", 6)


def test_speech_begins_before_the_input_ends(process, recognize):
    # One sentence and silence: nothing that follows it says that it has ended.
    process.stdin.write(lines("Please open the window."))
    process.stdin.flush()
    first = process.stdout.read(RATE)  # blocks until there is half a second of sound
    assert np.abs(np.frombuffer(first, "<i2")).max() > 1000
    assert process.poll() is None
    process.stdin.write(lines(" And close the door.\n```\nsome code\n```\n"))
    process.stdin.close()
    pcm = np.frombuffer(first + process.stdout.read(), "<i2")
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    hears(recognize, pcm, "please open the window and close the door", 6)
    assert 1.5 < pcm.size / RATE < 6


def test_broken_lines_are_reported_with_their_number_and_survived(say, tmp_path, recognize):
    path = tmp_path / "speech.flac"
    stdin = delta("Please open") + "\n{broken\n" + delta(" the window.") + "\nnoise\n"
    done = say("-", "-o", str(path), stdin=stdin.encode())
    first, second = done.stderr.decode().splitlines()
    assert done.returncode == 0
    assert first.startswith("nightingale: line 2: not JSON")
    assert second.startswith("nightingale: line 4: not JSON")
    hears(recognize, soundfile.read(path, dtype="float32")[0], "please open the window", 3)


def test_a_failure_of_the_model_is_told_after_what_it_said(say, tmp_path):
    path = tmp_path / "speech.wav"
    error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    done = say("-o", str(path), stdin=lines("Please open the") + error.encode())
    assert done.returncode == 1
    assert done.stderr == b"nightingale: line 4: the model failed: overloaded_error: Overloaded\n"
    assert soundfile.info(path).duration > 0.5


@pytest.mark.parametrize("stdin", [b"", lines("```\nonly code\n```"), b'{"type": "system"}\n', lines("?! ... 😀")])
def test_a_stream_without_text_is_a_failure(say, tmp_path, stdin):
    done = say("-o", str(tmp_path / "speech.wav"), stdin=stdin)
    assert (done.returncode, done.stderr) == (1, b"nightingale: the stream held nothing to say\n")
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_lines_and_a_format_that_is_not_the_suffix(say, tmp_path):
    path = tmp_path / "speech.bin"
    done = say(str(STREAMS / "anthropic.sse"), "-o", str(path), "--format", "wav")
    assert (done.returncode, done.stderr) == (0, b"")
    assert soundfile.info(path).format == "WAV"


def test_a_long_sentence_is_begun_before_it_has_ended_and_can_be_interrupted(process):
    process.stdin.write(lines("When the rain had stopped at last, we went out"))
    process.stdin.flush()
    assert np.abs(np.frombuffer(process.stdout.read(RATE), "<i2")).max() > 1000
    # More sound than a pipe holds, which nobody reads; and a thread that waits for lines.
    process.stdin.write(lines(" into the garden. " + "Please open the window and close the door. " * 3))
    process.stdin.flush()
    process.stdout.read(100)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr.read() == b"nightingale: interrupted\n"


def test_a_reader_that_goes_away_is_quiet(environment):
    shell = f"{' '.join(COMMAND)} {STREAMS / 'anthropic.jsonl'} -o - --format pcm | head -c 100 | wc -c"
    done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, env=environment, timeout=300, check=False)
    assert (done.stdout.strip(), done.stderr) == (b"100", b"")


def test_player_programs_play_piece_by_piece(environment, tmp_path):
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    os.mkfifo(tmp_path / "heard")
    player = tmp_path / "bin" / "aplay"
    player.parent.mkdir()
    player.write_text(f'#!/bin/sh\nwc -c < "$2" > {tmp_path}/heard\n')
    player.chmod(0o755)
    more = {"PATH": f"{player.parent}:/bin:/usr/bin", "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}"}
    started = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment | more
    )
    try:
        started.stdin.write(lines("Please open the window."))
        started.stdin.flush()
        with (tmp_path / "heard").open() as heard:
            assert int(heard.read()) > RATE  # while the input is open
        player.write_text("#!/bin/sh\necho the card is gone >&2\nexit 3\n")
        out, error = started.communicate(lines("Another one, then. "), 60)
        assert (started.returncode, out) == (1, b"")
        assert error == b"nightingale: aplay cannot play: the card is gone; write a file with -o speech.wav\n"
    finally:
        started.kill()
        started.communicate()


# The seam for translation


class Kept:
    """A destination that keeps what it is given."""

    def __init__(self) -> None:
        self.pcm: list[np.ndarray] = []

    def write(self, pcm: np.ndarray) -> None:
        self.pcm.append(pcm)

    def close(self) -> None: ...

    def abandon(self) -> None: ...


def speak(given, out: Destination, **options) -> tuple[bool, Timeline]:
    async def run() -> tuple[bool, Timeline]:
        timeline = Timeline()
        async with open_speech(load_settings(None), "house") as speech:
            stream = await speech.open(SpeechOptions(model="house"), timeline)
            try:
                return await narrate(given, stream, out, report=pytest.fail, **options), timeline
            finally:
                stream.close("cancelled")

    return asyncio.run(run())


def test_errors_of_the_lines_come_out():
    def torn() -> Iterator[str]:
        yield delta("Please open the window. ")
        raise OSError("the disk is gone")

    out = Kept()
    with pytest.raises(OSError, match="the disk is gone"):
        speak(torn(), out)
    with pytest.raises(NothingToSpeakError):
        speak([], Kept())


def test_an_endless_writer_waits_for_the_speaker():
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield delta("Please open the window. ")

    class Full(Kept):
        def write(self, pcm: np.ndarray) -> None:
            super().write(pcm)
            if len(self.pcm) == 3:
                raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        speak(endless(), Full())
    assert read < 1000
