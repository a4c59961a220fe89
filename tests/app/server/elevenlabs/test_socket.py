"""ElevenLabs' two websockets, without an SDK: order, times, contexts, silence, refusals, and clients that leave."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.app.server.streams import close_code, reference

TWO = "Hello there, everybody. This is the second sentence. "


@contextmanager
def session(
    server: Any, voice: str = "steady", *, multi: bool = False, query: str = "", output: str = "pcm_24000"
) -> Iterator[ClientConnection]:
    kind = "multi-stream-input" if multi else "stream-input"
    url = server.url.replace("http", "ws", 1) + f"/v1/text-to-speech/{voice}/{kind}?output_format={output}{query}"
    # Any number of messages may wait to be read: none keeps the answer to a ping from being seen.
    with connect(url, max_queue=None) as socket:
        yield socket


def send(socket: ClientConnection, **fields: object) -> None:
    socket.send(json.dumps(fields))


def receive(socket: ClientConnection) -> dict[str, Any]:
    found = json.loads(socket.recv(timeout=60))
    assert isinstance(found, dict)
    return found


def until_final(socket: ClientConnection) -> list[dict[str, Any]]:
    """Messages before a final one."""
    found = []
    while not (message := receive(socket)).get("isFinal"):
        found.append(message)
    assert message["audio"] is None
    return found


def audio(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(message["audio"]) for message in messages)


def characters(messages: list[dict[str, Any]]) -> str:
    return "".join(c for message in messages if message["alignment"] for c in message["alignment"]["chars"])


def test_text_in_fragments_comes_back_as_audio_with_times(server: Any) -> None:
    with session(server) as socket:
        send(socket, text=" ", voice_settings={"speed": 1.1, "stability": 0.5}, xi_api_key="anything")
        for start in range(0, len(TWO), 7):
            send(socket, text=TWO[start : start + 7])
        send(socket, text="")
        messages = until_final(socket)
        assert close_code(socket) == 1000
    assert audio(messages) == reference(server, TWO, speed=1.1)
    assert characters(messages).strip() == TWO.strip()
    assert len(messages) == 2
    for message in messages:
        times = message["alignment"]
        assert message["normalizedAlignment"] == times
        # The times of a message are those of its own audio, all of it.
        starts, lengths = times["charStartTimesMs"], times["charDurationsMs"]
        assert starts[0] == 0
        assert starts == [0, *np.cumsum(lengths)[:-1]]
        assert sum(lengths) == pytest.approx(len(base64.b64decode(message["audio"])) / 48, abs=1.5)
    assert "contextId" not in messages[0]


def test_a_sentence_is_spoken_before_the_next_one_comes(server: Any) -> None:
    with session(server) as socket:
        send(socket, text="Hello there, everybody. This")
        assert characters([receive(socket)]) == "Hello there, everybody. "


def test_flush_speaks_what_is_not_whole_and_goes_on(server: Any) -> None:
    with session(server) as socket:
        send(socket, text="Hello there", flush=True)
        assert characters([receive(socket)]) == "Hello there"
        send(socket, flush=True)  # nothing to flush
        send(socket, text="and on", flush=True)
        assert characters([receive(socket)]) == "and on"
        send(socket, text="")
        assert until_final(socket) == []
        assert close_code(socket) == 1000


def test_a_schedule_has_long_sentences_spoken_by_the_clause(server: Any) -> None:
    clause = "After all that had been said and done in the house, "
    with session(server) as socket:
        send(socket, text=" ", generation_config={"chunk_length_schedule": [50]})
        send(socket, text=clause + "they")
        assert characters([receive(socket)]).strip() == clause.strip()
    with session(server) as socket:
        send(socket, text=" ")
        send(socket, text=clause + "they")
        send(socket, text=" went", try_trigger_generation=True)
        assert characters([receive(socket)]).strip() == clause.strip()
    with session(server) as socket:
        send(socket, text=clause + "they")
        with pytest.raises(TimeoutError):
            socket.recv(timeout=0.3)


def test_what_cannot_be_spoken_is_passed_over(server: Any) -> None:
    with session(server) as socket:
        send(socket, text="--- ", flush=True)
        send(socket, text="Hello.", flush=True)
        assert characters([receive(socket)]) == "Hello."


def test_long_audio_comes_in_messages_that_clients_accept(server: Any) -> None:
    with session(server, output="pcm_48000") as socket:
        send(socket, text="a" * 150 + ". ")
        send(socket, text="")
        messages = until_final(socket)
    assert len(messages) > 1
    assert max(len(message["audio"]) for message in messages) < 1 << 18
    assert len(audio(messages)) == pytest.approx(2 * len(reference(server, "a" * 150 + ".")), abs=100)


def test_an_agent_sends_sentences_without_a_space_between(server: Any) -> None:
    """Like pipecat with `auto_mode`: each is spoken at once, and its last word ends before the next one begins."""
    with session(server, multi=True, query="&auto_mode=true") as socket:
        send(socket, text=" ", context_id="turn")
        for sentence in ("Hello there, everybody.", "This is the second sentence."):
            send(socket, text=sentence, context_id="turn")
            message = receive(socket)
            assert characters([message]).lstrip() == sentence + " "
            lengths = message["alignment"]["charDurationsMs"]
            assert sum(lengths) == pytest.approx(len(base64.b64decode(message["audio"])) / 48, abs=1.5)
        send(socket, context_id="turn", flush=True)
        send(socket, context_id="turn", close_context=True)
        assert until_final(socket) == []


def test_an_agent_flushes_each_sentence_without_waiting_for_its_audio(server: Any, wait_until: Any) -> None:
    """Like livekit-agents: a whole answer may be there before the first sentence is spoken."""
    with session(server, "gated", multi=True, query="&auto_mode=true&sync_alignment=true") as socket:
        send(socket, text=" ", voice_settings={}, context_id="turn")
        for number in range(60):
            send(socket, text=f"Sentence {number}. ", context_id="turn", flush=True)
        send(socket, text="", context_id="turn", flush=True)
        send(socket, context_id="turn", close_context=True)
        assert wait_until(lambda: server.tone.begun)
        server.tone.gate.set()
        assert characters(until_final(socket)).strip() == " ".join(f"Sentence {number}." for number in range(60))


def test_contexts_are_spoken_side_by_side(server: Any) -> None:
    with session(server, multi=True) as socket:
        for name, speed in (("a", 1.0), ("b", 1.2)):
            send(socket, text=" ", context_id=name, voice_settings={"speed": speed})
        send(socket, text="Hello there, ", context_id="a")
        send(socket, text="This is another. ", contextId="b", flush=True)
        first = receive(socket)
        assert first["contextId"] == "b"
        assert audio([first]) == reference(server, "This is another.", speed=1.2)
        send(socket, text="everybody.", context_id="a", flush=True)
        second = receive(socket)
        assert second["contextId"] == "a"
        assert audio([second]) == reference(server, "Hello there, everybody.")
        send(socket, close_socket=True)
        assert {receive(socket)["contextId"] for _ in range(2)} == {"a", "b"}
        assert close_code(socket) == 1000


def test_a_closed_context_ends_and_its_name_is_free_again(server: Any) -> None:
    with session(server, multi=True) as socket:
        send(socket, text=TWO, context_id="a", flush=True)
        send(socket, context_id="a", close_context=True)
        assert characters(until_final(socket)) == TWO
        send(socket, text="And again.", context_id="a", flush=True)
        assert characters([receive(socket)]) == "And again."


def test_closing_drops_what_was_not_flushed(server: Any, wait_until: Any) -> None:
    with session(server, "gated", multi=True) as socket:
        send(socket, text=TWO, context_id="a")
        assert wait_until(lambda: server.tone.begun)
        send(socket, context_id="a", close_context=True)
        assert until_final(socket) == []
        server.tone.gate.set()
        send(socket, text="Hello.", context_id="b", flush=True)
        message = receive(socket)
        assert (message["contextId"], characters([message])) == ("b", "Hello.")
    assert TWO.split(". ")[1] + "." not in server.tone.computed


def test_closing_speaks_what_was_flushed_before(server: Any, wait_until: Any) -> None:
    with session(server, "gated", multi=True) as socket:
        send(socket, text="Flushed.", context_id="a", flush=True)
        send(socket, text="This is not flushed. And", context_id="a")
        assert wait_until(lambda: server.tone.begun)
        send(socket, context_id="a", close_context=True)
        # The end of a second context says that the server has read the close of the first.
        send(socket, text=" ", context_id="b")
        send(socket, context_id="b", close_context=True)
        assert receive(socket)["contextId"] == "b"
        server.tone.gate.set()
        assert characters(until_final(socket)) == "Flushed."


def test_closing_again_drops_what_was_flushed_too(server: Any, wait_until: Any) -> None:
    """Like pipecat: it closes when the language model has ended, and again when a person interrupts."""
    with session(server, "gated", multi=True, query="&auto_mode=true") as socket:
        send(socket, text=" ", context_id="a")
        for text in ("Hello there, everybody.", "This is the second sentence."):
            send(socket, text=text, context_id="a")
        send(socket, context_id="a", flush=True)
        send(socket, context_id="a", close_context=True)
        assert wait_until(lambda: server.tone.begun)
        send(socket, context_id="a", close_context=True)
        send(socket, context_id="a", close_context=True)  # of no consequence
        final = receive(socket)
        assert (final["contextId"], final["isFinal"], final["audio"]) == ("a", True, None)
        # The name is free again.
        send(socket, text="Hello.", context_id="a", flush=True)
        server.tone.gate.set()
        assert characters([receive(socket)]) == "Hello. "
    # Only what was at the gate may have been computed.
    assert not [text for text in server.tone.computed if "second" in text]


def test_a_cancelled_context_ends_before_others_go_on(server: Any, wait_until: Any) -> None:
    with session(server, "gated", multi=True) as socket:
        send(socket, text=TWO + "And", context_id="cancelled")
        assert wait_until(lambda: server.tone.begun)
        send(socket, text=TWO, context_id="other", flush=True)
        send(socket, context_id="other", close_context=True)
        send(socket, context_id="cancelled", close_context=True)
        # Nothing but this can come while the gate is shut.
        final = receive(socket)
        assert (final["contextId"], final["isFinal"]) == ("cancelled", True)
        server.tone.gate.set()
        assert characters(until_final(socket)) == TWO


class Turnstile(threading.Semaphore):
    """A gate that lets so many sentences through before it is opened."""

    def wait(self, seconds: float) -> bool:
        return self.acquire(timeout=seconds)

    def set(self) -> None:
        self.release(100)


def test_nothing_of_a_cancelled_context_comes_after_its_end(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel at another message each time, of sentences that take several messages each."""
    sentence = "a" * 150 + ". "
    for read in range(1, 8):
        monkeypatch.setattr(server.tone, "gate", Turnstile(5))
        with session(server, "gated", multi=True, output="pcm_48000") as socket:
            send(socket, text=sentence * 12 + "And", context_id="cancelled")
            send(socket, text=sentence * 3, context_id="other", flush=True)
            found = [receive(socket) for _ in range(read)]
            send(socket, context_id="cancelled", close_context=True)
            send(socket, context_id="other", close_context=True)
            server.take(socket)
            server.tone.gate.set()
            while sum(message["isFinal"] for message in found) < 2:
                found.append(receive(socket))
            send(socket, close_socket=True)
            assert close_code(socket) == 1000
        cancelled, other = ([m for m in found if m["contextId"] == name] for name in ("cancelled", "other"))
        assert [message["isFinal"] for message in cancelled].index(True) == len(cancelled) - 1
        assert [message["isFinal"] for message in other].index(True) == len(other) - 1
        # The one lost its end, the other nothing.
        assert characters(other) == sentence * 3
        assert len(characters(cancelled)) < len(sentence) * 12


