"""`POST /v1/translate` over a real socket, with a translator that writes capitals."""

import gc
import json
import re
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from app.translation import service
from app.translation.plan import PlannedText
from app.translation.text.document import SegmentedDocument
from app.translation.text.inline import InlineToken

TRANSLATE = "/v1/translate"
LONG = "This is the first. Here is the second one. And this is the third of them. Now the fourth one."


def post(server: Any, timeout: float = 300, **body: object) -> httpx.Response:
    body = {"source": "en", "target": "fr"} | body
    return httpx.post(server.url + TRANSLATE, json=body, timeout=timeout)


def texts(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [entry["text"] for entry in response.json()["translations"]]


def events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"] == "text/event-stream"
    return [json.loads(block.removeprefix("data: ")) for block in response.text.split("\n\n") if block]


def test_a_text_is_translated_and_what_is_between_sentences_stays(translating: Any) -> None:
    response = post(translating, text="  Hello there. How are you?\n\n- Fine.\n")
    body = response.json()
    assert (body["object"], body["model"]) == ("translation", "shout")
    (entry,) = body["translations"]
    assert entry.pop("text") == "  HELLO THERE. HOW ARE YOU?\n\n- FINE.\n"
    assert entry == {"source": "en", "target": "fr", "detected": None, "alternatives": []}
    assert body["usage"] == {"source_tokens": 12, "target_tokens": 6, "total_tokens": 18, "characters": 37}
    assert translating.shout.begun[0] == "Hello there."
    assert {(request.source, request.target) for request in translating.shout.batches[0]} == {("eng_Latn", "fra_Latn")}


def test_server_timing_names_the_stages(translating: Any) -> None:
    timing = post(translating, text="Hello there.", source="auto").headers["server-timing"]
    stages = dict(re.findall(r"(\w+);dur=([\d.]+)", timing))
    assert set(stages) == {"queue", "detect", "translate_encode", "translate_decode", "total"}
    assert float(stages["total"]) >= float(stages["detect"]) > 0


def test_the_sentences_of_all_texts_are_one_batch_and_equal_ones_are_sent_once(translating: Any) -> None:
    given = ["One fish. Two fish.", "", "Red fish. One fish.", " ", "Two fish."]
    assert texts(post(translating, text=given)) == [text.upper() for text in given]
    (batch,) = translating.shout.batches
    assert sorted(request.text for request in batch) == ["One fish.", "Red fish.", "Two fish."]


def test_ten_thousand_sentences_are_served_in_their_order(translating: Any) -> None:
    given = [f"This is line {number} of many." for number in range(10_000)]
    response = post(translating, text=given)
    assert texts(response) == [text.upper() for text in given]
    assert response.json()["usage"]["characters"] == sum(map(len, given))
    sizes = [len(batch) for batch in translating.shout.batches]
    assert sum(sizes) == 10_000
    assert max(sizes) == translating.shout.max_batch
    assert post(translating, text=[*given, "One more."]).json()["error"]["code"] == "text_too_long"


@pytest.mark.parametrize("given", [{"format": "html"}, {"format": "text"}, {"format": "html", "stream": True}])
def test_what_is_refused_is_freed_without_the_collector(
    translating: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    # A collection of very many objects that refer to each other stops every request.
    gc.collect()
    gc.disable()
    monkeypatch.setattr(gc, "collect", lambda: 0)
    try:
        assert post(translating, text="Hello <b>there</b>. " * 50 + "A quark.", **given).status_code == 400
        kinds = (SegmentedDocument, InlineToken, PlannedText)
        assert wait_until(lambda: not any(isinstance(each, kinds) for each in gc.get_objects()), seconds=3)
    finally:
        gc.enable()


def test_languages_are_detected_text_by_text(translating: Any) -> None:
    given = ["Where is the railway station?", "Où est la gare, s'il vous plaît ?", "駅はどこですか。"]
    for source in (None, "auto", "AUTO"):
        body = post(translating, text=given, source=source, target="es").json()
        found = [entry["detected"] for entry in body["translations"]]
        assert [each["language"] for each in found] == ["en", "fr", "ja"]
        assert [each["code"] for each in found] == ["eng_Latn", "fra_Latn", "jpn_Jpan"]
        assert all(0.3 < each["confidence"] <= 1 for each in found)
    assert {request.source for request in translating.shout.batches[-1]} == {"eng_Latn", "fra_Latn", "jpn_Jpan"}


def test_a_word_is_understood_beside_the_others_of_its_list(translating: Any) -> None:
    alone = post(translating, text="Kaffee", source="auto").json()["error"]
    assert (alone["code"], alone["param"]) == ("language_not_detected", "source")
    assert "German" in alone["message"]
    assert "English" in alone["message"]
    given = ["Kaffee", "Bitte bringen Sie uns die Rechnung und zwei Tassen Tee."]
    entries = post(translating, text=given, source="auto").json()["translations"]
    assert [entry["detected"]["language"] for entry in entries] == ["de", "de"]


def test_what_has_no_words_needs_no_language(translating: Any) -> None:
    (entry,) = post(translating, text="42 :-) 3.14", source="auto").json()["translations"]
    assert (entry["text"], entry["source"], entry["detected"]) == ("42 :-) 3.14", None, None)
    assert translating.shout.batches == []


def test_a_text_in_the_target_language_stays_as_it_is(translating: Any) -> None:
    response = post(translating, text=["Hello there, my friend.", "Bonjour, mon cher ami."], source="auto", target="en")
    assert texts(response) == ["Hello there, my friend.", "BONJOUR, MON CHER AMI."]
    assert texts(post(translating, text="Same.", source="en", target="eng_Latn")) == ["Same."]


def test_a_language_the_model_does_not_know_is_named(translating: Any) -> None:
    error = post(translating, text="Γεια σας, τι κάνετε σήμερα;", source="auto").json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_language", "source")
    assert "Greek" in error["message"]


@pytest.mark.parametrize(
    ("text_format", "given", "expected"),
    [
        (
            "html",
            '<p class="a">Hello <b>big</b> world &amp; all.</p><!-- no --><script>var no = "no";</script>',
            '<p class="a">HELLO <b>BIG</b> WORLD &amp; ALL.</p><!-- no --><script>var no = "no";</script>',
        ),
        ("html", '<p>A forgetful <a href="x">small</a> link</p>', '<p>FORGOTTEN. <a href="x">SMALL</a> LINK</p>'),
        (
            "markdown",
            "# Title\n\nText with `code` and **bold** words.\n\n```\ncode\n```\n",
            "# TITLE\n\nTEXT WITH `code` AND **BOLD** WORDS.\n\n```\ncode\n```\n",
        ),
        ("text", "See https://example.com/page for more.", "SEE https://example.com/page FOR MORE."),
    ],
)
def test_markup_survives(translating: Any, text_format: str, given: str, expected: str) -> None:
    assert texts(post(translating, text=given, format=text_format)) == [expected]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Green tea for Anna. No TEA here.", "GREEN Grüntee FOR ANNA. NO Grüntee HERE."),
        # The model loses the placeholder: what is around the term is translated by itself.
        ("A forgetful tea for Anna.", "FORGOTTEN. Grüntee FOR ANNA."),
        ("tea", "Grüntee"),
        ("<b>A forgetful</b> tea, yes.", "<b>FORGOTTEN.</b> Grüntee, YES."),
    ],
)
def test_glossary_terms_appear_as_given(translating: Any, given: str, expected: str) -> None:
    text_format = "html" if "<" in given else "text"
    assert texts(post(translating, text=given, glossary={"tea": "Grüntee"}, format=text_format)) == [expected]


