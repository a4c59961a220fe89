"""Speech in another language, over HTTP and WebSocket: a translator that writes capitals and a model that hums."""

import itertools
import json
import re
import threading
import time
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.app.server import streams
from tests.app.server.streams import say, send, until_answer

SENTENCES = ["Where is the station?", "It is near the bridge.", "Thank you very much."]
THREE = " ".join(SENTENCES)
TRANSLATED = [sentence.upper() for sentence in SENTENCES]


@pytest.fixture
def server(translating: Any) -> Any:
    return translating


def post(server: Any, **body: object) -> httpx.Response:
    body = {"input": THREE, "source": "en", "translate_to": "fr"} | body
    return httpx.post(server.url + "/v1/audio/speech", json=body, timeout=60)


def session(server: Any, **start: object) -> AbstractContextManager[ClientConnection]:
    return streams.session(server, **({"source": "en", "translate_to": "fr"} | start))


def test_http_speaks_the_translation(server: Any) -> None:
    response = post(server)
    assert response.status_code == 200, response.text
    assert server.tone.begun == TRANSLATED
    assert len(response.content) > 44 + 2 * 24_000
    one = post(server, input="Where is the station?")
    stages = dict(re.findall(r"(\w+);dur=([\d.]+)", one.headers["server-timing"]))
    assert {"translate_encode", "translate_decode", "g2p", "decoder"} <= set(stages)


def test_the_target_language_decides_how_it_is_pronounced(server: Any) -> None:
    with session(server, translate_to="spa_Latn", timestamps=True) as socket:
        ((chunk,), _, _) = say(socket, "Where is the station?", "end")
    for lang in ("es", "en-us"):
        with streams.session(server, lang=lang, timestamps=True) as socket:
            ((found,), _, _) = say(socket, "WHERE IS THE STATION?", "end")
        assert (found["words"] == chunk["words"]) == (lang == "es")


@pytest.mark.parametrize(
    ("body", "code", "param", "says"),
    [
        ({"translate_to": "nl"}, "unsupported_language", "translate_to", "nl"),
        ({"translate_to": "Frensh"}, "unsupported_language", "translate_to", "French"),
        ({"source": "Klingon"}, "unsupported_language", "source", ""),
        ({"translate_to": None}, "invalid_request", "source", ""),
        ({"input": "A quark is here."}, "outside_coverage", None, "'quark' is not in the phrase book"),
        ({"response_format": "srt", "stream_format": "sse"}, "unsupported_format", "response_format", "sent whole"),
        ({"response_format": "ass"}, "unsupported_format", "response_format", "alaw, and srt or vtt."),
        ({"input": "<speak>\nGood <b>morning.</speak>"}, "invalid_markup", "input", "line 2, column"),
    ],
)
def test_what_cannot_be_spoken_is_refused_before_any_audio(
    server: Any, body: dict[str, Any], code: str, param: str | None, says: str
) -> None:
    response = post(server, **body)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, code)
    assert param is None or error["param"] == param
    assert says in error["message"]


def test_text_in_the_right_language_is_spoken_as_it_is(server: Any) -> None:
    assert post(server, source="fr", input="Bonjour tout le monde.").status_code == 200
    assert server.tone.begun == ["Bonjour tout le monde."]
    assert server.shout.batches == []


def test_the_source_is_detected(server: Any) -> None:
    assert post(server, source=None, input="Où est la gare, s'il vous plaît ?", translate_to="es").status_code == 200
    assert [request.source for request in server.shout.batches[0]] == ["fra_Latn"]


def test_pauses_stay_and_foreign_pronunciations_go(server: Any) -> None:
    response = post(server, input="Where is [Nguyen](/wˈɪn/)? [pause:1s] Thank you.", response_format="pcm")
    plain = post(server, input="Where is Nguyen? Thank you.", response_format="pcm")
    assert server.shout.begun[:2] == ["Where is Nguyen?", "Thank you."]
    assert len(response.content) - len(plain.content) == 24_000  # in place of the half second between sentences