def test_an_empty_text_keeps_a_context_and_closes_none(server: Any, silence_clock: Any) -> None:
    with session(server, multi=True, query="&inactivity_timeout=1") as socket:
        send(socket, text="Hello", context_id="kept")
        send(socket, text="Hello", context_id="left")
        for _ in range(2):
            server.take(socket)
            silence_clock.now += 0.75
            send(socket, text="", context_id="kept")
        assert receive(socket)["contextId"] == "left"
        quiet(socket)
        send(socket, context_id="kept", flush=True)
        assert characters([receive(socket)]) == "Hello"


@pytest.mark.parametrize("multi", [False, True])
def test_silence_ends_the_socket(server: Any, multi: bool) -> None:
    with session(server, multi=multi, query="&inactivity_timeout=0.2") as socket:
        message = receive(socket)
        assert message["error"] == "idle_timeout"
        assert "0.2 seconds" in message["message"]
        assert close_code(socket) == 1008


def quiet(socket: ClientConnection, seconds: float = 1.1) -> None:
    """Check that nothing comes for so long, in which the server looks at its clock."""
    with pytest.raises(TimeoutError):
        socket.recv(timeout=seconds)


@pytest.mark.parametrize(("multi", "text"), [(False, "Hello "), (True, "Hello "), (True, "")])
def test_each_text_starts_the_wait_anew(server: Any, silence_clock: Any, multi: bool, text: str) -> None:
    """An empty one, too: it keeps a socket on which there is no context."""
    with session(server, multi=multi, query="&inactivity_timeout=1") as socket:
        for _ in range(2):
            send(socket, text=text)
            server.take(socket)
            silence_clock.now += 0.75
            quiet(socket)
        send(socket, text="Hello.", flush=True)
        assert characters([receive(socket)]) == text * 2 + "Hello."


