"""Replay a language model's answer token by token into a running server, and measure how soon it is heard.

    python loadtest/llm_stream.py --url http://127.0.0.1:8000 --rate 50 --runs 5 [--translate-to es --model phrasebook]

Reports the first audio (from the first token sent to the first byte of audio); for each sentence the lag from the
token that ends it to its first byte of audio; the silence that a listener hears between pieces; and what the server
says it spent waiting for boundaries, translating and speaking. A lag is not heard while earlier audio still plays:
short sentences then wait for each other. With `--no-anticipation` nothing is translated before its sentence ends: the
difference is what speculation gains.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import re
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

ANSWER = (
    "Where is the train station? The museum is next to the bridge. Turn left after the church. "
    "The train station is on the right. Thank you very much. Good night."
)


@dataclass
class Run:
    """One replay: when each token was sent, and when the audio of each sentence began (perf_counter)."""

    started: float = 0.0
    sent: list[tuple[int, float]] = field(default_factory=list)
    heard: list[tuple[str, float]] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)
    silence: float = 0.0
    _played_out: float = 0.0

    def hear(self, seconds: float, now: float) -> None:
        """Add audio of that length, and the silence before it for a listener who started at once."""
        if self._played_out:
            self.silence += max(0.0, now - self._played_out)
        self._played_out = max(self._played_out, now) + seconds

    def sent_at(self, position: int) -> float:
        """Return the time at which the character at `position` was sent."""
        return next(at for end, at in self.sent if end >= position)


def tokens(text: str) -> list[str]:
    """Return pieces of about a token's size: words cut after their fourth letter, with the space before."""
    return re.findall(r"\s*[^\s\w]|\s*\w{1,4}|\s+$", text)


async def send_all(socket: ClientConnection, text: str, options: argparse.Namespace, run: Run) -> None:
    """Replay `text` at `options.rate` tokens a second."""
    position = 0
    start = run.started = time.perf_counter()
    for number, token in enumerate(tokens(text)):
        await asyncio.sleep(max(0.0, start + number / options.rate - time.perf_counter()))
        position += len(token)
        run.sent.append((position, time.perf_counter()))
        await socket.send(json.dumps({"type": "text", "text": token}))
    await socket.send(json.dumps({"type": "end"}))


async def replay(options: argparse.Namespace, text: str) -> Run:
    """Send the text and record the reply."""
    run = Run()
    start: dict[str, Any] = {"type": "start", "input": "llm", "voice": options.voice}
    start |= {"anticipate": not options.no_anticipation}
    if options.translate_to:
        start |= {"translate_to": options.translate_to, "source": options.source, "translate_model": options.model}
        start |= {"any_language": True}
    url = options.url.replace("http", "ws", 1) + "/v1/audio/stream"
    async with connect(url) as socket:
        await socket.send(json.dumps(start))
        while (ready := json.loads(await socket.recv()))["type"] == "loading":
            pass
        if ready["type"] != "ready":
            raise SystemExit(ready["error"]["message"])
        sending = asyncio.create_task(send_all(socket, text, options, run))
        waiting: str | None = None
        async for message in socket:
            if isinstance(message, bytes):
                if waiting is not None:
                    run.heard.append((waiting, time.perf_counter()))
                    waiting = None
                continue
            event = json.loads(message)
            if event["type"] == "error":
                raise SystemExit(event["error"]["message"])
            if event["type"] == "done":
                run.done.append(event)
                continue
            run.hear(event["duration"], time.perf_counter())
            if event.get("source_text"):
                waiting = event["source_text"]
        await sending
    return run


def lags(run: Run) -> list[float]:
    """Return the seconds from the last character of each sentence, or clause, to its first byte of audio."""
    found, position = [], 0
    for source, at in run.heard:
        position += len(source)
        found.append(at - run.sent_at(position - (len(source) - len(source.rstrip()))))
    return found


def main() -> None:
    """Parse the command line, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--text", type=Path, help="file with the answer (default: some everyday sentences)")
    parser.add_argument("--rate", type=float, default=50.0, help="tokens a second (default 50)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--voice")
    parser.add_argument("--translate-to", help="translate first, into this language")
    parser.add_argument("--source", default="en")
    parser.add_argument("--model", help="translation model")
    parser.add_argument("--no-anticipation", action="store_true", help="translate whole sentences only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    text = options.text.read_text() if options.text else ANSWER
    runs = [asyncio.run(replay(options, text)) for _ in range(options.runs + 1)][1:]
    first = [run.heard[0][1] - run.started for run in runs]
    every = sorted(lag for run in runs for lag in lags(run))
    total = {
        stage: statistics.median(sum(done["stages"].get(stage, 0.0) for done in run.done) for run in runs)
        for stage in sorted({stage for run in runs for done in run.done for stage in done["stages"]})
    }
    report = {
        "machine": platform.machine(),
        "tokens": len(tokens(text)),
        "rate": options.rate,
        "runs": options.runs,
        "first_audio_ms": [round(1e3 * value, 1) for value in first],
        "lag_ms": {
            "median": round(1e3 * statistics.median(every), 1),
            "p95": round(1e3 * every[int(0.95 * (len(every) - 1))], 1),
            "most": round(1e3 * every[-1], 1),
        },
        "silence_ms": [round(1e3 * run.silence, 1) for run in runs],
        "stage_ms": {stage: round(1e3 * seconds, 1) for stage, seconds in total.items()},
    }
    print(f"{report['tokens']} tokens at {options.rate:g} a second, {options.runs} runs, {len(runs[0].heard)} pieces")
    print(f"first audio, from the first token: median {1e3 * statistics.median(first):.0f} ms")
    print("lag from the end of a piece to its audio:", ", ".join(f"{k} {v} ms" for k, v in report["lag_ms"].items()))
    print(f"silence between pieces, whole answer: median {1e3 * statistics.median(run.silence for run in runs):.0f} ms")
    print("the server's stages, whole answer:", ", ".join(f"{k} {v}" for k, v in report["stage_ms"].items()), "ms")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