def test_events_carry_both_texts(server: Any) -> None:
    with session(server) as socket:
        for start in range(0, len(THREE), 5):
            send(socket, "text", text=THREE[start : start + 5])
        send(socket, "end")
        chunks, audio, done = until_answer(socket)
    assert [(chunk["text"].strip(), chunk["source_text"]) for chunk in chunks if chunk["text"]] == [
        *zip(TRANSLATED, SENTENCES, strict=True)
    ]
    starts = itertools.accumulate((chunk["duration"] for chunk in chunks[:2]), initial=0)
    assert [chunk["start"] for chunk in chunks] == pytest.approx([*starts])
    assert len(audio) == 2 * round(done["audio_duration"] * 24_000)
    assert {"translate_encode", "translate_decode"} <= set(done["stages"])


def test_a_sentence_is_spoken_while_the_next_is_translated(server: Any) -> None:
    """The second sentence waits in the translator until the first was heard."""
    with session(server) as socket:
        send(socket, "text", text="Here is the first one. This one is gated for now. ")
        send(socket, "flush")
        first = json.loads(socket.recv(timeout=60))
        assert first["text"].strip() == "HERE IS THE FIRST ONE."
        assert isinstance(socket.recv(timeout=60), bytes)
        server.shout.gate.set()
        chunks, _, done = until_answer(socket)
    assert [chunk["text"].strip() for chunk in chunks] == ["THIS ONE IS GATED FOR NOW."]
    assert done["chunks"] == 2


def test_cancel_reaches_the_translator(server: Any, wait_until: Any) -> None:
    closed = server.shout.closed
    with session(server) as socket:
        send(socket, "text", text="This is gated for good. ")
        send(socket, "flush")
        assert wait_until(lambda: server.shout.batches)
        send(socket, "cancel")
        _, audio, done = until_answer(socket)
        assert (audio, done["cancelled"]) == (b"", True)
        assert wait_until(lambda: server.shout.closed == closed + 1)
        chunks, _, _ = say(socket, "And on.", "end")
    assert [chunk["text"] for chunk in chunks] == ["AND ON."]


def test_a_failure_inside_the_translator_is_an_error_event(server: Any) -> None:
    with session(server) as socket:
        _, _, answer = say(socket, "This is broken now. ")
        assert (answer["type"], answer["error"]["code"], answer["fatal"]) == ("error", "model_failed", False)
        assert say(socket, "And on.", "end")[2]["type"] == "done"


def test_metrics_count_what_was_translated_for_speech(server: Any, wait_until: Any) -> None:
    series = 'nightingale_translation_sentences_total{model="shout",streaming="false",surface="openai"}'
    before = server.count(series)
    post(server)
    # The client has the last byte before the server has counted.
    assert wait_until(lambda: server.count(series) == before + 3)


# A language model's text.


