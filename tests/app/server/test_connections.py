"""Places of connections, without sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from app.server.connections import ConnectionLimits, Connections, ShutPeer


class Fake:
    """Connection that does nothing."""

    is_sending = False

    def __init__(self) -> None:
        self.dropped = False

    def check(self, now: float, elapsed: float) -> None:
        pass

    def drop(self) -> None:
        self.dropped = True


@pytest.mark.parametrize("answered", [True, False])
def test_a_connection_of_the_reserve_has_no_place_to_give(answered: bool) -> None:
    """A probe that was answered, or sends a body, stays one of the reserve."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        connections = Connections(ConnectionLimits(1, 60, 60, 60, 100))
        busy, probe, other = Fake(), Fake(), Fake()
        assert connections.open(busy, loop)
        connections.request_came(busy)
        assert not connections.open(probe, loop)
        if answered:
            connections.request_came(probe)
            connections.answered(probe)
        else:
            connections.head_came(probe)
        assert not connections.open(other, loop)
        assert not probe.dropped
        # One that waits in a place gives it.
        connections.answered(busy)
        assert connections.open(Fake(), loop)
        assert busy.dropped
        for each in (probe, other):
            connections.close(each)

    asyncio.run(run())


def test_a_client_whose_connection_is_closed_is_gone() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        with theirs:
            peer = ShutPeer(writer.transport, 0.0)
            assert not peer.is_gone()
            writer.transport.abort()
            assert peer.is_gone()
            await asyncio.sleep(0)  # the loop closes the socket
            assert peer.is_gone()

    uvloop.run(run())
