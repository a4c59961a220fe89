"""The interpreter over its socket, beside faster-whisper, CTranslate2 and Kokoro in PyTorch: same recording, same run.

    python loadtest/interpreter_peers.py [--size base] [--sentences 5] [--rounds 2] [--pause 0.6] [--bits 8]
                                         [--dtype auto] [--device cpu] [--compute int8,float32] [--folder DIR]
                                         [--json FILE]

An English sentence, spoken by the bundled voice, is sent again and again in real time, in frames of 20 ms. Both sides
write it down, translate it to French and speak that. The times count from the end of the spoken sentence, to its
text, its translation, and the first audio. The next sentence begins once the one before is spoken.

Whisper, NLLB-200-distilled-600M and Kokoro-82M have random weights at full size. All is computed, and one fixed text
comes out on both sides (see `fixed_sentence`); a side with another text ends the run. That text would come out of half
a sentence, too. So the server does not show or translate anything while somebody speaks (`partials` and `anticipate`
are off), which it does by default: both sides work when the pause ends the sentence.

The peer is the cascade that people write (see `cascade`): Silero VAD with the server's own settings,
`WhisperModel.transcribe` without times, `Translator.translate_batch`, Kokoro's modules. All of them are greedy, as the
server is. CTranslate2 has the number format of `--compute` that is fastest here, PyTorch float32 or bfloat16. Rounds
alternate between the sides, and one sentence of each side comes before them.
Needs PyTorch, CTranslate2, faster-whisper and openai-whisper (`make interpreterpeers`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from websockets.asyncio.client import connect

from app.audio.pcm import to_int16
from app.audio.vad import SAMPLE_RATE
from app.config import load_settings
from app.text.planner import get_phonemizer
from app.text.types import PhonemizedSentence
from loadtest import fake_kokoro, fixed_sentence, nllb_peers, whisper_peers
from loadtest.cascade import FRAME, POINTS, REST, SENTENCE, TRANSLATION, Recording, Row, Setup, check, commands
from loadtest.cascade import NAME as THEIRS
from loadtest.interpreter import spoken
from loadtest.peers import Peer
from models.backend import device_name
from models.native import kernels
from models.whisper.text import WhisperTokenizer

NLLB, KOKORO = "nllb-200-distilled-600m", "kokoro-82m"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
OURS = "nightingale"
FRAMES_PER_TOKEN = 4
"""Frames of Kokoro for each phoneme, as `kokoro_reference` has them."""
START_SECONDS = 600


async def record(sentence: str) -> Recording:
    """Speak a sentence by the bundled voice."""
    talk = await spoken(load_settings(None), 0.0, (sentence,))
    end = talk.words[-1].end
    return Recording(talk.pcm, round(end * SAMPLE_RATE))


def write(folder: Path, options: argparse.Namespace, seconds: float) -> Setup:
    """Write the checkpoints of both sides below `folder`, unless they are there; return those of the peer."""
    size = nllb_peers.SIZES["nllb"]
    nllb = replace(size, numbers=size.numbers | json.loads(options.nllb))
    whisper, ranks = whisper_peers.config_of(options.size), whisper_peers.tokenizer_file()
    heard, translated, spoken_by = (folder / "models" / name for name in (f"whisper-{options.size}", NLLB, KOKORO))
    setup = Setup(
        whisper=folder / f"{options.size}-ct2",
        nllb=folder / "nllb-ct2",
        phonemes=phonemes(TRANSLATION),
        end=fixed_sentence.time_token(WhisperTokenizer(ranks, whisper), seconds),
        device=options.device,
        kinds=options.compute.split(","),
    )
    if not setup.whisper.exists():
        fixed_sentence.write_whisper(heard, whisper, ranks, SENTENCE, seconds)
        Peer("convert", whisper_peers.convert, heard / WEIGHTS, options.size, setup.whisper).close()
        shutil.copy(heard / TOKENIZER, setup.whisper)
    if not setup.nllb.exists():
        fixed_sentence.write_nllb(translated, nllb, SENTENCE, TRANSLATION)
        Peer("convert", nllb_peers.convert, translated / WEIGHTS, setup.nllb, nllb).close()
        shutil.copy(translated / TOKENIZER, setup.nllb)
    if not spoken_by.exists():
        fake_kokoro.write(spoken_by, frames=FRAMES_PER_TOKEN)
    return setup


def phonemes(text: str) -> int:
    """Return the number of phonemes of a French text."""
    parts = get_phonemizer("fr-fr").segments(text)
    return sum(len(part.phonemes) for part in parts if isinstance(part, PhonemizedSentence))


@contextmanager
def serve(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Run a server with the checkpoints of `folder`; yield its address once it is ready."""
    chosen = {
        "DATA_DIR": str(folder),
        "DEFAULT_MODEL": KOKORO,
        "TRANSLATION_MODEL": NLLB,
        "RECOGNITION_MODEL": f"whisper-{options.size}",
        "PRELOAD": f"{NLLB},whisper-{options.size}",
        "TRANSLATION_BITS": str(options.bits),
        "RECOGNITION_BITS": str(options.bits),
        "DTYPE": options.dtype,
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NIGHTINGALE_")}
    environment |= {f"NIGHTINGALE_{name}": value for name, value in chosen.items()}
    log = folder / "server.log"
    command = [sys.executable, "-m", "app", "serve", "--host", "127.0.0.1", "--port", "0"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"running on (http://[\d.]+:\d+)", log.read_text())
        if found and httpx.get(f"{found[1]}/readyz", timeout=60, trust_env=False).status_code == 200:
            return found[1]
        time.sleep(0.1)
    raise SystemExit(f"the server did not become ready:\n{log.read_text()}")


async def ours(url: str, recording: Recording, count: int, pause: float) -> list[Row]:
    """Interpret the recording `count` times in one session of the server."""
    start = {
        "type": "start",
        "source": "en",
        "target": "fr",
        "voice": fake_kokoro.VOICE,
        "any_language": True,
        "pause": pause,
        "max_speed": 1.0,  # no speech is made shorter
        "max_delay": 600.0,
        "partials": False,
        "anticipate": False,
    }
    rows: list[Row] = []
    address = url.replace("http", "ws", 1) + "/v1/audio/interpret"
    async with connect(address, max_size=None, proxy=None) as socket:
        await socket.send(json.dumps(start))
        await _next(socket, "ready")
        for _ in range(count):
            sent = asyncio.get_running_loop().create_future()
            feeding = asyncio.create_task(_feed(socket, recording, sent))
            try:
                rows.append(await _sentence(socket, sent))
            finally:
                feeding.cancel()
            await asyncio.sleep(REST)
    return rows


async def _feed(socket: Any, recording: Recording, sent: asyncio.Future[float]) -> None:
    """Send the recording in real time, then silence; set `sent` to the moment at which the sentence was sent."""
    begun, left = time.monotonic(), recording.end
    for frame, moment in recording.frames(begun):
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        await socket.send(to_int16(frame).tobytes())
        left -= FRAME
        if left <= 0 and not sent.done():
            sent.set_result(begun + recording.end / SAMPLE_RATE)


async def _sentence(socket: Any, sent: asyncio.Future[float]) -> Row:
    """Read all that the server says of one sentence."""
    await _next(socket, "speech_stopped")
    stopped = time.monotonic()
    text = await _next(socket, "sentence")
    heard = time.monotonic()
    translation = await _next(socket, "translation")
    translated = time.monotonic()
    while not isinstance(await socket.recv(), bytes):
        pass
    said = time.monotonic()
    done = await _next(socket, "sentence_done")
    check(OURS, text["text"], translation["text"])
    end = await sent
    row: Row = dict(zip(POINTS, (heard - end, translated - end, said - end), strict=True))
    row |= {"vad": stopped - end, "recognize": heard - stopped, "audio": done["audio_duration"]}
    return row | dict(done["stages"])


async def _next(socket: Any, kind: str) -> dict[str, Any]:
    """Return the next message of a kind. Raises SystemExit for an error."""
    async for frame in socket:
        if isinstance(frame, str):
            message: dict[str, Any] = json.loads(frame)
            if message["type"] == "error":
                raise SystemExit(f"the server: {message['error']}")
            if message["type"] == kind:
                return message
    raise SystemExit("the server closed the socket")


def show(rows: dict[str, list[Row]]) -> str:
    """Return the table as Markdown, in seconds, and the stages. Ratios are of medians, the last without the pause."""
    lines = [
        f"| end of a sentence to | {OURS} p50 | p95 | most | {THEIRS} p50 | p95 | most | ratio | after the pause |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for point in POINTS:
        cells, whole, work = [], [], []
        for side in (OURS, THEIRS):
            values = [row[point] for row in rows[side]]
            whole.append(statistics.median(values))
            work.append(statistics.median(row[point] - row["vad"] for row in rows[side]))
            cells += [f"{number:.3f}" for number in (whole[-1], np.percentile(values, 95), max(values))]
        cells += [f"{other / mine:.2f}" for mine, other in (whole, work)]
        lines.append(f"| {point} | {' | '.join(cells)} |")
    for side, found in rows.items():
        stages = sorted({name for row in found for name in row} - {*POINTS, "audio"})
        told = (f"{name} {statistics.median(row.get(name, 0.0) for row in found):.3f}" for name in stages)
        audio = statistics.median(row["audio"] for row in found)
        lines += ["", f"{side}, stages at p50: {', '.join(told)}; {audio:.2f} s of speech, {len(found)} sentences"]
    return "\n".join(lines)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, list[Row]]:
    """Run both sides, in turns."""
    recording = asyncio.run(record(SENTENCE))
    setup = write(folder, options, recording.pcm.size / SAMPLE_RATE)
    rows: dict[str, list[Row]] = {OURS: [], THEIRS: []}
    with serve(folder, options) as url:
        peer = Peer(THEIRS, commands, setup, recording)
        for number in range(options.rounds + 1):
            count = options.sentences if number else 1
            mine = asyncio.run(ours(url, recording, count, options.pause))
            other = peer.ask("interpret", recording, count, options.pause)
            if number:
                rows[OURS] += mine
                rows[THEIRS] += other
        peer.close()
    return rows


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base", help="of Whisper")
    parser.add_argument("--nllb", default="{}", help="JSON of what differs from NLLB-200-distilled-600M: for tests")
    parser.add_argument("--sentences", type=int, default=5, help="in a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.6, help="seconds of silence that end a sentence")
    parser.add_argument("--bits", type=int, default=8, help="of the server's Whisper and NLLB; 0: as its dtype")
    parser.add_argument("--dtype", default="auto", help="of the server")
    parser.add_argument("--device", default="cpu", help="of the peer: cpu or cuda")
    parser.add_argument("--compute", default="int8,float32,bfloat16,float16,int8_float16", help="tried by CTranslate2")
    parser.add_argument("--folder", type=Path, help="where the checkpoints are kept for another run")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    machine = f"{platform.machine()}, {device_name()}, {kernels.description()}"
    asked = f"Whisper {options.size}, a pause of {options.pause:g} s"
    print(f"{machine}; {asked}; load {os.getloadavg()[0]:.2f}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        rows = measure(options.folder or Path(scratch), options)
    print(show(rows), f"\nload at the end {os.getloadavg()[0]:.2f}")
    if options.json:
        report = {"machine": machine, "options": vars(options) | {"json": "", "folder": ""}, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1, default=str))


if __name__ == "__main__":
    main()
