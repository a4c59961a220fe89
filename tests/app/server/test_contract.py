"""Promises that each surface of the server keeps, whatever its protocol: a test for a rule, a case for a surface.

Files of single surfaces test what is theirs alone. `LEFT_OUT` names the surfaces that a rule does not hold for and why.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import av
import httpx
import numpy as np
import pytest
import soundfile
import soxr
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app.config import Settings
from tests.app.conftest import PATIENCE, Running, ToneCatalog, start, stop, wait_until
from tests.app.server.surfaces import (
    PCM,
    RATE,
    SPOKEN,
    SURFACES,
    TEXT,
    BrokenOffError,
    Conversation,
    HttpConversation,
    RefusedError,
    SocketConversation,
    Surface,
    WebSocket,
    openai_error,
)

# Answers that are sent when they are whole, or whose first piece waits for agreement on what was heard.
WHOLE = ("elevenlabs whole", "translate", "libretranslate", "transcriptions", "translations", "deepgram listening",
         "deepgram listening socket", "elevenlabs listening", "elevenlabs listening socket", "realtime")  # fmt: skip

LEFT_OUT = {
    "first piece": dict.fromkeys(WHOLE, "its answer comes when it is whole, or not before it is sure"),
    "ok": {
        "elevenlabs listening socket": "its sessions have no end: each is counted as cancelled",
        "realtime": "its sessions have no end: each is counted as cancelled",
    },
    "rejected": dict.fromkeys(
        ("deepgram socket", "deepgram listening socket", "elevenlabs listening socket", "realtime"),
        "it refuses a handshake, or an event of an open session: that is not counted",
    ),
    "drained": {"wyoming listening": "its connection is not told, and ends with the server"},
    "hidden": dict.fromkeys(("dialogue", "elevenlabs dialogue"), "its lines come apart: test_dialogue.py"),
    "failed": {"realtime": "a failure concerns one item: the session is not counted as failed"},
}


def surfaces(*kinds: str, rule: str = "", socket: bool | None = None) -> pytest.MarkDecorator:
    """Return a mark that runs a test once for each surface of these kinds, of all if none is named."""
    chosen = [each for each in SURFACES if not kinds or each.kind in kinds]
    chosen = [each for each in chosen if socket in (None, each.socket) and each.name not in LEFT_OUT.get(rule, {})]
    return pytest.mark.parametrize("surface", chosen, ids=str)


def named(name: str) -> Any:
    return next(surface for surface in SURFACES if surface.name == name)


def counted(server: Running, surface: Surface, *outcomes: str) -> float:
    """Return the number of requests of this surface and of its model, or of none, that ended so."""
    pattern = rf'^nightingale_requests_total{{model="(?:{surface.model}|none)",outcome="(\w+)",[^}}]*'
    found = re.findall(rf'{pattern}surface="{surface.label}"}} (\S+)$', server.metrics(), re.MULTILINE)
    return sum(float(value) for outcome, value in found if not outcomes or outcome in outcomes)


def answer(server: Running, surface: Surface) -> bytes:
    server.tone.begun.clear()
    with surface.ask(server) as conversation:
        return conversation.answer()


def refusal(conversation: Conversation) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        conversation.answer()
    return caught.value


def check_end(surface: Surface, conversation: Conversation, refused: RefusedError, status: int, close: int) -> None:
    """Check the HTTP status, or the code of the close. Events that have begun tell the error in the last of them."""
    if isinstance(conversation, HttpConversation) and conversation.response.status == 200:
        assert refused.code
    elif refused.status or not surface.socket:
        assert refused.status == status
    elif not surface.stays:
        assert conversation.end() in (close, 0)


@surfaces(rule="ok")
def test_an_answer_is_counted_once(hearing: Any, surface: Surface) -> None:
    good, all_ = counted(hearing, surface, "ok"), counted(hearing, surface)
    assert answer(hearing, surface)
    assert wait_until(lambda: counted(hearing, surface, "ok") == good + 1)
    assert counted(hearing, surface) == all_ + 1


@surfaces("speech", rule="hidden")
def test_what_a_language_model_writes_for_machines_is_not_spoken(hearing: Any, surface: Surface) -> None:
    call = '<tool_call>{"name": "get"}</tool_call>'
    text = f"<think> This is\n\nno speech.</think>\nThis is the first sentence. {call} Here comes the second one."
    hearing.tone.computed.clear()
    with surface.ask(hearing, text=text) as conversation:
        assert conversation.answer()
    assert hearing.tone.computed == ["This is the first sentence.", "Here comes the second one."]


@pytest.mark.parametrize("half", [False, True], ids=["closes at once", "breaks off in the middle"])
@surfaces()
def test_the_work_of_a_client_who_left_ends(hearing: Any, surface: Surface, half: bool) -> None:
    cancelled = counted(hearing, surface, "cancelled")
    with surface.ask(hearing, "half" if half else "held") as conversation:
        assert wait_until(lambda: surface.begun(hearing))
        if half:
            if surface.name not in WHOLE:
                conversation.first()
            conversation.break_off()
    # It waits at a gate that nobody opens: only giving up can end it.
    assert wait_until(hearing.idle)
    assert wait_until(lambda: counted(hearing, surface, "cancelled") > cancelled)
    if surface.kind != "interpretation":  # its passages are counted, too
        assert counted(hearing, surface, "cancelled") == cancelled + 1
    if surface.kind == "speech":
        assert wait_until(lambda: 'nightingale_cancel_latency_seconds_count{model="tone"}' in hearing.metrics())
    heard, translated = len(hearing.ear.requests), len(hearing.shout.batches)
    assert len(hearing.tone.computed) <= half
    assert translated <= 2
    hearing.tone.computed.clear()
    for model in (hearing.tone, hearing.ear, hearing.shout):
        model.gate.set()
    # The model thread takes what is still queued before the second of two later requests.
    for _ in range(2):
        assert answer(hearing, SURFACES[0])
    assert hearing.tone.computed == 2 * ["This is the first sentence.", "Here comes the second one."]
    assert (len(hearing.ear.requests), len(hearing.shout.batches)) == (heard, translated)


@surfaces("recognition", "interpretation", socket=True)
def test_clients_that_leave_while_they_speak_leave_nothing(hearing: Any, surface: Surface) -> None:
    for part in range(6):
        with surface.ask(hearing, recording=PCM[: part * RATE]) as conversation:
            if part % 2:
                conversation.break_off()
    assert wait_until(hearing.idle)
    assert answer(hearing, surface)


# Sockets that a failure of the model ends; others tell of it, and go on.
ENDED_BY_FAILURE = ("elevenlabs socket", "deepgram listening socket", "elevenlabs listening socket", "wyoming",
                    "wyoming listening")  # fmt: skip


@surfaces(rule="failed")
def test_a_model_that_fails_is_told_and_the_surface_serves_on(hearing: Any, surface: Surface) -> None:
    failed = counted(hearing, surface, "failed")
    with surface.ask(hearing, "fails") as conversation:
        refused = refusal(conversation)
        assert (refused.code or "model_failed") == "model_failed"
        assert "failed" in refused.message
        # The first segment of a recording is sent before the second one fails.
        if surface.name in ENDED_BY_FAILURE or not (surface.socket or surface.name == "transcription events"):
            check_end(surface, conversation, refused, 500, 1011)
    assert wait_until(lambda: counted(hearing, surface, "failed") == failed + 1)
    assert answer(hearing, surface)


@surfaces()
def test_a_failure_in_the_middle_breaks_the_answer_off_or_is_told(hearing: Any, surface: Surface) -> None:
    with surface.ask(hearing, "half fails") as conversation:
        if not (surface.socket or surface.name in WHOLE or "events" in surface.name):
            with pytest.raises(BrokenOffError):
                conversation.answer()
        else:
            refused = refusal(conversation)
            assert (refused.code or "model_failed", refused.status in (500, 0)) == ("model_failed", True)
    assert answer(hearing, surface)


@surfaces(rule="first piece")
def test_the_first_piece_comes_before_the_rest_is_computed(hearing: Any, surface: Surface) -> None:
    with surface.ask(hearing, "half") as conversation:
        conversation.first()
        hearing.tone.gate.set()
        hearing.ear.gate.set()
        hearing.shout.gate.set()
        assert conversation.answer()


# The surface, its name of a form of audio, the media type, the codec and the rate of what comes, and bits a second.
# Without a codec there are samples alone, of so many bytes.
OUTPUTS: list[tuple[str, dict[str, object], str, str | int, int, int]] = [
    ("openai", {"format": "wav"}, "audio/wav", "pcm_s16le", 24_000, 0),
    ("openai", {"format": "wav", "sample_rate": 44_100}, "audio/wav", "pcm_s16le", 44_100, 0),
    ("openai", {"format": "flac"}, "audio/flac", "flac", 24_000, 0),
    ("openai", {"format": "flac", "sample_rate": 8_000}, "audio/flac", "flac", 8_000, 0),
    ("openai", {"format": "mp3"}, "audio/mpeg", "mp3float", 24_000, 0),
    ("openai", {"format": "opus"}, "audio/ogg", "opus", 48_000, 0),
    ("openai", {"format": "aac"}, "audio/aac", "aac", 24_000, 0),
    ("openai", {"format": "pcm", "sample_rate": 12_000}, "audio/pcm", 2, 12_000, 0),
    ("openai", {"format": "mulaw"}, "audio/basic", 1, 8_000, 0),
    ("openai", {"format": "alaw", "sample_rate": 16_000}, "audio/PCMA", 1, 16_000, 0),
    ("deepgram", {}, "audio/mpeg", "mp3float", 24_000, 0),
    ("deepgram", {"bit_rate": 32_000}, "audio/mpeg", "mp3float", 24_000, 32_000),
    ("deepgram", {"bit_rate": "64000.0"}, "audio/mpeg", "mp3float", 24_000, 64_000),
    ("deepgram", {"format": "linear16"}, "audio/wav", "pcm_s16le", 24_000, 0),
    ("deepgram", {"format": "linear16", "container": "wav", "sample_rate": 8_000}, "audio/wav", "pcm_s16le", 8_000, 0),
    ("deepgram", {"format": "mulaw"}, "audio/wav", "pcm_mulaw", 8_000, 0),
    ("deepgram", {"format": "alaw", "sample_rate": 16_000}, "audio/wav", "pcm_alaw", 16_000, 0),
    ("deepgram", {"format": "opus"}, "audio/ogg", "opus", 48_000, 0),
    ("deepgram", {"format": "flac", "sample_rate": 22_050}, "audio/flac", "flac", 22_050, 0),
    ("deepgram", {"format": "aac"}, "audio/aac", "aac", 24_000, 0),
    ("deepgram socket", {}, "", 2, 24_000, 0),
    ("deepgram socket", {"format": "mulaw"}, "", 1, 8_000, 0),
    ("deepgram socket", {"format": "alaw", "sample_rate": 16_000}, "", 1, 16_000, 0),
    ("deepgram socket", {"format": "linear16", "sample_rate": 8_000}, "", 2, 8_000, 0),
    ("deepgram socket", {"format": "linear16", "sample_rate": 48_000}, "", 2, 48_000, 0),
    ("deepgram socket", {"sample_rate": 44_100}, "", 2, 44_100, 0),
    ("elevenlabs", {}, "audio/mpeg", "mp3float", 44_100, 128_000),
    ("elevenlabs", {"format": "mp3_22050_32"}, "audio/mpeg", "mp3float", 22_050, 32_000),
    ("elevenlabs stream", {"format": "mp3_24000_48"}, "audio/mpeg", "mp3float", 24_000, 48_000),
    ("elevenlabs stream", {"format": "mp3_44100_192"}, "audio/mpeg", "mp3float", 44_100, 192_000),
    ("elevenlabs", {"format": "opus_48000_64"}, "audio/ogg", "opus", 48_000, 0),
    ("elevenlabs", {"format": "wav_16000"}, "audio/wav", "pcm_s16le", 16_000, 0),
    ("elevenlabs", {"format": "wav_44100"}, "audio/wav", "pcm_s16le", 44_100, 0),
    ("elevenlabs", {"format": "pcm_8000"}, "audio/pcm", 2, 8_000, 0),
    ("elevenlabs", {"format": "pcm_16000"}, "audio/pcm", 2, 16_000, 0),
    ("elevenlabs stream", {"format": "pcm_22050"}, "audio/pcm", 2, 22_050, 0),
    ("elevenlabs stream", {"format": "pcm_44100"}, "audio/pcm", 2, 44_100, 0),
    ("elevenlabs", {"format": "pcm_48000"}, "audio/pcm", 2, 48_000, 0),
    ("elevenlabs", {"format": "ulaw_8000"}, "audio/basic", 1, 8_000, 0),
    ("elevenlabs", {"format": "alaw_8000"}, "audio/PCMA", 1, 8_000, 0),
    ("elevenlabs socket", {"format": "mp3_44100_32"}, "", "mp3float", 44_100, 32_000),
    ("elevenlabs socket", {"format": "mp3_44100_128"}, "", "mp3float", 44_100, 128_000),
    ("elevenlabs socket", {"format": "mp3_44100_192"}, "", "mp3float", 44_100, 192_000),
]


@pytest.mark.parametrize("text", ["Hello world.", TEXT], ids=["one sentence", "two"])
@pytest.mark.parametrize(
    ("name", "choice", "media", "codec", "rate", "bits"), OUTPUTS, ids=[f"{name}: {each[0]}" for name, *each in OUTPUTS]
)
def test_audio_is_what_its_form_says(
    hearing: Any, name: str, choice: dict[str, object], media: str, codec: str | int, rate: int, bits: int, text: str
) -> None:
    surface = named(name)
    with SURFACES[0].ask(hearing, text=text, format="pcm") as conversation:
        seconds = len(conversation.answer()) / 48_000
    with surface.ask(hearing, text=text, **choice) as conversation:
        audio = conversation.answer()
    if isinstance(conversation, HttpConversation):
        assert conversation.response.getheader("content-type") == media
    if isinstance(codec, int):
        assert len(audio) / codec / rate == pytest.approx(seconds, abs=0.001)
        return
    with av.open(io.BytesIO(audio)) as container:
        stream = container.streams.audio[0]
        assert (stream.codec.name, stream.rate) == (codec, rate)
        assert not bits or stream.codec_context.bit_rate == bits
        decoded = sum(frame.samples for frame in container.decode(audio=0)) / rate
    assert seconds - 0.01 <= decoded <= seconds + 0.2


# Samples without a container: by the surface its name of their form, the form, the rate, and the number of channels.
SAMPLES: dict[str, list[tuple[dict[str, object], str, int, int]]] = {
    "deepgram listening": [
        ({"encoding": "linear16"}, "<i2", 8_000, 1), ({"encoding": "linear16", "channels": 2}, "<i2", 16_000, 2),
        ({"encoding": "linear32"}, "<f4", 8_000, 1),
        ({"encoding": "mulaw"}, "ULAW", 8_000, 1), ({"encoding": "alaw"}, "ALAW", 8_000, 1),
    ],
    "deepgram listening socket": [
        ({"encoding": "linear16"}, "<i2", 48_000, 1), ({"encoding": "linear16", "channels": 2}, "<i2", 16_000, 2),
        ({"encoding": "linear32"}, "<f4", 16_000, 1),
        ({"encoding": "mulaw"}, "ULAW", 8_000, 1), ({"encoding": "alaw"}, "ALAW", 8_000, 1),
    ],
    "elevenlabs listening": [({"file_format": "pcm_s16le_16"}, "<i2", 16_000, 1)],
    "elevenlabs listening socket": [
        *(({"audio_format": f"pcm_{rate}"}, "<i2", rate, 1) for rate in (8_000, 22_050, 48_000)),
        ({"audio_format": "ulaw_8000"}, "ULAW", 8_000, 1),
    ],
    "realtime": [
        ({"coding": {"type": "audio/pcm", "rate": 24_000}}, "<i2", 24_000, 1),
        ({"coding": {"type": "audio/pcmu"}}, "ULAW", 8_000, 1), ({"coding": {"type": "audio/pcma"}}, "ALAW", 8_000, 1),
    ],
    "wyoming listening": [
        ({"rate": 44_100}, "<i2", 44_100, 1), ({"rate": 8_000}, "<i2", 8_000, 1),
        ({"rate": 48_000, "channels": 2}, "<i2", 48_000, 2), ({"width": 3}, "<i3", 16_000, 1),
        ({"width": 4}, "<i4", 16_000, 1), ({"width": 4, "rate": 22_050, "channels": 2}, "<i4", 22_050, 2),
    ],
    "interpret": [({"input_rate": rate}, "<i2", rate, 1) for rate in (8_000, 24_000, 48_000)],
}  # fmt: skip
HEARD = [pytest.param(name, *row, id=f"{name}: {row[1]}") for name, rows in SAMPLES.items() for row in rows]


def samples(pcm: np.ndarray, form: str) -> bytes:
    if form.endswith("LAW"):
        file = io.BytesIO()
        soundfile.write(file, pcm, 8_000, format="RAW", subtype=form)
        return file.getvalue()
    if form == "<f4":
        return pcm.astype(form).tobytes()
    if form == "<i3":
        return (pcm * 0x7FFFFF00).astype("<i4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
    return (pcm * np.iinfo(form).max).astype(form).tobytes()


def spectrum(pcm: np.ndarray) -> np.ndarray:
    """Return the power of two seconds in bands of 100 Hz, up to what a telephone carries."""
    return (np.abs(np.fft.rfft(pcm, 2 * RATE)) ** 2)[: 34 * 200].reshape(34, 200).sum(1)


@pytest.mark.parametrize(("name", "choice", "form", "rate", "channels"), HEARD)
def test_samples_are_heard_as_they_sound(
    hearing: Any, name: str, choice: dict[str, object], form: str, rate: int, channels: int
) -> None:
    surface = named(name)
    if "encoding" in choice:
        choice = choice | {"sample_rate": rate}
    spoken = SPOKEN[: 2 * RATE]
    # The other channel is silent: the mean of both is half as loud.
    tracks = np.zeros((soxr.resample(spoken, RATE, rate).size, channels), np.float32)
    tracks[:, 0] = soxr.resample(spoken, RATE, rate)
    with surface.ask(
        hearing, recording=samples(tracks.ravel() if channels > 1 else tracks[:, 0], form), **choice
    ) as one:
        one.answer()  # of a short recording there may be no partial text
    heard = hearing.ear.requests[-1].pcm
    # Some surfaces leave the silence around the words out.
    assert 1.6 * RATE <= heard.size <= 2.04 * RATE
    assert np.corrcoef(spectrum(heard), spectrum(spoken))[0, 1] > 0.95
    assert np.sqrt(np.sum(heard**2)) == pytest.approx(np.sqrt(np.sum(spoken**2)) / channels, rel=0.05)


# Requests that cannot be served.

ABSENT = {"speech": "absent", "translation": "absent-translator", "recognition": "absent-ear"}


@surfaces(*ABSENT)
def test_a_model_that_is_not_installed_is_refused_with_the_command_that_installs_it(
    hearing: Any, server: Any, surface: Surface
) -> None:
    name = ABSENT[surface.kind]
    # By its name; and because nothing else is installed.
    asked = [(hearing, {"model": name})] + [(server, {})] * (surface.kind != "speech")
    for running, choice in asked:
        rejected = counted(running, surface, "rejected")
        with surface.ask(running, **choice) as conversation:
            refused = refusal(conversation)
            assert (refused.code or "model_not_installed") == "model_not_installed"
            assert f"nightingale models pull {name}" in refused.message
            check_end(surface, conversation, refused, 503, 1013)
        if surface.name not in LEFT_OUT["rejected"]:
            assert wait_until(
                lambda running=running, number=rejected: counted(running, surface, "rejected") == number + 1
            )


OTHER_KIND = {"speech": "shout", "translation": "tone", "recognition": "tone", "interpretation": "ear"}
TRANSLATING = ("translation", "interpretation")
# What is wrong: the kinds of surfaces that it concerns, the choice, the code, the HTTP status, words of the message.
FAULTS: dict[str, tuple[tuple[str, ...], dict[str, object], str, int, str]] = {
    "unknown model": (tuple(OTHER_KIND), {"model": "nobody"}, "model_not_found", 404, "accepted are"),
    "model of another kind": (tuple(OTHER_KIND), {}, "wrong_model_kind", 400, ""),
    "unknown voice": (("speech", "interpretation"), {"voice": "nobody"}, "unknown_voice", 400, "silky"),
    "unknown language": (("speech",), {"language": "tlh"}, "unsupported_language", 400, "en-us"),
    "unknown target": (TRANSLATING, {"target": "Frnch"}, "unsupported_language", 400, "French"),
    "unknown source": (TRANSLATING, {"source": "Klingon"}, "unsupported_language", 400, "Klingon"),
    "unknown speech": (("recognition",), {"language": "xx"}, "unsupported_language", 400, "xx"),
    "unknown format": (("speech", "interpretation"), {"format": "midi"}, "unsupported_format", 400, ""),
    "unknown option": (tuple(OTHER_KIND), {"sead": 1}, "invalid_request", 400, "sead"),
    "speed out of range": (("speech", "interpretation"), {"speed": 9}, "invalid_request", 400, "speed"),
    "nothing to speak": (("speech",), {"text": "?!"}, "nothing_to_speak", 400, ""),
    "no text": (("speech", "translation"), {"text": " "}, "empty_input", 400, ""),
    "long text": (("speech",), {"text": "a" * 2_001}, "text_too_long", 400, "2000"),
    "long translation": (("translation",), {"text": "a" * 700}, "text_too_long", 400, "550"),
    "outside coverage": (("translation",), {"text": "A quark here."}, "outside_coverage", 400, "'A quark here.'"),
    "long prompt": (("recognition",), {"prompt": "endless"}, "text_too_long", 400, ""),
    "no recording": (("recognition",), {"recording": b"not audio" * 100}, "unusable_recording", 400, "cannot be read"),
    "large recording": (("recognition",), {"recording": bytes((4 << 20) + 1)}, "body_too_large", 413, ""),
}
ELEVENLABS = {each.name for each in SURFACES if each.label == "elevenlabs"}
SOCKETS = {each.name for each in SURFACES if each.socket}
# Surfaces on which a fault cannot be asked for, or is none.
NO_FAULT: dict[str, set[str]] = {
    "unknown language": ELEVENLABS | {"deepgram", "deepgram socket"},
    "unknown option": ELEVENLABS
    | {each.name for each in SURFACES if each.label in ("deepgram", "wyoming", "libretranslate")}
    | {"openai", "openai events", "transcriptions", "transcription events", "translations"},
    "unknown format": {"wyoming"},
    "speed out of range": ELEVENLABS | {"wyoming"},
    "unknown speech": {"translations"},
    "no recording": SOCKETS,
    "large recording": SOCKETS,
    # Spoken text that has no words is passed over.
    "nothing to speak": {"elevenlabs socket", "elevenlabs contexts"},
    "no text": SOCKETS - {"wyoming"},
    "long prompt": {"elevenlabs listening socket", "deepgram listening socket", "realtime"},
}
ASKED = [
    pytest.param(surface, fault, id=f"{surface}: {fault}")
    for fault, (kinds, *_) in FAULTS.items()
    for surface in SURFACES
    if surface.kind in kinds and surface.name not in NO_FAULT.get(fault, ())
]


@pytest.mark.parametrize(("surface", "fault"), ASKED)
def test_what_cannot_be_served_is_refused_in_the_surface_s_shape(hearing: Any, surface: Surface, fault: str) -> None:
    _, choice, code, status, says = FAULTS[fault]
    if fault == "model of another kind":
        choice = {"model": OTHER_KIND[surface.kind]}
    elif fault == "unknown model" and surface.name in ("deepgram", "deepgram socket"):
        choice = {"voice": "nobody/steady"}
    with surface.ask(hearing, **choice) as conversation:
        refused = refusal(conversation)
        if code == "unknown_voice" and surface.label == "elevenlabs":
            code, status = "voice_not_found", 404
        if surface.socket and code == "invalid_request":
            assert refused.code in (code, "protocol_error")
        else:
            assert refused.code in (code, "")
        assert says in refused.message
        assert len(refused.message) < 1_000
        if getattr(surface, "error", None) is openai_error and surface.name != "dialogue" and not surface.socket:
            (name,) = choice
            assert refused.param == {"recording": "file"}.get(name, surface.options.get(name, name)) or status == 413
        if fault != "nothing to speak" or not surface.socket:
            check_end(surface, conversation, refused, status, 1008)
    assert hearing.tone.computed == []


JSON = tuple(each for each in SURFACES if each.kind in ("speech", "translation") and not each.socket)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"[" * 20_000, b'{"\\ud800": 1}',
     b'{"input": "\\ud800", "text": "\\ud800", "q": "\\ud800", "target": "fr"}', b"a" * 70_000, b"x" * 2_000_000],
    ids=["empty", "half", "list", "text", "no text", "deep", "name", "surrogate", "large", "larger"],
)  # fmt: skip
@pytest.mark.parametrize("surface", JSON, ids=str)
def test_a_body_that_cannot_be_read_is_refused(hearing: Any, surface: Surface, body: bytes) -> None:
    with surface.ask(hearing, content=body) as conversation:
        refused = refusal(conversation)
    large = len(body) > 65_536
    assert refused.code in ("body_too_large" if large else "invalid_request", "")
    assert refused.status == (413 if large else 400)
    assert hearing.tone.begun == []


FRAMES = {
    "half": "{", "list": "[]", "empty": "{}", "kind": '{"type": "sing"}', "deep": '{"a":' * 5_000, "binary": b"\x00",
    "large": "x" * 1_100_000,
}  # fmt: skip
# Bytes are audio to the one. All fields of the messages of the others may be absent.
READABLE = [("deepgram listening socket", "binary")]
READABLE += [(f"elevenlabs {name}", frame) for name in ("socket", "contexts") for frame in ("empty", "kind")]


@pytest.mark.parametrize(
    ("surface", "frame"),
    [
        pytest.param(surface, frame, id=f"{surface}: {name}")
        for name, frame in FRAMES.items()
        for surface in SURFACES
        if surface.socket and surface.label != "wyoming" and (str(surface), name) not in READABLE
    ],
)
def test_a_message_that_cannot_be_read_ends_the_socket(hearing: Any, surface: Surface, frame: str | bytes) -> None:
    with surface.opened(hearing) as conversation:
        conversation.send(frame)
        if len(frame) > 1_000_000:
            with contextlib.suppress(RefusedError):
                conversation.answer()
            assert conversation.end() == 1009
            return
        refused = refusal(conversation)
        if surface.stays:
            conversation.send("{")
            assert refusal(conversation).code == refused.code
        else:
            assert (refused.code, conversation.end()) == ("protocol_error", 1008)
    assert hearing.tone.begun == []


CHUNK = '{"message_type": "input_audio_chunk"'
EMPTY = f'{CHUNK}, "audio_base_64": ""'
# Messages of single surfaces that are wrong in themselves, and those that are too large, with the code of the error.
WRONG: dict[str, list[str]] = {
    "deepgram listening socket": [
        '{"type": "Configure", "keyterms": 5}', '{"type": "Configure", "keyterms": ["\\ud800"]}',
    ],
    "deepgram socket": [
        '{"type": "Speak"}', '{"type": "Speak", "text": 5}', '{"type": "Speak", "text": "\\ud800"}',
    ],
    "elevenlabs listening socket": [
        f"{CHUNK}}}", f'{CHUNK}, "audio_base_64": "?"}}', f'{EMPTY}, "commit": "yes"}}',
        f'{EMPTY}, "sample_rate": 8000}}',
    ],
    "elevenlabs socket": [
        '{"text": 1}', '{"text": "\\ud800"}', '{"text": " ", "voice_settings": {"speed": 99}}',
        '{"text": " ", "generation_config": {"chunk_length_schedule": [0]}}',
    ],
}  # fmt: skip
WRONG["elevenlabs contexts"] = WRONG["elevenlabs socket"]
MESSAGES: list[tuple[str, str | bytes, str, int]] = [
    ("deepgram listening socket", bytes((1 << 20) + 1), "body_too_large", 1009),
    ("deepgram listening socket", "x" * 70_000, "body_too_large", 1009),
    ("deepgram socket", json.dumps({"type": "Speak", "text": "a" * 2_001}), "text_too_long", 1008),
    ("deepgram socket", json.dumps({"type": "Speak", "text": "a" * 70_000}), "body_too_large", 1009),
    ("elevenlabs listening socket", "x" * ((1 << 20) + 1), "chunk_size_exceeded", 1009),
]
for _name in ("elevenlabs socket", "elevenlabs contexts"):
    MESSAGES += [
        (_name, json.dumps({"text": "a" * 2_001}), "text_too_long", 1008),
        (_name, json.dumps({"text": "a" * 70_000}), "body_too_large", 1009),
    ]
MESSAGES += [(name, message, "protocol_error", 1008) for name, messages in WRONG.items() for message in messages]


@pytest.mark.parametrize(("name", "message", "code", "close"), MESSAGES, ids=[each[0] for each in MESSAGES])
def test_a_message_that_is_wrong_ends_the_socket(
    hearing: Any, name: str, message: str | bytes, code: str, close: int
) -> None:
    with named(name).opened(hearing) as conversation:
        conversation.send(message)
        refused = refusal(conversation)
        assert (refused.code, conversation.end()) == (code, close)
        assert refused.close in (None, close)


# Addresses of sockets: by the surface and the code of the error what its query has besides.
HANDSHAKES: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("deepgram listening socket", "unsupported_format"): [{"encoding": ""}, {"encoding": "opus"}],
    ("deepgram listening socket", "invalid_request"): [
        {"sample_rate": ""}, {"sample_rate": "200000"}, {"channels": "0"}, {"endpointing": "soon"},
        {"utterance_end_ms": "-1"}, {"diarize": "true"}, {"multichannel": "true"}, {"callback": "http://127.0.0.1/"},
    ],
    ("deepgram socket", "unsupported_format"): [{"sample_rate": 96_000}],
    ("deepgram socket", "invalid_request"): [{"sample_rate": "fast"}, {"sample_rate": "0"}, {"speed": "nan"}],
    ("deepgram socket", "unsupported_language"): [{"model": "aura-2-none-xx"}],
    ("elevenlabs listening socket", "invalid_request"): [
        {"model_id": ""}, {"audio_format": "opus"}, {"commit_strategy": "often"}, {"vad_threshold": "nan"},
        {"vad_silence_threshold_secs": "9"}, {"keyterms": ["word"] * 51}, {"entity_detection": "all"},
        {"token": "sutkn_1"},
    ],
    ("realtime", "model_not_found"): [{"intent": "conversation", "model": "whisper-1"}, {"model": "nothing"}],
}  # fmt: skip
SHAKEN = [(*each, query) for each, queries in HANDSHAKES.items() for query in queries]


@pytest.mark.parametrize(("name", "code", "query"), SHAKEN, ids=[f"{name}: {query}" for name, _, query in SHAKEN])
def test_a_handshake_that_cannot_be_served_says_why(hearing: Any, name: str, code: str, query: dict[str, Any]) -> None:
    surface = named(name)
    url = httpx.URL(hearing.url.replace("http", "ws", 1) + surface.path).copy_merge_params(query)
    with pytest.raises(InvalidStatus) as caught, connect(str(url)):
        pass
    response = caught.value.response
    refused = surface.error(json.loads(response.body))
    assert (refused.code, response.status_code) == (code, 404 if code == "model_not_found" else 400)
    assert response.headers.get("dg-error") == (refused.message if surface.label == "deepgram" else None)
    assert code != "model_not_found" or query["model"] in refused.message


@dataclass
class Recorder(SocketConversation):
    """Keeps what a surface sends."""

    sent: list[dict[str, Any] | bytes | str] = field(default_factory=list)

    def send(self, message: dict[str, Any] | bytes | str) -> None:
        self.sent.append(message)


def messages(surface: WebSocket) -> list[dict[str, Any] | bytes | str]:
    """Return the messages of a whole request."""
    recorder = Recorder()
    surface.send(recorder, surface.chosen("steady", {}))
    return recorder.sent


WEB_SOCKETS = [each for each in SURFACES if isinstance(each, WebSocket)]
# Kinds of messages of several protocols.
KINDS = ("start", "update", "mute", "flush", "cancel", "end", "text", "Clear", "Finalize", "Configure", "x", 3, None,
         "session.update", "transcription_session.update", "input_audio_buffer.clear", "conversation.item.retrieve",
         "input_audio_buffer.commit")  # fmt: skip


@pytest.mark.parametrize("surface", WEB_SOCKETS, ids=str)
def test_noise_in_place_of_messages_does_no_harm(hearing: Any, surface: WebSocket) -> None:
    """Messages whole and damaged, of other kinds and in any order; then the server serves as before."""
    chance = random.Random(str(surface))
    known = messages(surface)
    for _ in range(8):
        with surface.opened(hearing) as conversation, contextlib.suppress(OSError):
            for _ in range(chance.randrange(40)):
                message = chance.choice([*known[:2], *known[-2:]])
                if isinstance(message, dict):
                    message = message | {chance.choice([*message, "type"]): chance.choice([*KINDS, [], {}, "x" * 999])}
                noise = json.dumps(message).encode() if isinstance(message, dict) else bytes(message)
                place = chance.randrange(len(noise) + 1)
                if chance.random() < 0.3:
                    noise = noise[:place] + chance.choice([b'"', b"{", b"]", b"0", b"\\", b"\xff"]) + noise[place + 1 :]
                conversation.send(noise if chance.random() < 0.1 else noise.decode("latin-1"))
            conversation.break_off()
    assert wait_until(hearing.idle)
    assert answer(hearing, surface)


def test_what_came_before_a_server_drains_is_recognized() -> None:
    """No client has said that its recording is whole."""
    with serving() as running, contextlib.ExitStack() as stack:
        heard = []
        for surface in WEB_SOCKETS:
            if surface.kind in ("recognition", "interpretation") and not surface.stays:
                conversation = stack.enter_context(surface.opened(running))
                for message in messages(surface)[:-1]:
                    conversation.send(message)
                running.take(conversation.socket)
                heard.append(conversation)
        running.call(running.services.admission.drain)
        for conversation in heard:
            with pytest.raises(RefusedError) as caught:
                while True:
                    conversation.answer()
            told = (caught.value.code, bool(conversation.answered), conversation.end())
            assert told == ("draining", True, 1012)


# The end of a client's patience, of its reading, and of the server. All surfaces wait at the same time.


@contextlib.contextmanager
def serving(**settings: object) -> Iterator[Running]:
    """A server like the shared one, with settings of its own."""
    chosen = {"recognition_gate": False, "preload": ("parrot",), "wyoming_port": 0} | settings
    running = start(Settings.model_validate(chosen), ToneCatalog(recognizer="ear", translator="shout"))
    yield running
    stop(running)


@pytest.fixture(scope="module")
def silent() -> Iterator[dict[str, Conversation]]:
    """A conversation of each socket, on which nothing is sent."""
    with serving(idle_seconds=0.4) as running, contextlib.ExitStack() as stack:
        yield {str(each): stack.enter_context(each.opened(running)) for each in SURFACES if each.socket}


@surfaces(socket=True)
def test_a_client_that_is_silent_is_told_and_ended(silent: dict[str, Conversation], surface: Surface) -> None:
    refused = refusal(silent[surface.name])
    assert refused.code == "idle_timeout"
    assert silent[surface.name].end() in (1008, 0)


@pytest.fixture(scope="module")
def full() -> Iterator[Running]:
    """A server whose one place is taken."""
    with serving(max_streams=1) as running, SURFACES[0].ask(running, "held"):
        assert wait_until(lambda: bool(running.tone.begun))
        yield running


@surfaces()
def test_a_client_without_a_place_is_refused_early(full: Running, surface: Surface) -> None:
    with surface.ask(full) as conversation:
        refused = refusal(conversation)
        assert refused.code in ("overloaded", "")
        check_end(surface, conversation, refused, 503, 1013)
    assert len(full.tone.begun) == 1


# Choices that make an answer large. What is sent as a whole waits for nobody.
LARGE: dict[str, dict[str, object]] = {
    "openai": {"sample_rate": 48_000},
    "openai events": {"sample_rate": 48_000},
    "dialogue": {"sample_rate": 48_000},
    "stream": {"sample_rate": 48_000},
    "elevenlabs stream": {"format": "pcm_48000"},
    "elevenlabs times": {"format": "pcm_48000"},
    "elevenlabs dialogue": {"format": "pcm_48000"},
    "elevenlabs socket": {"format": "pcm_48000"},
    "elevenlabs contexts": {"format": "pcm_48000"},
    "deepgram": {"format": "linear16", "sample_rate": 48_000},
    "deepgram socket": {"format": "linear16", "sample_rate": 48_000},
    "wyoming": {},
}
DEAF = [each for each in SURFACES if each.name in LARGE]
LENGTH = 150


@pytest.fixture(scope="module")
def deaf() -> Iterator[Running]:
    """Clients of all surfaces of speech, none of which reads its answer of twenty megabytes."""
    limits = {"max_input_characters": 100_000, "max_frame_bytes": 200_000, "stall_seconds": 0.5}
    with serving(**limits) as running, contextlib.ExitStack() as stack:
        for each in DEAF:
            text = " ".join(f"Sentence number {n} of {each} is long enough to fill the buffers." for n in range(LENGTH))
            stack.enter_context(each.ask(running, text=text, **LARGE[each.name]))
        assert wait_until(running.idle, 2 * PATIENCE)
        yield running


@pytest.mark.parametrize("surface", DEAF, ids=str)
def test_a_client_that_reads_nothing_stops_its_own_work(deaf: Running, surface: Surface) -> None:
    computed = [text for text in deaf.tone.computed if f" of {surface} is" in text]
    assert 0 < len(computed) < LENGTH
    assert answer(deaf, surface)


Ending = tuple[dict[str, Conversation], dict[str, bytes]]


@contextlib.contextmanager
def ending(abort: bool) -> Iterator[Ending]:
    """Conversations whose work waits while the server ends, and the answers that those of a calm server have."""
    comments = mock.patch("app.server.exchange.COMMENT_SECONDS", 0.02)
    with serving() as running, comments, contextlib.ExitStack() as stack:
        calm = {str(each): answer(running, each) for each in SURFACES}
        running.tone.begun.clear()
        held = {str(each): stack.enter_context(each.ask(running, "held")) for each in SURFACES}
        assert wait_until(lambda: f"nightingale_active_streams {len(held)}.0" in running.metrics())
        admission = running.services.admission
        running.call(admission.drain)
        # The answer of this surface has begun: it sends comments while the model computes.
        held["transcription events"].first()
        if abort:
            running.call(admission.abort)
        else:
            for surface in SURFACES:
                with surface.ask(running) as late:
                    refused = refusal(late)
                    assert refused.code in ("draining", ""), surface
                    check_end(surface, late, refused, 503, 1012)
            for model in (running.tone, running.ear, running.shout):
                model.gate.set()
        yield held, calm
        assert wait_until(running.idle)


@pytest.fixture(scope="module")
def drained() -> Iterator[Ending]:
    with ending(abort=False) as found:
        yield found


@pytest.fixture(scope="module")
def aborted() -> Iterator[Ending]:
    with ending(abort=True) as found:
        yield found


@surfaces()
def test_a_server_that_drains_finishes_what_was_asked_for(drained: Ending, surface: Surface) -> None:
    held, calm = drained
    conversation, answered, refused = held[surface.name], None, None
    try:
        answered = conversation.answer()
        if surface.socket and surface.name not in LEFT_OUT["drained"]:
            conversation.answer()
    except RefusedError as error:
        refused = error
    if surface.kind == "speech":
        assert answered == calm[surface.name]
    if surface.kind == "interpretation":
        assert isinstance(conversation, SocketConversation) and conversation.answered
    elif refused is None:
        assert answered or not surface.socket
    if surface.socket and surface.name not in LEFT_OUT["drained"]:
        assert refused is not None
        assert (refused.code, conversation.end() in (1012, 0)) == ("draining", True)


@surfaces()
def test_a_server_that_waits_no_longer_breaks_off_with_a_reason(aborted: Ending, surface: Surface) -> None:
    held, _ = aborted
    refused = refusal(held[surface.name])
    assert refused.code in ("draining", "")
    check_end(surface, held[surface.name], refused, 503, 1012)
