"""The streaming protocol, without a socket."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ModelFailedError, NothingToSpeakError
from app.server.streaming import events
from app.server.streaming.effects import Close, Drop, Effect, Finish, Prepare, Send, Speak
from app.server.streaming.session import MAX_SETS, SessionState, StreamSession
from app.speech.sentence import SpokenChunk, Word
from models.timeline import Stage, Timeline

READY = events.Ready(model="m", voice="v", lang="en-us", format="pcm", sample_rate=24_000)


def say(session: StreamSession, **message: object) -> list[Effect]:
    return session.receive(json.dumps(message))


def opened(**start: object) -> StreamSession:
    session = StreamSession(max_characters=1000, max_frame_bytes=4096)
    effects = say(session, type="start", **start)
    assert [type(effect) for effect in effects] == [Prepare]
    assert session.ready(READY) == [Send(READY)]
    return session


def chunk(text: str = "Hello.", start: float = 0.0) -> SpokenChunk:
    words = (Word("Hello", start + 0.1, start + 0.4, 0, 5),)
    return SpokenChunk(np.zeros(12_000, np.float32), start, 0.5, text, 0, len(text), words)


def spoken(effects: list[Effect]) -> list[str]:
    return [effect.text for effect in effects if isinstance(effect, Speak)]


def sent(effects: list[Effect]) -> list[events.Outgoing]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def closed(effects: list[Effect]) -> int | None:
    return next((effect.code for effect in effects if isinstance(effect, Close)), None)


def error_code(effects: list[Effect]) -> str | None:
    return next((message.error.code for message in sent(effects) if isinstance(message, events.Error)), None)


def test_a_sentence_is_spoken_as_soon_as_it_is_complete() -> None:
    session = opened()
    assert spoken(say(session, type="text", text="Hello the")) == []
    effects = say(session, type="text", text="re, everybody. And now some mo")
    assert spoken(effects) == ["Hello there, everybody. "]
    effects = say(session, type="flush")
    assert spoken(effects) == ["And now some mo"]
    assert [effect.offset for effect in effects if isinstance(effect, Speak)] == [24]
    assert isinstance(effects[-1], Finish)


@given(st.lists(st.text(alphabet="ab.!? \nÜ", max_size=12), min_size=1, max_size=12))
def test_no_text_is_lost_and_offsets_point_at_it(fragments: list[str]) -> None:
    session = opened()
    whole = "".join(fragments)
    effects = [effect for fragment in fragments for effect in say(session, type="text", text=fragment)]
    effects += say(session, type="flush")
    pieces = [effect for effect in effects if isinstance(effect, Speak)]
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(whole.split())
    for piece in pieces:
        assert whole[piece.offset : piece.offset + len(piece.text)] == piece.text


def test_every_set_is_answered_once_and_counts_its_own_chunks() -> None:
    session = opened(timestamps=True)
    say(session, type="text", text="Hello.")
    first = say(session, type="flush")
    say(session, type="text", text="Again.")
    second = say(session, type="flush")
    assert {effect.set_id for effect in first if isinstance(effect, Finish)} != {
        effect.set_id for effect in second if isinstance(effect, Finish)
    }
    assert session.busy
    sequences = []
    for count in (2, 1):
        for _ in range(count):
            (message,) = sent(session.chunk(chunk()))
            assert isinstance(message, events.Chunk)
            sequences.append(message.sequence)
            assert message.words is not None
            assert (message.words[0].text, message.words[0].start, message.words[0].end) == ("Hello", 0.1, 0.4)
        timeline = Timeline()
        timeline.add(Stage.DECODER, 0.25)
        timeline.audio_seconds = 0.5 * count
        timeline.mark_first_audio()
        timeline.finish()
        (done,) = sent(session.finished(timeline))
        assert isinstance(done, events.Done)
        assert (done.cancelled, done.chunks, done.audio_duration) == (False, count, 0.5 * count)
        assert done.stages == {"decoder": 0.25}
        assert done.first_audio == pytest.approx(timeline.ttfa_seconds, abs=1e-5)
        assert done.real_time_factor == pytest.approx(timeline.rtf, abs=1e-5)
    assert sequences == [0, 1, 2]
    assert not session.busy


def test_words_are_sent_only_when_asked_for() -> None:
    (message,) = sent(opened().chunk(chunk()))
    assert isinstance(message, events.Chunk)
    assert message.words is None


def test_cancel_drops_everything_and_the_session_goes_on() -> None:
    session = opened()
    say(session, type="text", text="Hello there. This is never finished")
    effects = say(session, type="cancel")
    assert isinstance(effects[0], Drop)
    (done,) = sent(effects)
    assert isinstance(done, events.Done)
    assert done.cancelled
    assert not session.busy
    say(session, type="text", text="New text.")
    assert spoken(say(session, type="flush")) == ["New text."]


def test_cancel_with_nothing_to_cancel_is_answered_too() -> None:
    (done,) = sent(say(opened(), type="cancel"))
    assert isinstance(done, events.Done)
    assert done.cancelled


def test_end_speaks_the_rest_then_closes() -> None:
    session = opened()
    say(session, type="text", text="Good bye")
    effects = say(session, type="end")
    assert spoken(effects) == ["Good bye"]
    assert closed(effects) is None
    effects = session.finished(Timeline())
    assert closed(effects) == 1000
    assert session.state is SessionState.CLOSED
    assert say(session, type="text", text="too late") == []


def test_end_waits_for_flushed_sets() -> None:
    session = opened()
    say(session, type="text", text="One.")
    say(session, type="flush")
    assert closed(say(session, type="end")) is None
    assert closed(session.set_failed(ModelFailedError("no"))) == 1000


def test_a_set_that_fails_leaves_the_session_open() -> None:
    session = opened()
    say(session, type="text", text="...")
    say(session, type="flush")
    effects = session.set_failed(NothingToSpeakError("nothing"))
    assert error_code(effects) == "nothing_to_speak"
    assert session.state is SessionState.OPEN
    assert not session.busy


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("{", "not valid JSON"),
        ("[" * 2000, "not valid JSON"),
        ("[]", "JSON object"),
        ("{}", "start, text, flush, cancel, end"),
        ('{"type": "shout"}', "start, text, flush, cancel, end"),
        ('{"type": "text"}', "'text' of 'text'"),
        ('{"type": "text", "text": 3}', "valid string"),
        ('{"type": "flush", "hard": true}', "'flush' has no 'hard'; accepted are type"),
        ('{"type": "text", "text": "\\ud800"}', "surrogate"),
        ('{"type": "flush", "\\ud800": 1}', "of 'flush'"),
        (b"\x00\x01", "Binary messages"),
        ('{"type": "start"}', "once, first"),
    ],
)
def test_malformed_messages_end_the_session_with_an_error(frame: str | bytes, expected: str) -> None:
    session = opened()
    effects = session.receive(frame)
    assert isinstance(effects[0], Drop)
    (message,) = sent(effects)
    assert isinstance(message, events.Error)
    assert message.fatal
    assert expected in message.error.message
    assert closed(effects) == 1008
    assert session.state is SessionState.CLOSED


@pytest.mark.parametrize(
    "message",
    [
        {"type": "text", "text": "too early"},
        {"type": "end"},
        {"type": "start", "speed": 9},
        {"type": "start", "speed": "NaN"},
        {"type": "start", "seed": -1},
        {"type": "start", "sample_rate": "fast"},
        {"type": "start", "voice": 3},
        {"type": "start", "color": "red"},
    ],
)
def test_a_wrong_first_message_is_refused(message: dict[str, object]) -> None:
    session = StreamSession(max_characters=1000, max_frame_bytes=4096)
    effects = say(session, **message)
    assert error_code(effects) == "protocol_error"
    assert closed(effects) == 1008


TEXT, FLUSH, END = {"type": "text", "text": "One."}, {"type": "flush"}, {"type": "end"}


@pytest.mark.parametrize(
    ("messages", "code", "close"),
    [
        pytest.param([END], "empty_input", 1000, id="the end of nothing"),
        pytest.param([FLUSH], "empty_input", None, id="a flush of nothing"),
        pytest.param([TEXT, END, {"type": "cancel"}], None, 1000, id="cancelled after the end"),
        pytest.param([TEXT | {"text": "a " * 400}] * 2, "text_too_long", 1008, id="text beyond the limit"),
        pytest.param([TEXT | {"text": "é" * 2_048}], "body_too_large", 1009, id="a frame beyond the limit"),
        pytest.param([TEXT, FLUSH] * (MAX_SETS + 1), "protocol_error", 1008, id="flushes without listening"),
    ],
)
def test_how_a_session_answers(messages: list[dict[str, object]], code: str | None, close: int | None) -> None:
    session = opened()
    effects = [say(session, **message) for message in messages][-1]
    assert (error_code(effects), closed(effects)) == (code, close)
    assert (session.state is SessionState.OPEN) == (close is None)


@pytest.mark.parametrize("kind", ["auto", "llm"])
def test_a_model_may_think_longer_than_it_speaks(kind: str) -> None:
    for pieces, code in ((12, None), (25, "text_too_long")):
        session = opened(input=kind)
        say(session, type="text", text="<think>")
        codes = {error_code(say(session, type="text", text="a " * 200)) for _ in range(pieces)}
        codes.add(error_code(say(session, type="text", text="</think>\nHello.")))
        assert (code in codes, len(codes)) == (True, 1 if code is None else 2)


def test_the_limit_counts_from_the_last_flush() -> None:
    session = opened()
    for _ in range(3):
        assert error_code(say(session, type="text", text="a " * 400)) is None
        assert error_code(say(session, type="flush")) is None
        session.finished(Timeline())


def test_draining_speaks_what_was_sent_then_closes_with_1012() -> None:
    session = opened()
    say(session, type="text", text="Last words")
    effects = session.drain()
    assert spoken(effects) == ["Last words"]
    assert closed(effects) is None
    effects = session.finished(Timeline())
    assert error_code(effects) == "draining"
    assert closed(effects) == 1012


def test_draining_an_idle_session_closes_it() -> None:
    effects = opened().drain()
    assert error_code(effects) == "draining"
    assert closed(effects) == 1012


MESSAGES = st.one_of(
    st.sampled_from(["flush", "cancel", "end", "start"]).map(lambda kind: {"type": kind}),
    st.text(alphabet="ab.!? [](/)pause:1s\n", max_size=20).map(lambda text: {"type": "text", "text": text}),
)


@given(st.lists(st.one_of(MESSAGES, st.just(None)), max_size=25))
def test_whatever_is_sent_every_flush_is_answered_and_a_closed_session_is_silent(
    frames: list[dict[str, str] | None],
) -> None:
    """None in `frames`: the oldest set was spoken."""
    session = opened()
    waiting = 0
    for frame in frames:
        was_closed = session.state is SessionState.CLOSED
        if frame is None:
            if not session.busy:
                continue
            effects = session.finished(Timeline())
            waiting -= 1
        else:
            effects = say(session, **frame)
            assert not (was_closed and effects)
            if any(isinstance(effect, Drop) for effect in effects):
                waiting = 0
            waiting += sum(isinstance(effect, Finish) for effect in effects)
            if frame["type"] in {"flush", "cancel"} and not was_closed:
                answers = [effect for effect in effects if isinstance(effect, (Send, Finish))]
                assert answers
        assert waiting >= 0
        assert session.busy == (waiting > 0) or session.state is SessionState.CLOSED
        closes = [effect for effect in effects if isinstance(effect, Close)]
        assert bool(closes) == (session.state is SessionState.CLOSED and not was_closed)
        assert not closes or effects[-1] is closes[0]
