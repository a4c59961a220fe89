"""The process that decodes: its limits, and recordings that break it.

FFmpeg's libraries are made to misbehave: the real program runs, with a `decode` that does what the recording says.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.audio import decode, decoder_process
from app.audio.decode import AudioDecoder, DecoderProcess
from app.errors import DrainingError, UnavailableError, UnusableRecordingError
from tests.app.audio.recordings import tone, written

GOOD = written(tone())
RUN = b"run "
CPU_SECONDS = 1
STUB = f"""
import os, socket, sys, time
sys.path.insert(0, {str(Path(decoder_process.__file__).parent)!r})
import decoder_process as program
honest = program.decode

def decode(data, rate, seconds):
    if data.startswith({RUN!r}):
        exec(data[{len(RUN)}:])
        raise ValueError("done")
    return honest(data, rate, seconds)

program.decode = decode
program.CPU_SECONDS, program.CPU_SHARE = {CPU_SECONDS}, 0
%s
program.main()
"""
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="macOS does not hold a process to RLIMIT_AS")


@pytest.fixture
def misbehave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`misbehave(changes)`: have processes run what recordings say; `changes` to `program` are made before."""

    def stub(changes: str = "") -> None:
        path = tmp_path / "stub.py"
        path.write_text(STUB % changes)
        monkeypatch.setattr(decoder_process, "__file__", str(path))

    return stub


@pytest.fixture
def decoder() -> Iterator[AudioDecoder]:
    with AudioDecoder(sample_rate=24_000, min_seconds=1.0, max_seconds=5.0, processes=2) as decoder:
        yield decoder


def hear(decoder: AudioDecoder) -> None:
    """A recording of somebody else is decoded."""
    assert asyncio.run(decoder.decode(GOOD)).seconds == pytest.approx(2.0)


def run(decoder: AudioDecoder, code: str) -> str:
    """The reason of the refusal of a recording that does this."""
    with pytest.raises(UnusableRecordingError) as caught:
        asyncio.run(decoder.decode(RUN + code.encode()))
    return caught.value.message


def waiting(decoder: AudioDecoder) -> int:
    """The process that waits for the next recording."""
    process: Any = decoder._waiting
    while process._process is None:
        time.sleep(0.01)
    return int(process._process.pid)


