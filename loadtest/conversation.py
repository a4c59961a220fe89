"""Conversations: seconds from the end of what somebody says to the first audio of the answer, by stage.

    python -m loadtest.conversation RECORDING ... [--url http://127.0.0.1:8000] [--model NAME] [--rounds 3]

Each recording is one turn of a session of its own on `WS /v1/realtime`, sent as fast as it was spoken, with silence
after it. The end of speech is that of its last 20 ms louder than a hundredth of its loudest. Stages: `turn` until the
server says that the speech stopped (of which the pause is 0.5 s), `text` until the text of the turn, `first text` until
the first text of the answer that is spoken, `first audio` until its audio; each since the end of speech.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile
import soxr
from websockets.asyncio.client import connect

RATE: Final = 24_000
PIECE_SECONDS: Final = 0.05
MAX_SECONDS: Final = 12.0
SILENCE_SECONDS: Final = 6.0
INSTRUCTIONS: Final = "You are a voice assistant. Answer in one short sentence."
STAGES: Final = {
    "turn": "input_audio_buffer.speech_stopped",
    "text": "conversation.item.input_audio_transcription.completed",
    "first text": "response.output_audio_transcript.delta",
    "first audio": "response.output_audio.delta",
}


def read(path: Path) -> npt.NDArray[np.int16]:
    """Return a recording at 24 kHz, up to the end of its speech."""
    data, rate = soundfile.read(path, dtype="float32", always_2d=True)
    pcm = soxr.resample(data.mean(axis=1)[: round(MAX_SECONDS * rate)], rate, RATE)
    frames = np.abs(pcm[: pcm.size // 480 * 480].reshape(-1, 480)).max(axis=1)
    end = (np.flatnonzero(frames > frames.max() / 100)[-1] + 1) * 480
    result: npt.NDArray[np.int16] = (np.clip(pcm[:end], -1, 1) * 32_767).astype(np.int16)
    return result


async def talk(url: str, model: str, pcm: npt.NDArray[np.int16]) -> dict[str, float]:
    """Say one recording; return the seconds of each stage since its end."""
    address = f"{url.replace('http', 'ws', 1)}/v1/realtime?model={model}"
    async with connect(address, compression=None, max_size=None) as socket:
        session: dict[str, Any] = {
            "type": "realtime",
            "instructions": INSTRUCTIONS,
            "max_output_tokens": 60,
            "audio": {"input": {"transcription": {"language": "en"}}},
        }
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        ended = asyncio.get_running_loop().create_future()
        sending = asyncio.create_task(_send(socket, pcm, ended))
        seen: dict[str, float] = {}
        try:
            while True:
                event = json.loads(await asyncio.wait_for(socket.recv(), MAX_SECONDS + SILENCE_SECONDS))
                seen[event["type"]] = seen.get(event["type"], time.perf_counter())
                if event["type"] == "error" or event.get("response", {}).get("status") == "failed":
                    raise SystemExit(f"the server answers: {event}"[:500])
                if event["type"] == STAGES["turn"]:
                    # A pause within the recording may have ended a turn: the last one counts.
                    seen = {event["type"]: time.perf_counter()}
                if STAGES["first audio"] in seen and ended.done():
                    break
        except TimeoutError:
            print("no answer: the last turn had no words, or the model wrote none", file=sys.stderr)
            return {}
        finally:
            sending.cancel()
        return {stage: seen[kind] - ended.result() for stage, kind in STAGES.items() if kind in seen}


async def _send(socket: Any, pcm: npt.NDArray[np.int16], ended: asyncio.Future[float]) -> None:
    """Send a recording and silence, as fast as they sound; `ended` gets the time of the recording's end."""
    size = round(PIECE_SECONDS * RATE)
    whole = np.concatenate([pcm, np.zeros(round(SILENCE_SECONDS * RATE), np.int16)])
    begun = time.perf_counter()
    for start in range(0, whole.size, size):
        await asyncio.sleep(max(0.0, begun + (start + size) / RATE - time.perf_counter()))
        audio = base64.b64encode(whole[start : start + size].tobytes()).decode()
        await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        if start + size >= pcm.size and not ended.done():
            ended.set_result(begun + pcm.size / RATE)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="gpt-realtime")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    turns = []
    for number in range(options.rounds):
        for path in options.recordings:
            turns.append(asyncio.run(talk(options.url, options.model, read(path))))
            print(f"round {number + 1} {path.name}: {turns[-1]}", file=sys.stderr)
    print(f"{'stage':12} {'p50, s':>7} {'p95, s':>7}  turns")
    for stage in STAGES:
        times = sorted(turn[stage] for turn in turns if stage in turn)
        late = times[min(len(times) - 1, round(0.95 * len(times)))]
        print(f"{stage:12} {statistics.median(times):7.2f} {late:7.2f}  {len(times)}")


if __name__ == "__main__":
    main()