def test_alternatives_come_with_scores(translating: Any) -> None:
    (entry,) = post(translating, text="One. Two.", num_beams=4, alternatives=2).json()["translations"]
    assert entry["text"] == "ONE. TWO."
    assert entry["alternatives"] == [{"text": "ONE 1. TWO 1.", "score": -2.0}, {"text": "ONE 2. TWO 2.", "score": -3.0}]
    assert {request.beams for request in translating.shout.batches[0]} == {4}
    # Too few beams for what is asked are raised.
    assert len(post(translating, text="One.", alternatives=7).json()["translations"][0]["alternatives"]) == 7
    assert translating.shout.batches[-1][0].beams == 8


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"text": ""}, (400, "empty_input", "text", "no text")),
        ({"text": []}, (400, "empty_input", "text", "no text")),
        ({"text": "a " * 250_000}, (400, "text_too_long", "text", "400000")),
        ({"text": "Hi.", "target": ""}, (400, "unsupported_language", "target", "Accepted are")),
        ({"text": "Hi.", "target": "x" * 10_000}, (400, "unsupported_language", "target", "Accepted are")),
        ({"text": "안녕.", "source": "ko"}, (400, "unsupported_language", "target", "Korean")),
        ({"text": ["Fine.", "A quark here."]}, (400, "outside_coverage", "text", "of text 1")),
        ({"text": "Hi.", "num_beams": 0}, (400, "invalid_request", "num_beams", "1")),
        ({"text": "Hi.", "num_beams": 9}, (400, "invalid_request", "num_beams", "8")),
        ({"text": "Hi.", "alternatives": 8}, (400, "invalid_request", "alternatives", "7")),
        ({"text": "Hi.", "format": "pdf"}, (400, "invalid_request", "format", "markdown")),
        ({"text": "Hi.", "glossary": {"": "x"}}, (400, "invalid_request", "glossary", "empty")),
        ({"text": "Hi.", "glossary": ["x"]}, (400, "invalid_request", "glossary", "dict")),
        ({"text": 5}, (400, "invalid_request", "text", "string")),
        ({"text": "Hi.", "target": None}, (400, "invalid_request", "target", "required")),
    ],
)
def test_errors_have_openai_s_shape(
    translating: Any, body: dict[str, object], expected: tuple[int, str, str | None, str]
) -> None:
    status, code, param, says = expected
    for streamed in (False, True):
        response = post(translating, **body, stream=streamed)
        assert response.status_code == status, response.text
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code", "request_id"}
        assert error["code"] == code
        assert param is None or error["param"] == param
        assert says in error["message"]
        assert len(error["message"]) < 1_000
    assert post(translating, text="Hi.").status_code == 200


