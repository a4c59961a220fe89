"""The arithmetic from one replica to many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadtest.sizing import Measured, Policy, main, size, table

GUIDE = Path(__file__).parents[2] / "loadtest" / "results" / "sizing.md"


def test_every_stream_has_a_place_with_the_spare_machines_gone() -> None:
    for streams in (1, 6, 7, 8, 100, 9_999, 10_000):
        for policy in (Policy(), Policy(0.5, 4, 2), Policy(1.0, 1, 0)):
            found = size(streams, Measured(10), policy)
            usable = int(10 * policy.headroom)
            left = (found.machines - policy.spare) * policy.per_machine
            assert left * usable >= streams > (left - policy.per_machine) * usable
            assert found.replicas == found.machines * policy.per_machine


def test_ten_thousand_by_hand() -> None:
    found = size(10_000, Measured(knee=12, memory=0.5, proxy=40), Policy(headroom=0.75, per_machine=4, spare=2))
    # 9 a replica: 1112 of them, 278 machines and 2 more.
    assert (found.machines, found.replicas) == (280, 1120)
    assert found.memory == 2.0
    assert found.network == pytest.approx(10_000 / 280 * 0.384)
    assert found.proxies_hold
    assert not size(10_000, Measured(12, proxy=35), Policy(0.75, 4, 2)).proxies_hold


def test_a_replica_that_carries_no_stream_is_no_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--streams-per-replica", "1"])
    assert left.value.code == 2
    assert "not one stream" in capsys.readouterr().err


def test_the_tables_of_the_guide_are_what_their_commands_print(capsys: pytest.CaptureFixture[str]) -> None:
    guide = GUIDE.read_text()
    commands = re.findall(r"`(--streams-per-replica \d+ [^`]*)`", guide)
    assert len(commands) == 2
    for command in commands:
        assert main(command.split()) == 0
        assert capsys.readouterr().out.strip() in guide
    assert table([size(100, Measured(10, 1.4, 135), Policy())]).splitlines()[2] in guide
