"""The command as a person uses it: its output, its exit status, and the processes that show both for real."""

from __future__ import annotations

import dataclasses
import json
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import soundfile

import app
from app.cli import models
from app.config import Settings
from app.engine import catalog
from app.lexicons.store import LexiconStore
from app.lifecycle import invitation
from app.text.lexicon import Lexicon, LexiconEntry
from models.kokoro.pipeline import KokoroSynthesizer
from tests.app.cli.conftest import one_line
from tests.app.engine import hub_server
from tests.processes import start_process, wait_until

SENTENCE = "Please open the window and close the door."


# say


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3"])
def test_say_writes_a_file_that_a_recognizer_understands(call, recognize, tmp_path, suffix):
    path = tmp_path / f"speech.{suffix}"
    done = call("say", SENTENCE, "-o", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    pcm, rate = soundfile.read(path, dtype="float32")
    assert rate == 24_000
    assert 1.5 < len(pcm) / rate < 6
    heard = recognize(pcm, rate).split()
    assert sum(word in heard for word in SENTENCE.lower().rstrip(".").split()) >= 5
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_say_reads_standard_input_and_takes_its_options(run, tmp_path):
    path = tmp_path / "fast.wav"
    options = ["--speed", "2", "--voice", "af_heart", "--seed", "3", "--lang", "en-us", "--model", "house"]
    done = run("say", "-", "-o", str(path), *options, stdin=SENTENCE.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert 0.8 < soundfile.info(path).duration < 2.0


@pytest.mark.slow
def test_say_reads_words_as_lexicons_say(call, environment, tmp_path):
    (tmp_path / "words.txt").write_text("window = gate\n")
    store = LexiconStore(Path(environment["NIGHTINGALE_DATA_DIR"]) / "lexicons", most=10)
    kept = store.add("mine", Lexicon([LexiconEntry("window", alias="wall"), LexiconEntry("door", alias="book")]), None)
    words = ["--lexicon", str(tmp_path / "words.txt")]
    for options, text in (
        (words, "Please open the gate and close the door."),
        ([*words, "--lexicon", kept.id], "Please open the gate and close the book."),
        (["--lexicon", kept.id, *words], "Please open the wall and close the book."),
    ):
        done = call("say", SENTENCE, "-o", "-", "--format", "pcm", *options)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == call("say", text, "-o", "-", "--format", "pcm").stdout


def test_say_names_what_it_does_not_use_of_ssml(call, tmp_path):
    done = call("say", "<speak>A <blink>fine</blink> day.</speak>", "-o", str(tmp_path / "x.wav"))
    assert (done.returncode, done.stderr) == (0, b"nightingale: not used: blink\n")


@pytest.mark.slow
def test_say_writes_to_standard_output(run, recognize):
    done = run("say", SENTENCE, "-o", "-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"RIFF")
    assert "window" in recognize(done.stdout).split()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["say"], "TEXT"),
        (["say", "  "], "no text"),
        (["say", "-"], "no text"),
        (["say", "?!", "-o", "x.wav"], "nothing to speak"),
        (["say", "x", "-o", "x.xyz"], "'xyz'; accepted are: wav"),
        (["say", "x", "-o", "x"], "no suffix"),
        (["say", "x", "--format", "pcm"], "--format needs -o"),
        (["say", "x", "-o", "-", "--format", "xyz"], "'xyz'; accepted are"),
        (["say", "--from", "morse"], "stream-json"),
        (["say", "--from", "stream-json", "-o", "x.wav", "--lang", "tlh"], "accepted are"),
        (["say", "x", "-o", "x.wav", "--speed", "9"], "0.25 to 4"),
        (["say", "x", "-o", "x.wav", "--speed", "fast"], "0.25 to 4"),
        (["say", "x", "-o", "x.wav", "--seed", "-1"], "whole number"),
        (["say", "x", "-o", "x.wav", "--model", "piper"], "'piper'"),
        (["say", "x", "-o", "x.wav", "--voice", "nobody"], "am_michael"),
        (["say", "x", "-o", "x.wav", "--lang", "tlh"], "accepted are"),
        (["say", "x", "-o", "x.wav", "--model", "nllb"], "translates"),
        (["say", "x", "-o", "x.wav", "--lexicon", "lexicon_" + 24 * "0"], "There is no lexicon"),
        (["say", "x", "-o", "x.wav", "--lexicon", __file__], "test_main.py: line 1"),
        (["translate", "x"], "--target"),
        (["translate", " ", "--target", "fr"], "no text"),
        (["translate", "-", "--target", "fr"], "no text"),
        (["translate", "x", "--target", "fr", "--model", "house"], "speaks"),
        (["translate", "x", "--target", "fr", "--beams", "9"], "1 to 8"),
        (["translate", "x", "--target", "fr", "--format", "pdf"], "markdown"),
        (["dance"], "dance"),
        (["serve", "--port", "99999"], "0 to 65535"),
        (["models", "pull", "piper"], "'piper'"),
        (["models", "verify", "piper"], "'piper'"),
        (["bench", "--repeat", "0"], "whole number"),
        (["models", "list", "--config", "absent.toml"], "absent.toml"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(call, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert says in one_line(call(*arguments), 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["say", "x", "-o", "x.wav", "--model", "kokoro"], "nightingale models pull kokoro-82m"),
        (["say", "x", "-o", "/nowhere/x.wav"], "/nowhere/"),
        (["say", "--from", "stream-json", "/nowhere/stream.jsonl", "-o", "x.wav"], "/nowhere/stream.jsonl"),
        (["say", "x", "-o", "x.wav", "--lexicon", "/nowhere/words.txt"], "/nowhere/words.txt"),
        (["bench", "--model", "kokoro-82m"], "nightingale models pull kokoro-82m"),
        (["translate", "x", "--target", "fr"], "nightingale models pull small-100"),
        (["transcribe", __file__, "--model", "whisper-base"], "--local-dir models/whisper-base"),
        (["models", "pull", "house"], "nothing to pull"),
        (["models", "pull", "kokoro", "--endpoint", "ftp://x"], "http"),
        (["models", "import", __file__, "--model", "zz"], "only language models"),
    ],
)
def test_failure_is_one_line_and_status_1(call, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert says in one_line(call(*arguments), 1)
    assert list(tmp_path.glob("*.wav*")) == []


def test_a_process_ends_with_that_status(run, environment):
    assert "dance" in one_line(run("dance"), 2)
    assert "/nowhere/" in one_line(run("say", "x", "-o", "/nowhere/x.wav"), 1)
    command = [sys.executable, "-m", "app", "speech-dispatcher"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, check=False)
    assert "with pipes" in one_line(done, 1)


def test_standard_input_that_is_no_text(call):
    assert "UTF-8" in one_line(call("say", "-", "-o", "x.wav", stdin=b"\xff\xfe\x00"), 2)


def test_say_without_a_way_to_play_says_what_to_install(call, tmp_path, monkeypatch):
    # No sounddevice, and no program on PATH.
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    error = one_line(call("say", SENTENCE, PATH=str(tmp_path)), 1)
    assert "nightingale extras install play" in error
    assert "-o" in error


def test_say_plays_through_a_program_and_passes_its_failure_on(call, tmp_path, monkeypatch):
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    monkeypatch.syspath_prepend(tmp_path)
    player = tmp_path / "bin" / "aplay"
    player.parent.mkdir()
    player.write_text(f'#!/bin/sh\n/bin/cp "$2" {tmp_path}/played.wav\n')
    player.chmod(0o755)
    path = str(player.parent)  # alone: a machine may have another player
    done = call("say", SENTENCE, PATH=path)
    assert (done.returncode, done.stderr) == (0, b"")
    pcm, rate = soundfile.read(tmp_path / "played.wav")
    assert 1.5 < len(pcm) / rate < 6
    player.write_text("#!/bin/sh\necho the card is gone >&2\nexit 3\n")
    assert "the card is gone" in one_line(call("say", "Hello.", PATH=path), 1)


class SoundCard:
    """A stand-in for the sound card that a machine may not have."""

    def __init__(self, samplerate: int, channels: int, dtype: str) -> None:
        assert (samplerate, channels, dtype) == (24_000, 1, "float32")
        self.blocks: list[np.ndarray] = []
        self.steps: list[str] = []

    def write(self, block: np.ndarray) -> None:
        assert block.dtype == "float32" and block.shape[1] == 1
        self.blocks.append(block)

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.steps.append(name)


def test_say_plays_through_sounddevice_as_audio_comes(call, monkeypatch):
    cards: list[SoundCard] = []

    def open_card(**options: object) -> SoundCard:
        cards.append(SoundCard(**options))
        return cards[0]

    module = SimpleNamespace(OutputStream=open_card, PortAudioError=type("PortAudioError", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    done = call("say", SENTENCE)
    assert (done.returncode, done.stderr) == (0, b"")
    (card,) = cards
    assert card.steps == ["start", "stop", "close"]
    played = np.concatenate(card.blocks)
    assert 1.5 < played.shape[0] / 24_000 < 6
    assert np.abs(played).max() > 0.05


@pytest.mark.slow
def test_interrupted_say_leaves_no_file(environment, tmp_path):
    path = tmp_path / "long.wav"
    command = [sys.executable, "-m", "app", "say", "-", "-o", str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    try:
        process.stdin.write((SENTENCE + " ").encode() * 400)
        process.stdin.close()
        partial = path.with_name(".long.wav.partial")
        wait_until(lambda: process.poll() is not None or (partial.exists() and partial.stat().st_size > 100_000))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"nightingale: interrupted\n"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert list(tmp_path.glob("*.wav*")) == []
    assert not partial.exists()


# serve


def test_serve_says_that_an_address_is_taken(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        error = one_line(run("serve", "--port", port), 1)
    assert f"port {port}" in error
    assert "in use" in error


@pytest.mark.parametrize("variable", ["NIGHTINGALE_DEFAULT_MODEL", "NIGHTINGALE_PRELOAD"])
def test_serve_refuses_a_model_that_does_not_exist(call, variable):
    assert "'piper'; accepted are" in one_line(call("serve", "--port", "0", **{variable: "piper"}), 2)


@pytest.mark.parametrize(
    ("variable", "value"), [("PORT", "many"), ("NIGHTINGALE_WARMUP", "some"), ("NIGHTINGALE_X", "1")]
)
def test_serve_names_a_wrong_variable(call, variable, value):
    assert variable in one_line(call("serve", **{variable: value}), 2)


def test_serve_reads_its_settings_file_and_flags_win(environment, tmp_path):
    settings = tmp_path / "settings.toml"
    settings.write_text('host = "127.0.0.1"\nport = 1\nwarmup = "none"\n')
    command = [sys.executable, "-m", "app", "serve", "--config", settings, "--port", "0"]
    with start_process(tmp_path, command, "/livez", env=environment) as process:
        wait_until(lambda: "ready: " in process.log.read_text())
        ready = next(line for line in process.log.read_text().splitlines() if "ready: " in line)
        assert f"open {process.url}/ in a browser" in ready
        command = shlex.split(ready[ready.index("curl ") :])
        assert command[1] == f"{process.url}/v1/audio/speech"
        body = command[command.index("-d") + 1]
        assert httpx.post(command[1], content=body, headers={"Content-Type": "application/json"}).content[:4] == b"RIFF"
        process.popen.send_signal(signal.SIGINT)
        assert process.popen.wait(60) == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ["open http://127.0.0.1:8123/ ", "-o hello.wav"]),
        ({"host": "::"}, ["open http://localhost:8123/ "]),
        ({"host": "::1", "default_format": "mp3"}, ["open http://[::1]:8123/ ", "-o hello.mp3"]),
        ({"keys_file": "keys.toml"}, ["-H 'Authorization: Bearer YOUR_KEY'"]),
    ],
)
def test_the_line_that_says_what_to_do(changes, says):
    line = invitation(Settings(**changes), 8123)
    assert all(part in line for part in says)
    assert "\n" not in line


def test_alone_it_says_what_it_can_do(call):
    done = call()
    assert (done.returncode, done.stderr) == (0, b"")
    assert {"serve", "say", "translate", "models", "extras"} <= set(done.stdout.decode().split())
    assert b"nightingale serve" in done.stdout


def test_a_failure_inside_a_model_is_told_with_its_cause(call, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("cannot create directories: Permission denied")

    monkeypatch.setattr(KokoroSynthesizer, "stream", fail)
    error = one_line(call("say", "Hello.", "-o", str(tmp_path / "x.wav")), 1)
    assert "Model 'house' failed: RuntimeError." in error
    assert "Permission denied" in error


# models


def test_list_and_verify(call, tmp_path):
    rows = {row["name"]: row for row in json.loads(call("models", "list", "--json").stdout)}
    assert rows["house"]["status"] == "ready"
    # What answers a request that names no model: no translator does.
    assert {name for name, row in rows.items() if row["default"]} == {"house", "ear"}
    assert rows["kokoro-82m"]["install"] == "nightingale models pull kokoro-82m"
    assert rows["kokoro-82m"]["directory"] == str(tmp_path / "data" / "models" / "kokoro-82m")
    table = call("models", "list").stdout.decode()
    assert "* house" in table
    assert "nightingale models pull kokoro-82m" in table
    assert (rows["house"]["kind"], rows["nllb-200-distilled-600m"]["kind"]) == ("text-to-speech", "translation")
    assert "CC-BY-NC-4.0; no commercial use" in table
    assert "MIT; commercial use allowed" in table
    permitted = {name for name, row in rows.items() if row["kind"] == "translation" and row["commercial_use"]}
    others = {"small-100", "m2m100-418m", "m2m100-1.2b", "phrasebook"}
    assert permitted == others | {"hy-mt2-1.8b", "translategemma-4b"}
    assert "hf download facebook/nllb-200-1.3B config.json pytorch_model.bin tokenizer.json" in table
    done = call("models", "verify")
    assert done.returncode == 0
    assert done.stdout.startswith(b"house: 3 files intact")
    done = call("models", "verify", "kokoro-82m")
    assert done.returncode == 1
    assert b"kokoro-82m: kokoro-v1_0.pth: missing" in done.stdout
    assert b"repair with: nightingale models pull kokoro-82m" in done.stdout


def test_list_into_a_pipe_that_closes_is_quiet(environment):
    command = f"{sys.executable} -m app models list --json | head -c 1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, env=environment, timeout=300, check=False)
    assert done.stdout == b"["
    assert done.stderr == b""


FILES = {"config.json": b"{}", "kokoro-v1_0.pth": bytes(range(256)) * 4000, "voices/af_heart.pt": b"voice" * 1000}


@pytest.fixture
def tiny_kokoro(monkeypatch):
    """The catalog's Kokoro with small pinned files, and a hub that has them."""
    entry = catalog.read_entries()["kokoro-82m"]
    pins = tuple(
        catalog.PinnedFile(path, hub_server.hashlib.sha256(content).hexdigest(), len(content))
        for path, content in FILES.items()
    )
    entries = dict(catalog.read_entries()) | {
        "kokoro-82m": dataclasses.replace(
            entry, repository=hub_server.REPOSITORY, revision=hub_server.REVISION, files=pins
        )
    }
    monkeypatch.setattr(catalog, "read_entries", lambda: entries)
    with hub_server.serve(dict(FILES)) as hub:
        yield hub


def test_pull_then_verify_then_default(tiny_kokoro, call, tmp_path):
    done = call("models", "pull", "kokoro", "--endpoint", tiny_kokoro.endpoint)
    assert done.stdout.startswith(b"kokoro-82m: 3 files installed, 0 already in place")
    assert done.returncode == 0 and b"100%" in done.stderr
    done = call("models", "verify", "kokoro-82m")
    assert (done.returncode, done.stdout) == (0, b"kokoro-82m: 3 files intact\n")
    assert b"* kokoro-82m" in call("models", "list").stdout
    (tmp_path / "data" / "models" / "kokoro-82m" / "kokoro-v1_0.pth").write_bytes(b"damaged")
    done = call("models", "verify")
    assert done.returncode == 1 and b"kokoro-82m: kokoro-v1_0.pth: wrong size" in done.stdout
    done = call("models", "pull", "kokoro", "--quiet", "--endpoint", tiny_kokoro.endpoint)
    assert (done.returncode, done.stderr) == (0, b"") and b"1 files installed, 2 already in place" in done.stdout


def test_a_community_checkpoint_is_named_and_left_alone(tiny_kokoro, call, tmp_path):
    folder = tmp_path / "data" / "models" / "kokoro-82m"
    folder.mkdir(parents=True)
    own = {"config.json": FILES["config.json"], "kokoro-v1_0.pth": b"own"}
    for path, content in own.items():
        (folder / path).write_bytes(content)
    done = call("models", "verify", "kokoro-82m")
    said = b"not the pinned files: a community checkpoint? 2 of 3 differ, such as kokoro-v1_0.pth (wrong size)"
    assert (done.returncode, done.stdout) == (1, b"kokoro-82m: " + said + b"\n")
    assert "1 files in" in one_line(call("models", "pull", "kokoro-82m", "--endpoint", tiny_kokoro.endpoint), 1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == own


def test_pulling_a_translator_states_its_license_before_anything_is_fetched(call):
    with hub_server.serve(dict(FILES)) as hub:
        done = call("models", "pull", "nllb", "--endpoint", hub.endpoint)
    assert done.stdout == b"nllb-200-distilled-600m: license CC-BY-NC-4.0; no commercial use\n"
    assert "has no facebook/nllb-200-distilled-600M at revision" in one_line(done, 1)


def test_pull_honors_hf_endpoint(run):
    with hub_server.serve(dict(FILES)) as hub:
        error = one_line(run("models", "pull", "kokoro-82m", HF_ENDPOINT=hub.endpoint), 1)
    assert f"{hub.endpoint} has no hexgrad/Kokoro-82M at revision" in error


# bench and the rest


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_bench_measures_every_stage(call):
    report = json.loads(call("bench", "--repeat", "1", "--json").stdout)
    assert report["model"] == "house"
    assert [row["sentence"] for row in report["rows"]] == ["greeting", "short", "medium", "long"]
    for row in report["rows"]:
        assert {"g2p", "bert", "decoder"} <= row["stages"].keys()
        assert 0 < row["first"] <= row["total"]
        assert row["rtf"] == pytest.approx(row["total"] / row["audio"], rel=0.2)
        assert 0.5 * row["total"] < sum(row["stages"].values()) < 1.05 * row["total"]
    audio = [row["audio"] for row in report["rows"]]
    assert audio == sorted(audio)


def test_version(call):
    assert call("--version").stdout == f"nightingale {app.__version__}\n".encode()


def test_version_and_list_do_not_start_mlx(environment):
    code = "import sys; from app.main import main; main(['models', 'list']); sys.exit('mlx.core' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_the_server_imports_no_parsers_of_documents(environment):
    """A process of its own reads documents."""
    code = "import sys, app.server_process; sys.exit(str({'docx', 'lxml', 'markdown_it'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def test_unexpected_failure_is_one_line_too(monkeypatch, call):
    def broken(*_: object) -> int:
        raise RuntimeError("a bug\nwith two lines")

    monkeypatch.setattr(models, "list_models", broken)
    one_line(call("models", "list"), 1)


def test_a_lexicon_is_checked(call, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("Nguyen = /wˈɪn/\nW3C = World Wide Web\nhello = hello\nNguyen = /x/\n", encoding="utf-8")
    done = call("lexicon", "check", str(path), "--json")
    rows = json.loads(done.stdout)
    notes = {row["text"]: row["note"] for row in reversed(rows)}
    assert next(row for row in rows if row["text"] == "Nguyen's")["phonemes"] == "wˈɪnz"
    assert (notes["Nguyen"], notes["Nguyens"], notes["hello"]) == ("", "not covered", "changes nothing")
    assert (done.returncode, rows[-1]["note"]) == (0, "hidden by an earlier entry")
    path.write_text("Nguyen\n")
    assert "mine.tsv: line 1" in one_line(call("lexicon", "check", str(path)), 2)