def alive(pid: int) -> bool:
    """Whether it runs: one that ended may still be there, until its parent asks."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    with suppress(FileNotFoundError):
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return not stat.parent.parent.is_dir()


def test_what_breaks_it_is_a_refusal(decoder: AudioDecoder, misbehave: Callable[..., None], caplog: Any) -> None:
    misbehave()
    for code in (
        "os.abort()",
        "os.kill(os.getpid(), 11)",
        "os._exit(0)",
        "sys.exit(0)",
        "os.write(3, b'x' * 100_000); os._exit(0)",
        "while True: pass",
    ):
        assert run(decoder, code) == decoder_process.TOO_MUCH
    assert f"status -{signal.SIGPROF:d}," in caplog.messages[-1]  # the limit on CPU time, not the deadline
    hear(decoder)


def test_what_hangs_is_ended_in_time(decoder: AudioDecoder, misbehave: Callable[..., None], monkeypatch: Any) -> None:
    misbehave()
    hear(decoder)
    with monkeypatch.context() as short:
        short.setattr(decode, "DEADLINE", -4.5)  # five are decoded
        assert run(decoder, "while True: time.sleep(1)") == decoder_process.TOO_MUCH
    hear(decoder)


@pytest.mark.parametrize("behind", [0, 3], ids=["one clock", "clocks apart"])
def test_limits_count_for_each_recording(decoder: AudioDecoder, misbehave: Callable[..., None], behind: int) -> None:
    """Three decodings in one process, each with more than half of the time and of the memory.

    `time.process_time` may be seconds behind the clock by which the kernel ends processes: on a busy machine the two
    drift apart.
    """
    misbehave(f"program.MEMORY = 64 << 20\nclock = time.process_time\ntime.process_time = lambda: clock() - {behind}")
    work = "start = time.process_time()\nkept = bytearray(40 << 20)\nwhile time.process_time() < start + 0.6 * %d: pass"
    pids = set()
    for _ in range(3):
        assert "done" in run(decoder, work % CPU_SECONDS)
        pids.add(waiting(decoder))
    assert len(pids) == 1


@pytest.mark.parametrize(
    "changes",
    [pytest.param("", marks=linux), "import app.isolation.limits; app.isolation.limits.address_space = lambda: 0"],
)
def test_memory_is_bounded(decoder: AudioDecoder, misbehave: Callable[..., None], changes: str) -> None:
    """By the kernel, and by the guard where the kernel lets it grow."""
    misbehave(f"program.MEMORY = 32 << 20\n{changes}")
    assert (
        run(decoder, "kept = [bytearray(b'x') * (8 << 20) for _ in range(256)]; open('all')")
        == decoder_process.TOO_MUCH
    )
    hear(decoder)


@linux
def test_a_process_that_lost_memory_takes_no_more(decoder: AudioDecoder, misbehave: Callable[..., None]) -> None:
    misbehave()
    hear(decoder)
    before = waiting(decoder)
    assert "done" in run(decoder, "program.kept = bytearray(200 << 20)")
    assert waiting(decoder) != before
    hear(decoder)


def test_a_process_is_used_again_and_not_for_ever(decoder: AudioDecoder, misbehave: Callable[..., None]) -> None:
    misbehave("program.RECORDINGS = 3")
    seen = []
    for _ in range(4):
        assert "done" in run(decoder, "pass")
        seen.append(waiting(decoder))
    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_it_opens_nothing_and_says_little(decoder: AudioDecoder, misbehave: Callable[..., None], capfd: Any) -> None:
    misbehave()
    for code in ("open('/dev/null')", "open('stolen', 'w')", "socket.socket()"):
        assert "Too many open files" in run(decoder, code)
    assert "done" in run(decoder, "os.write(1, b'x'); os.write(2, b'x'); print('x', flush=True)")
    assert len(run(decoder, "raise ValueError('x' * 100_000)")) <= decoder_process.MAX_REASON
    assert capfd.readouterr() == ("", "")


def test_a_reply_that_is_too_long_is_not_read(decoder: AudioDecoder, misbehave: Callable[..., None]) -> None:
    misbehave("program.answer = lambda *_: (0, b'\\0' * (100 << 20))")
    assert run(decoder, "") == decoder_process.TOO_MUCH


def test_a_program_that_does_not_start_is_the_servers_fault(
    decoder: AudioDecoder, misbehave: Callable[..., None]
) -> None:
    misbehave("import no_such_module")
    with pytest.raises(UnavailableError, match="log has the cause"):
        asyncio.run(decoder.decode(GOOD))


@pytest.fixture
def hanging(tmp_path: Path, wait_until: Any) -> tuple[bytes, Callable[[], Awaitable[None]]]:
    """A recording that never ends, and a function that waits until it is being decoded."""
    begun = tmp_path / "begun"

    async def wait() -> None:
        assert await asyncio.to_thread(wait_until, begun.exists)

    return RUN + f"os.mkdir({str(begun)!r})\nwhile True: time.sleep(1)".encode(), wait


@pytest.mark.parametrize("error", [asyncio.CancelledError, DrainingError], ids=["who gives up", "closing"])
def test_what_is_decoded_ends_with(
    error: type[BaseException], decoder: AudioDecoder, misbehave: Callable[..., None], wait_until: Any, hanging: Any
) -> None:
    misbehave()
    hear(decoder)
    pid = waiting(decoder)

    async def main() -> None:
        recording, begun = hanging
        task = asyncio.create_task(decoder.decode(recording))
        await begun()
        if error is DrainingError:
            decoder.close()
        else:
            task.cancel()
        with pytest.raises(error):
            await task

    asyncio.run(main())
    assert wait_until(lambda: not alive(pid))
    if error is not DrainingError:
        hear(decoder)


async def test_more_recordings_at_once_than_processes(decoder: AudioDecoder) -> None:
    decoded = await asyncio.gather(*(decoder.decode(GOOD) for _ in range(4)))
    assert [each.seconds for each in decoded] == [pytest.approx(2.0)] * 4
    assert alive(waiting(decoder))


def test_every_process_ends_with_the_decoder_though_its_threads_are_busy(decoder: AudioDecoder) -> None:
    hear(decoder)
    busy = threading.Event()
    for _ in range(2):
        decoder._threads.submit(busy.wait)
    surplus = DecoderProcess()
    surplus.start()
    decoder._keep(surplus)
    decoder.close()
    busy.set()
    assert surplus.ended


def test_it_does_not_end_before_the_server(decoder: AudioDecoder) -> None:
    hear(decoder)
    pid = waiting(decoder)
    os.kill(pid, signal.SIGTERM)
    hear(decoder)
    assert waiting(decoder) == pid


def test_a_process_that_died_while_it_waited_is_replaced(decoder: AudioDecoder, wait_until: Any) -> None:
    hear(decoder)
    process: Any = decoder._waiting
    os.kill(waiting(decoder), signal.SIGKILL)
    assert wait_until(lambda: process.ended)
    hear(decoder)


@pytest.mark.parametrize("recording", [RUN + b"while True: time.sleep(0.1)", GOOD], ids=["busy", "waiting"])
def test_it_does_not_outlive_a_server_that_is_killed(
    misbehave: Callable[..., None], tmp_path: Path, wait_until: Any, recording: bytes
) -> None:
    misbehave()
    path = tmp_path / "recording"
    path.write_bytes(recording)
    server = f"""
from pathlib import Path
from app.audio import decode, decoder_process
decoder_process.__file__ = {decoder_process.__file__!r}
process = decode.DecoderProcess()
process.decode(Path({str(tmp_path / "first")!r}).read_bytes(), 24_000, 5.0)
print(process._process.pid, flush=True)
process.decode(Path({str(path)!r}).read_bytes(), 24_000, 5.0)
input()
"""
    (tmp_path / "first").write_bytes(GOOD)
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        assert alive(pid)
        parent.kill()
        assert wait_until(lambda: not alive(pid))


def test_its_files_are_closed_in_the_end() -> None:
    def descriptors() -> set[tuple[str, str]]:
        found = set()
        for path in Path("/dev/fd").iterdir():
            with suppress(OSError):  # that of the folder itself
                found.add((path.name, os.readlink(path)))  # noqa: PTH115  (not every descriptor is a path)
        return found

    before = descriptors()
    process = DecoderProcess()
    assert process.decode(GOOD, 24_000, 5.0).seconds == pytest.approx(2.0)
    assert process.usable
    assert process.end() == -signal.SIGKILL
    # Servers of other tests in this process may close some.
    assert descriptors() <= before
