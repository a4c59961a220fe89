"""The house voice's memory: a server that spoke short and long texts needs little once it has nothing to do."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

MOST = 350 << 20
SHORT = ["Hello.", "Yes, please.", "Where did you put the keys?", "The kettle is on, and the tea is nearly ready."]
LONG = (
    "When the old bridge was closed for repairs last winter, the people of both villages took the ferry instead, and "
    "some of them found that they liked the slow crossing better than the drive. "
)


def resident(url: str) -> int:
    """Bytes that the server says it has in memory."""
    found = re.search(r"^process_resident_memory_bytes (\S+)", httpx.get(f"{url}/metrics").text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process does not report its memory")
@pytest.mark.timeout(1_800)
def test_a_mix_of_requests_leaves_little_behind(
    run_house: Callable[..., AbstractContextManager[str]], tmp_path: Path
) -> None:
    texts = [*SHORT, LONG, *SHORT, LONG * 2, *SHORT, *(f"{LONG[:90]} {text}" for text in SHORT), *SHORT[:3]]
    assert len(texts) > 20
    with run_house(tmp_path) as url:
        for at, text in enumerate(texts):
            body = {"input": text, "voice": ("rms", "slt")[at % 2], "response_format": ("wav", "mp3", "opus")[at % 3]}
            httpx.post(f"{url}/v1/audio/speech", json=body, timeout=200).raise_for_status()
        deadline = time.monotonic() + 60
        while resident(url) > MOST and time.monotonic() < deadline:
            time.sleep(0.5)
        assert resident(url) <= MOST
