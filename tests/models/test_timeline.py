"""Clock of a batch's stages."""

from __future__ import annotations

import time

import pytest

from models.timeline import Stage, StageTimer, Timeline


def test_stages_follow_each_other_without_a_gap_and_without_others_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    timeline = Timeline()
    timed = StageTimer([timeline, timeline])
    clock = 5.0
    with timed.measure(Stage.VOICE):
        clock += 1.0
    clock += 0.25  # books: the next stage's
    with timed.measure(Stage.DECODER):
        clock += 2.0
    clock += 0.25
    left = timed.left()
    clock += 100.0  # somebody else's
    timed.resumed(left)
    clock += 0.5
    with timed.measure(Stage.DECODER):
        clock += 4.0
    assert timeline.stages == {Stage.VOICE: 1.0, Stage.DECODER: 0.25 + 2.0 + 0.25 + 0.5 + 4.0}
    assert [span[0] for span in timeline.spans] == [Stage.VOICE, Stage.DECODER, Stage.DECODER]
