"""The comparison of interpreters: a real server and a real cascade, small, and what it refuses."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from loadtest import interpreter_peers
from loadtest.cascade import FRAME, SENTENCE, TRANSLATION, Recording, check, fastest
from loadtest.interpreter_peers import OURS, POINTS, THEIRS, show
from tests.loadtest.test_fixed_sentence import SMALL_NLLB
from tests.processes import run


@pytest.fixture
def script() -> Path:
    for name in ("torch", "ctranslate2", "faster_whisper", "whisper"):
        pytest.importorskip(name, reason="it is in the environment of `make parity`")
    return Path(interpreter_peers.__file__)


@pytest.mark.parity
def test_both_sides_interpret_the_same_recording(script: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    sizes = ["--size", "tiny", "--nllb", json.dumps(SMALL_NLLB), "--compute", "int8"]
    done = run(sys.executable, script, *sizes, "--sentences", "1", "--rounds", "1", "--json", report, seconds=500)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(report.read_text())["rows"]
    assert set(rows) == {"nightingale", "cascade"}
    for found in rows.values():
        assert len(found) == 1
        for row in found:
            # Nobody knows the text before the pause has ended the sentence.
            assert 0.6 < row["vad"] < row["text"] < row["translation"] < row["first audio"] < 60
    # Both speak as much.
    (mine, other) = ({round(row["audio"], 2) for row in found} for found in rows.values())
    assert mine == other
    assert "| first audio |" in done.stdout


def test_a_side_with_another_text_is_refused() -> None:
    check("ours", f" {SENTENCE}", TRANSLATION)
    for text, translation in (("", TRANSLATION), (SENTENCE, TRANSLATION.lower())):
        with pytest.raises(SystemExit, match="theirs wrote"):
            check("theirs", text, translation)


def test_the_fastest_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    pauses = {"slow": 0.05, "fast": 0.0}

    def work(kind: str) -> None:
        if kind == "absent":
            raise RuntimeError("no primitive")
        time.sleep(pauses[kind])

    assert fastest("work", ["absent", *pauses], str, work) == "fast"
    printed = capsys.readouterr().out
    assert "slow" in printed
    assert "absent not here (no primitive)" in printed
    with pytest.raises(RuntimeError, match="work cannot be computed: absent not here"):
        fastest("work", ["absent"], str, work)


def test_the_ratio_is_that_of_the_medians() -> None:
    def row(seconds: float) -> dict[str, float]:
        return {**dict.fromkeys(POINTS, seconds), "vad": 0.6, "audio": 2.0}

    table = show({OURS: [row(1.0), row(1.0), row(9.0)], THEIRS: [row(1.6)] * 3})
    assert "| text | 1.000 | 8.200 | 9.000 | 1.600 | 1.600 | 1.600 | 1.60 | 2.50 |" in table


def test_frames_go_on_in_silence() -> None:
    frames = Recording(np.ones(FRAME + 10, np.float32), FRAME).frames(5.0)
    found = [next(frames) for _ in range(3)]
    assert [moment for _, moment in found] == pytest.approx([5.02, 5.04, 5.06])
    assert [int(frame.sum()) for frame, _ in found] == [FRAME, 10, 0]
    assert {frame.size for frame, _ in found} == {FRAME}
