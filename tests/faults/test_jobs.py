"""A server that is killed in the middle of a job: the next one goes on, and the book is whole."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import av
import httpx

from tests.processes import PATIENCE, Process, metric

PARAGRAPH = "The last bus was late again. We walked along the river instead."
BOOK = "".join(f"Chapter {number}\n\n" + f"{PARAGRAPH}\n\n" * 16 for number in (1, 2))
TOTAL = 34  # with the titles
KILL_AT = 20  # in the second chapter


def chapters(book: bytes) -> list[tuple[str, int]]:
    """Titles and lengths in tenths of a second."""
    with av.open(io.BytesIO(book)) as container:
        assert sum(frame.samples for frame in container.decode(audio=0)) > 24_000 * 60
        return [
            (each["metadata"]["title"], round((each["end"] - each["start"]) * each["time_base"] * 10))
            for each in container.chapters()
        ]


def follow(server: Process, job: str, until: int = TOTAL + 1) -> dict[str, object]:
    """The job when `until` passages are done, or when it has ended."""
    found: dict[str, object] = {}
    with httpx.stream("GET", f"{server.url}/v1/jobs/{job}/events", timeout=PATIENCE) as reply:
        for line in reply.iter_lines():
            if line.startswith("data: "):
                found = json.loads(line[6:])
                counts = found["request_counts"]
                assert isinstance(counts, dict)
                if counts["completed"] >= until:
                    break
    return found


def test_a_killed_server_goes_on(run_server: Callable[..., AbstractContextManager[Process]], tmp_path: Path) -> None:
    with run_server(tmp_path) as first:
        files = {"file": ("day.txt", BOOK)}
        job = httpx.post(f"{first.url}/v1/jobs", files=files, timeout=PATIENCE).raise_for_status().json()["id"]
        seen = follow(first, job, KILL_AT)
        first.popen.send_signal(signal.SIGKILL)
        assert first.popen.wait(PATIENCE) == -signal.SIGKILL
    assert seen["status"] == "in_progress"
    with run_server(tmp_path) as second:
        done = follow(second, job)
        assert done["status"] == "completed", done
        assert done["request_counts"] == {"total": TOTAL, "completed": TOTAL, "failed": 0}
        # The passage that was broken off, and those after it.
        assert 0 < metric(second.url, r'nightingale_job_passages_total\{outcome="spoken"\}') <= TOTAL - KILL_AT
        book = httpx.get(f"{second.url}/v1/jobs/{job}/files/day.m4b", timeout=PATIENCE).content
        (one, length), (two, again) = chapters(book)
        assert (one, two) == ("Chapter 1", "Chapter 2")
        # The same words: nothing is missing where the work was taken up, and nothing was spoken twice.
        assert abs(length - again) <= 2
