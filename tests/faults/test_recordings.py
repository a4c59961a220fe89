"""Damaged recordings, uploaded: each is a voice or a refusal, and the server does not grow."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.audio.decoder_process import MEMORY
from tests.app.audio.recordings import corpus, mutated
from tests.processes import memory

CLIENTS = 4
# What the server may keep of them all: one reply and one upload for each that is decoded, and what is lost to malloc.
GROWTH = 96 << 20
# A process that decodes: its limit, what it imports, and a recording with its samples.
DECODER = MEMORY + (160 << 20)


def decoders(pid: int) -> list[int]:
    """Processes of the server `pid` that decode. One that is being started still has the server's memory, and name."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
            found += [
                int(child) for child in children if "decoder_process" in Path(f"/proc/{child}/cmdline").read_text()
            ]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_damaged_recordings(victim: Any, undisturbed: Any, count: int) -> None:
    recordings = list(corpus().values())
    statuses = Counter[int]()
    most = {"server": 0, "decoder": 0, "decoders": 0}
    done = threading.Event()
    before = victim.memory()

    def watch() -> None:
        while not done.wait(0.05):
            sizes = [memory(each) for each in decoders(victim.popen.pid)]
            most["server"] = max(most["server"], victim.memory())
            most["decoder"] = max([most["decoder"], *sizes])
            most["decoders"] = max(most["decoders"], len(sizes))

    def upload(client: httpx.Client, number: int) -> int:
        data = mutated(recordings[number % len(recordings)], random.Random(number))
        files = {"audio_sample": ("a", data)}
        answer = client.post("/v1/audio/voices", data={"name": "Ada", "consent": "true"}, files=files)
        if answer.status_code == 200:
            assert client.delete(f"/v1/audio/voices/{answer.json()['id']}").status_code == 200
        else:
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "unusable_recording"), (number, answer.text)
        return answer.status_code

    def client(first: int) -> list[int]:
        with httpx.Client(base_url=victim.url, timeout=120) as connection:
            return [upload(connection, number) for number in range(first, count, CLIENTS)]

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        with undisturbed(), ThreadPoolExecutor(CLIENTS) as pool:
            for found in pool.map(client, range(CLIENTS)):
                statuses.update(found)
    finally:
        done.set()
        watcher.join()
    print(statuses, {name: value >> 20 if value > 1_000 else value for name, value in most.items()})
    assert set(statuses) == {200, 400}
    assert min(statuses.values()) > count // 20
    assert most["server"] < before + GROWTH, (before, most)
    assert most["decoder"] < DECODER, most
    # Two that decode, and for a moment one that is ended or begun for each.
    assert most["decoders"] <= 5, most
    assert victim.popen.poll() is None
