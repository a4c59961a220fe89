"""Peers in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from loadtest.peers import Peer, measure, show


def commands(factor: int) -> dict[str, Callable[[int], int]]:
    return {"run": lambda work: work * factor, "process": lambda _: os.getpid()}


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    started = [Peer("ours", commands, 2), Peer("theirs", commands, 2)]
    yield started
    for peer in started:
        peer.close()


def test_each_peer_is_a_process_that_is_measured(peers: list[Peer], capsys: pytest.CaptureFixture[str]) -> None:
    assert len({os.getpid(), *(peer.ask("process", 0) for peer in peers)}) == 3
    rows, result = measure(peers, 21, runs=3)
    assert result == 42
    assert all(0 <= row["min_ms"] <= row["median_ms"] <= row["max_ms"] for row in rows.values())
    assert all(0 < use["resident"] <= use["peak"] for use in (peer.ask("memory") for peer in peers))
    show("both", rows, "theirs")
    assert "x theirs" in capsys.readouterr().out


def test_peers_that_disagree_are_refused(peers: list[Peer]) -> None:
    other = Peer("other", commands, 3)
    with pytest.raises(SystemExit, match="disagree"):
        measure([*peers, other], 21, runs=1)
    other.close()