def tokens(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def test_a_first_clause_is_spoken_before_its_sentence_ends(server: Any) -> None:
    """It is not where the order of words forbids it: Japanese has its verb at the end."""
    opening = "When you have crossed the old bridge, turn left at"
    with session(server, input="llm") as socket:
        for token in tokens(opening):
            send(socket, "text", text=token)
        first = json.loads(socket.recv(timeout=60))
        assert first["text"].strip() == "WHEN YOU HAVE CROSSED THE OLD BRIDGE,"
        send(socket, "cancel")
    assert opening not in server.shout.begun


def test_silence_ends_a_sentence(server: Any) -> None:
    """No look-ahead, no flush: the last sentence is not held back."""
    with session(server, input="llm") as socket:
        send(socket, "text", text="It is done.")
        first = json.loads(socket.recv(timeout=60))
        assert first["text"].strip() == "IT IS DONE."
        send(socket, "flush")
        _, _, done = until_answer(socket)
    assert done["stages"]["boundary"] > 0.05


def test_the_wait_for_a_boundary_is_a_stage(server: Any, wait_until: Any) -> None:
    with session(server, input="llm") as socket:
        send(socket, "text", text="It is ")
        server.take(socket)
        time.sleep(0.3)
        _, _, done = say(socket, "done.", "end")
    assert done["stages"]["boundary"] >= 0.3
    assert wait_until(lambda: 'stage="boundary"' in server.metrics())


def test_a_partial_sentence_is_translated_ahead_and_serves_as_a_draft(server: Any, wait_until: Any) -> None:
    sentence = "The old man walks along the river with his dog"
    closed = server.shout.closed
    with session(server, input="llm") as socket:
        send(socket, "text", text=sentence)
        assert wait_until(lambda: server.shout.closed > closed)
        ahead = server.shout.begun[-1]
        # The model thread hands the draft over before it speaks, and the event loop takes it before it answers.
        assert httpx.post(server.url + "/v1/audio/speech", json={"input": "Hi."}).status_code == 200
        send(socket, "text", text=" every day. And then")
        first = json.loads(socket.recv(timeout=60))
        send(socket, "end")
        until_answer(socket)
    assert first["text"].strip() == f"{sentence} every day.".upper()
    (whole,) = [request for batch in server.shout.batches for request in batch if request.text.endswith("day.")]
    assert whole.draft == (1,) * len(ahead.split())


def test_nothing_is_anticipated_where_it_is_not_wanted(server: Any) -> None:
    with session(server, input="llm", anticipate=False) as socket:
        send(socket, "text", text="The old man walks along the river with his dog")
        server.take(socket)
        time.sleep(0.3)
        assert server.shout.batches == []
        send(socket, "end")
        until_answer(socket)
    # The whole alone: nothing came before it.
    assert len(server.shout.batches) == 1


def test_a_long_markdown_text_in_one_message_holds_nobody_up(server: Any) -> None:
    text = "This is *one* of many sentences. " * 500
    with session(server, input="llm", voice="steady") as socket:
        turns, done = [], threading.Event()
        loop = server.server.servers[0].get_loop()

        def tick() -> None:
            turns.append(time.thread_time())
            if not done.is_set():
                loop.call_later(0.005, tick)

        loop.call_soon_threadsafe(tick)
        send(socket, "text", text=text)
        for _ in range(10):
            assert httpx.get(server.url + "/livez").status_code == 200
        send(socket, "cancel")
        until_answer(socket)
        done.set()
    # Seconds of the processor, of which a busy machine takes no more.
    longest = max(after - before for before, after in itertools.pairwise(turns))
    print(f"\nlongest turn of the event loop: {longest:.3f} s")
    assert longest < 0.5


def test_idle_sockets_with_a_deadline_still_close(start_server: Any) -> None:
    server = start_server(idle_seconds=2.5)
    with connect(server.websocket_url) as socket:
        send(socket, "start", input="llm")
        assert json.loads(socket.recv(timeout=60))["type"] == "ready"
        send(socket, "text", text="An unfinished")
        error = json.loads(socket.recv(timeout=60))
        assert error["error"]["code"] == "idle_timeout"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=60)


# Subtitles.


def test_subtitles_in_the_language_that_is_spoken(server: Any) -> None:
    response = post(server, response_format="srt")
    assert response.headers["content-type"].startswith("application/x-subrip")
    blocks = response.text.strip().split("\n\n")
    assert [block.split("\n", 2)[2] for block in blocks] == TRANSLATED
    assert [block.split("\n")[0] for block in blocks] == ["1", "2", "3"]
    vtt = post(server, response_format="vtt")
    assert vtt.headers["content-type"].startswith("text/vtt")
    assert vtt.text.startswith("WEBVTT\n\n00:00:00.")
    audio = post(server, response_format="pcm").content
    last = vtt.text.rstrip().split("\n")[-2].split(" --> ")[0]
    minutes, seconds = last.split(":")[1:]
    assert 0.6 < (60 * int(minutes) + float(seconds)) / (len(audio) / 48_000) < 0.9


SSML = """<speak xml:lang="en">
Say <say-as interpret-as="characters">AB</say-as>, <mark name="in"/>then <emphasis>go</emphasis>.<break time="2s"/>
<mark name="after"/>It is [pause:9s] <phoneme ph="wˈɪn">late</phoneme>.<voice name="silky">Yes.</voice></speak>"""
SPOKEN = ["SAY A B, THEN GO.", "IT IS [PAUSE:9S] LATE.", "YES."]


