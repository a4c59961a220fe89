"""SIGINT ends a coroutine between two callbacks of the event loop."""

import asyncio
import os
import signal

import pytest

from app.cli.interrupt import run_interruptible


def test_a_result_comes_back():
    assert run_interruptible(asyncio.sleep(0, "done")) == "done"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_comes_back():
    async def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_interruptible(fail())


def test_a_cancellation_of_its_own_is_no_interrupt():
    async def cancel():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_interruptible(cancel())


def test_sigint_amid_a_callback_breaks_no_future():
    # `asyncio.run` cancels in the signal handler: `set_result` then finds a future that is done.
    complaints = []
    cleaned = []

    async def wait():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        future = loop.create_future()

        def settle():
            if not future.cancelled():
                os.kill(os.getpid(), signal.SIGINT)
                future.set_result(None)

        loop.call_soon(settle)
        try:
            await future
            await asyncio.sleep(30)
        finally:
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(wait())
    assert complaints == []
    assert cleaned == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_sigint_ends_what_ignores_the_first():
    async def stubborn():
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            loop.call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
            await asyncio.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(stubborn())