@pytest.mark.parametrize(("multi", "close"), [(False, False), (True, False), (True, True)])
def test_audio_and_the_end_of_a_context_start_the_wait_anew(
    server: Any, silence_clock: Any, multi: bool, close: bool
) -> None:
    """The gate opens late in the idle time of the client. Audio gives the client the whole idle time again."""
    with session(server, "gated", multi=multi, query="&inactivity_timeout=1") as socket:
        send(socket, text="Hello.", flush=True)
        if close:
            send(socket, close_context=True)
        server.take(socket)
        silence_clock.now += 0.75
        quiet(socket)
        server.tone.gate.set()
        assert characters(until_final(socket) if close else [receive(socket)]) == "Hello."
        silence_clock.now += 0.75
        quiet(socket)
        send(socket, text="And on.", flush=True)
        assert characters([receive(socket)]) == "And on."


@pytest.mark.parametrize("multi", [False, True])
def test_a_client_that_waits_for_its_speech_is_not_silent(server: Any, silence_clock: Any, multi: bool) -> None:
    with session(server, "gated", multi=multi, query="&inactivity_timeout=0.2") as socket:
        send(socket, text="Hello.", flush=True)
        server.take(socket)
        silence_clock.now += 5.0
        quiet(socket, 0.7)
        server.tone.gate.set()
        assert characters([receive(socket)]) == "Hello."