def test_a_translator_asked_for_by_name_is_loaded(start_server: Any) -> None:
    running = start_server()
    assert post(running, text="Hi.", model="shout").status_code == 200
    assert post(running, text="Hi.").status_code == 503


def test_events_come_in_order_and_join_to_the_whole(translating: Any) -> None:
    # The second text is shorter: its sentences are finished first, and wait.
    given = [LONG, "Short. Forgetful <b>but</b> markup.", "", "42"]
    response = post(translating, text=given, stream=True, format="html")
    *sentences, done = events(response)
    assert [(event["text"], event["sentence"]) for event in sentences] == [*((0, n) for n in range(4)), (1, 0), (1, 1)]
    assert all(event["type"] == "translation.sentence" for event in sentences)
    assert sentences[0]["source_text"] == "This is the first."
    assert sentences[0]["translated_text"] == "THIS IS THE FIRST."
    assert sentences[-1]["translated_text"].count("<b>") == 1
    seconds = [event["seconds"] for event in sentences]
    assert seconds == sorted(seconds)
    assert done["type"] == "translation.done"
    assert [entry["text"] for entry in done["translations"]] == texts(post(translating, text=given, format="html"))
    assert done["usage"]["characters"] == sum(map(len, given))
    assert done["total"] >= seconds[-1]
    assert {"queue", "translate_encode", "translate_decode"} <= set(done["stages"])


def test_two_languages_at_once_and_speech_between_them(
    translating: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, tone = translating.shout.batches, translating.tone
    before: list[int] = []
    plain = tone.stream

    def stream(*arguments: Any) -> Any:
        before.append(len(batches))
        return plain(*arguments)

    monkeypatch.setattr(tone, "stream", stream)

    def run(target: str) -> list[str]:
        return texts(post(translating, text=[f"A gated {target} line, {n}." for n in range(40)], target=target))

    with ThreadPoolExecutor() as pool:
        found = {target: pool.submit(run, target) for target in ("fr", "es")}
        assert wait_until(lambda: batches)
        spoken = pool.submit(httpx.post, translating.url + "/v1/audio/speech", json={"input": "Hello."})
        # The second language and the speech wait behind the first batch.
        assert wait_until(lambda: 'nightingale_queue_depth{priority="first"} 2.0' in translating.metrics())
        translating.shout.gate.set()
        assert spoken.result(60).status_code == 200
        for target in ("fr", "es"):
            assert found[target].result(60) == [f"A GATED {target.upper()} LINE, {n}." for n in range(40)]
    assert len(before) == 1
    assert 0 < before[0] < len(batches)
    targets = [batch[0].target for batch in batches]
    # Neither language waits until the other is done.
    for target, other in (("fra_Latn", "spa_Latn"), ("spa_Latn", "fra_Latn")):
        assert targets.index(target) < len(targets) - 1 - targets[::-1].index(other)


def test_a_long_text_is_taken_apart_in_many_steps(translating: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn between two of them."""
    plain, steps = service.make_plan, []

    def counted(*given: Any) -> Generator[None, None, Any]:
        plan = plain(*given)
        while True:
            try:
                steps.append(next(plan))
            except StopIteration as end:
                return end.value
            yield

    monkeypatch.setattr(service, "make_plan", counted)
    assert len(texts(post(translating, text="This is a sentence of a long text. " * 11_000))) == 1
    assert len(steps) > 100