def test_ssml_is_translated_and_spoken_in_its_manner(server: Any) -> None:
    reply = post(server, input=SSML, response_format="pcm")
    assert reply.status_code == 200, reply.text
    assert server.tone.computed == SPOKEN
    assert reply.headers["x-ignored"] == "emphasis, phoneme"
    without = post(server, input=re.sub("<break[^>]*>", "", SSML), response_format="pcm").content
    # In place of the half second between two sentences.
    assert len(reply.content) - len(without) == pytest.approx(1.5 * 48_000, abs=4_800)
    assert server.tone.computed == 2 * SPOKEN
    plain = post(server, input="Good morning.", response_format="pcm").content
    assert post(server, input="<speak>Good morning.</speak>", response_format="pcm").content == plain
    slow = post(server, input="<speak><prosody rate='50%'>Good morning.</prosody></speak>", response_format="pcm")
    assert len(slow.content) > 1.5 * len(plain)


def test_ssml_is_translated_as_it_comes(server: Any) -> None:
    with session(server, input="ssml", timestamps=True) as socket:
        for start in range(0, len(SSML), 9):
            send(socket, "text", text=SSML[start : start + 9])
        send(socket, "flush")
        chunks: list[dict[str, Any]] = []
        warned: list[str] = []
        while True:
            found, _, event = until_answer(socket)
            chunks += found
            if event["type"] != "warning":
                break
            warned += event["ignored"]
    assert event["type"] == "done", event
    assert [chunk["text"] for chunk in chunks if chunk["text"]] == SPOKEN
    sources = [chunk["source_text"] for chunk in chunks if chunk["text"]]
    assert sources == ["Say A B, then go.", "It is [pause:9s] late.", "Yes."]
    assert warned == ["emphasis", "phoneme"]
    marks = {mark["name"]: mark["time"] for chunk in chunks for mark in chunk["marks"] or ()}
    first, second = (next(chunk for chunk in chunks if chunk["text"] == text) for text in SPOKEN[:2])
    words = {word["text"]: word["start"] for word in first["words"]}
    assert words["A"] < marks["in"] <= words["THEN"]
    assert first["start"] + first["duration"] + 2 <= marks["after"] + 0.05
    assert marks["after"] == pytest.approx(second["start"], abs=0.2)


def test_ssml_that_is_malformed_is_not_translated(server: Any) -> None:
    with session(server) as socket:
        _, _, event = say(socket, "<speak>Good & bad</speak>")
        assert (event["type"], event["fatal"], event["error"]["code"]) == ("error", False, "invalid_markup")
        chunks, _, event = say(socket, "<speak>Good.</speak>")
    assert [chunk["text"] for chunk in chunks] == ["GOOD."]
    assert event["type"] == "done"


def sources(server: Any) -> list[str]:
    return [request.source for batch in server.shout.batches for request in batch]


SOURCES = [
    ("es-MX", None, "spa_Latn"), ("es-MX", "auto", "spa_Latn"), ("ru", None, "rus_Cyrl"), ("es-MX", "de", "deu_Latn"),
    ("nl", None, "eng_Latn"), ("x-unknown", None, "eng_Latn"),
]  # fmt: skip


@pytest.mark.parametrize(("named", "source", "expected"), SOURCES)
def test_the_root_of_ssml_names_the_source(server: Any, named: str, source: str | None, expected: str) -> None:
    text = f"<speak xml:lang='{named}'>Where is the station? It is near the bridge.</speak>"
    assert post(server, source=source, input=text).status_code == 200
    assert set(sources(server)) == {expected}
    server.shout.batches.clear()
    with session(server, source=source, input="ssml") as socket:
        for document in (text, "<speak>Where is the old station?</speak>"):
            assert say(socket, document)[2]["type"] == "done"
    assert sources(server) == [expected, expected, "deu_Latn" if source == "de" else "eng_Latn"]


def test_the_root_of_ssml_in_the_target_language_leaves_it_as_it_is(server: Any) -> None:
    assert post(server, source=None, input="<speak xml:lang='fr'>Table orange.</speak>").status_code == 200
    assert sources(server) == []
    assert server.tone.computed == ["Table orange."]


def test_each_line_of_ssml_names_its_own_source(server: Any) -> None:
    texts = [f"<speak xml:lang='{tag}'>Where is the station?</speak>" for tag in ("de", "es")]
    lines = [{"text": text, "voice": "silky"} for text in (*texts, "Where is the old bridge?")]
    body = {"inputs": lines, "translate_to": "fr"}
    assert httpx.post(server.url + "/v1/audio/dialogue", json=body, timeout=60).status_code == 200
    assert sources(server) == ["deu_Latn", "spa_Latn", "eng_Latn"]