def test_a_text_that_cannot_be_spoken_ends_its_context_only(server: Any) -> None:
    with session(server, multi=True) as socket:
        send(socket, text="Hello [pause:99999s] there.", context_id="bad", flush=True)
        told = receive(socket)
        assert (told["contextId"], told["error"]) == ("bad", "invalid_markup")
        final = receive(socket)
        assert (final["contextId"], final["isFinal"]) == ("bad", True)
        send(socket, text="Hello.", context_id="good", flush=True)
        message = receive(socket)
        assert (message["contextId"], characters([message])) == ("good", "Hello.")


REFUSED = [(output, "", "unsupported_format") for output in ("pcm_1", "mp3_44100_100", "wav_16000")]
QUERIES = ("&auto_mode=perhaps", "&inactivity_timeout=nan", "&inactivity_timeout=181", "&seed=-1")
REFUSED += [("pcm_24000", query, "invalid_request") for query in QUERIES]


@pytest.mark.parametrize(("output", "query", "error"), REFUSED)
def test_bad_addresses_are_refused(server: Any, output: str, query: str, error: str) -> None:
    with session(server, output=output, query=query) as socket:
        assert receive(socket)["error"] == error
        assert close_code(socket) == 1008


def test_contexts_and_flushes_are_bounded(server: Any) -> None:
    with session(server, multi=True) as socket:
        for name in range(6):
            send(socket, text=" ", context_id=str(name))
        assert "5 contexts" in receive(socket)["message"]
        assert close_code(socket) == 1008
    with session(server) as socket:  # a model may think longer than it speaks
        for text in ("Well.\n<think>", *["a " * 400] * 12, "</think>\nHello.", ""):
            send(socket, text=text)
        assert characters(until_final(socket)).strip().endswith("Hello.")
    with session(server, "gated") as socket:
        for _ in range(2_000 // len("Hello.") + 1):
            send(socket, text="Hello.", flush=True)
        message = receive(socket)
        assert (message["error"], message["code"]) == ("text_too_long", 1008)
    with session(server, "gated", multi=True) as socket:
        for name in range(17):
            send(socket, text="Hello.", flush=True, context_id=str(name))
            send(socket, close_context=True, context_id=str(name))
        assert "16 contexts" in receive(socket)["message"]
