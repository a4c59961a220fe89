"""A server that is killed in the middle of a job: the next one goes on, and the book is whole."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import av
import httpx

from tests.faults.conftest import launch
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


def open_to_others(folder: Path) -> list[Path]:
    """Files of the jobs that other users of the machine may read."""
    (jobs,) = folder.rglob("jobs")
    return [path for path in (jobs, *jobs.rglob("*")) if path.stat().st_mode & 0o077]


def test_a_killed_server_goes_on(tmp_path: Path) -> None:
    with launch(tmp_path) as first:
        files = {"file": ("day.txt", BOOK)}
        job = httpx.post(f"{first.url}/v1/jobs", files=files, timeout=PATIENCE).raise_for_status().json()["id"]
        seen = follow(first, job, KILL_AT)
        first.popen.send_signal(signal.SIGKILL)
        assert first.popen.wait(PATIENCE) == -signal.SIGKILL
    assert seen["status"] == "in_progress"
    assert open_to_others(tmp_path) == []
    for path in next(tmp_path.rglob("jobs")).rglob("*"):  # as an older version left them
        path.chmod(0o755 if path.is_dir() else 0o644)
    with launch(tmp_path) as second:
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
    assert open_to_others(tmp_path) == []
