"""Translation below the surfaces: plans and streams on the real model thread, with a scripted translator."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import errors
from app.config import Settings
from app.engine.admission import Admission
from app.engine.model_loader import ModelLoads, ModelStatus
from app.engine.worker import ModelWorker
from app.errors import LanguageNotDetectedError, ModelAbsentError, TextTooLongError, UnsupportedLanguageError
from app.observability import metrics
from app.translation import service as translation
from app.translation import stream as translation_stream
from app.translation.plan import SURE, TranslationOptions
from app.translation.service import TranslationService
from app.translation.stream import TranslationStream
from models.contract import Hypothesis, OutsideCoverageError, Translation, TranslationRequest, WarmupStep
from models.timeline import Timeline
from tests.app.conftest import ToneCatalog

LABELS = metrics.Labels("echo", "translate", False)


@dataclass
class Echo:
    """Translator that answers with `answer(text)`; the last sentence of a batch is finished first."""

    answer: Callable[[str], str] = str
    languages: tuple[str, ...] = ("eng_Latn", "deu_Latn", "zho_Hans", "fra_Latn")
    max_batch: int = 4
    batches: list[list[str]] = field(default_factory=list)

    def targets(self, source: str) -> list[str]:
        return [language for language in self.languages if language != source]

    def check(self, request: TranslationRequest) -> None: ...

    def warm(self, progress: Callable[[WarmupStep], None]) -> None: ...

    def translate(
        self, batch: Sequence[TranslationRequest], timeline: Timeline, cancelled: Callable[[], bool]
    ) -> Iterator[Translation | None]:
        self.batches.append([request.text for request in batch])
        yield None
        for index, request in reversed(list(enumerate(batch))):
            others = tuple(Hypothesis(f"{request.text} {n}", -float(n)) for n in range(request.alternatives))
            yield Translation(index, Hypothesis(self.answer(request.text), float("nan")), others)


@asynccontextmanager
async def service(echo: Echo) -> AsyncIterator[TranslationService]:
    catalog = ToneCatalog(shout=echo, translator="shout")
    worker = ModelWorker(catalog.load)
    worker.start()
    worker.request_load("shout")
    loads = ModelLoads(catalog, worker, Admission(), most=8, seconds=60)
    found = TranslationService(Settings(), catalog, worker, loads)
    try:
        while worker.state("shout").status is not ModelStatus.READY:  # noqa: ASYNC110 - it is another thread's
            await asyncio.sleep(0.001)
        yield found
    finally:
        found.close()
        await asyncio.to_thread(worker.stop)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_server_starts_without_the_language_identifier(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    def warm() -> None:
        if fails:
            raise OSError("its file is gone")

    monkeypatch.setattr("app.translation.service.identify.warm", warm)
    async with service(Echo()) as found:
        await found.warm(detect=True)


def translate(echo: Echo, *texts: str, in_order: bool = False, **options: Any) -> list[Any]:
    """Return the sentences of a stream, if they are wanted in order, then its texts."""

    async def run() -> list[Any]:
        async with service(echo) as subject:
            timeline = Timeline()
            chosen = TranslationOptions(**{"source": "en", "target": "de"} | options)
            stream = TranslationStream(
                subject, await subject.prepare(texts, chosen, timeline), timeline, LABELS, in_order=in_order
            )
            found: list[Any] = [sentence async for sentence in stream]
            found += await stream.texts()
            stream.close("ok")
            return found

    return asyncio.run(run())


PIECES = st.sampled_from(
    [
        "Hello there. ", "It is late! ", "tea", " ", "\n", "\n\n- ", "1. ", "<b>", "</b>", "<p>", "&amp;", "`code`",
        "**", "https://example.com/a?b=c ", "{name}", "%s ", "<x id='1'/>",
        "you@example.com", "你好。", "مرحبا. ", "ZX1 ", "QJ2", "😀", "#", "|", "\t",
        "\r\n",
    ]
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=1, max_size=4),
    st.sampled_from(["text", "markdown", "html"]),
)
def test_a_translator_that_changes_nothing_gives_the_texts_back(given_texts: list[str], text_format: str) -> None:
    if not any(text.strip() for text in given_texts):
        return
    found = translate(Echo(), *given_texts, format=text_format, glossary={"tea": "tea"}, target="fr")
    assert [text.text for text in found] == given_texts


def test_an_error_quotes_what_the_user_wrote() -> None:
    class Small(Echo):
        def check(self, request: TranslationRequest) -> None:
            raise OutsideCoverageError(f"'{request.text}' is not known")

    with pytest.raises(errors.OutsideCoverageError) as caught:
        translate(Small(), "Hi <em>{name}</em>, your tea.", format="html", glossary={"tea": "Tee"})
    assert "ZX" not in caught.value.message
    assert "'Hi <em>{name}</em>, your Tee.' is not known" in caught.value.message


def test_sentences_in_order_come_in_growing_batches() -> None:
    echo = Echo(str.upper)
    found = translate(
        echo, "One here. Two here. Three here.", "Four here. Five here. Six here. Seven here.", in_order=True
    )
    *sentences, first, second = found
    assert [len(batch) for batch in echo.batches] == [1, 2, 4]
    assert [(each.text_index, each.index) for each in sentences] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
    ]
    assert [each.translation.text for each in sentences][2:4] == ["THREE HERE.", "FOUR HERE."]
    assert (first.text, second.text[:10]) == ("ONE HERE. TWO HERE. THREE HERE.", "FOUR HERE.")


def test_without_an_order_batches_are_full_and_of_like_lengths() -> None:
    echo = Echo()
    translate(echo, *(f"{'word ' * count}end." for count in (1, 9, 2, 8, 3, 7)))
    assert [[len(text.split()) for text in batch] for batch in echo.batches] == [[10, 9, 8, 4], [3, 2]]


def test_what_is_lost_is_translated_around() -> None:
    def forget(text: str) -> str:
        return text.replace("ZX1", "something").upper()

    echo = Echo(forget)
    (found,) = translate(echo, "Green tea, please.", glossary={"tea": "Grüntee", "green": "grün"})
    assert found.text == "grün Grüntee, PLEASE."
    (found,) = translate(Echo(forget), "Read <a href='#'>this page</a> now.", format="html")
    assert found.text == "READ <a href='#'>THIS PAGE</a> NOW."
    # A term inside a part of a sentence whose markup was lost as well.
    (found,) = translate(Echo(forget), "Drink <b>more tea</b> now.", format="html", glossary={"tea": "Tee"})
    assert found.text == "DRINK <b>MORE Tee</b> NOW."
    assert found.alternatives == ()


def test_what_is_translated_again_goes_before_what_comes_later() -> None:
    echo = Echo(lambda text: "Lost." if "ZX1" in text else text.upper())
    text = "Read <b>this page</b> now. Two here. Three here. Four here. Five here."
    translate(echo, text, format="html", in_order=True)
    assert echo.batches == [
        ["Read ZX1 this page ZX2 now."],
        ["Read", "this page"],
        ["now.", "Two here.", "Three here.", "Four here."],
        ["Five here."],
    ]
    echo.batches.clear()
    translate(echo, "Green tea for us. Two here. Three here.", glossary={"tea": "Tee"}, in_order=True)
    assert echo.batches == [["Green ZX1 for us."], ["Green", "for us."], ["Two here.", "Three here."]]


def test_a_part_that_is_known_already_is_not_translated_again() -> None:
    echo = Echo(lambda text: "Lost." if "ZX1" in text else text.upper())
    found = translate(echo, "Stop", "Now <b>stop</b>", "Stop <i>now</i>", format="html")
    assert [text.text for text in found] == ["STOP", "NOW <b>STOP</b>", "STOP <i>NOW</i>"]
    sent = [text for batch in echo.batches for text in batch]
    assert len(sent) == len(set(sent))


def test_alternatives_of_a_text_are_those_of_its_sentences() -> None:
    (found,) = translate(Echo(), "One here. Two here.", alternatives=2)
    assert [(each.text, each.score) for each in found.alternatives] == [
        ("One here. 0 Two here. 0", 0.0),
        ("One here. 1 Two here. 1", -1.0),
    ]


def test_who_is_unsure_says_what_was_considered() -> None:
    with pytest.raises(LanguageNotDetectedError, match=r"considered were .*German \(0\.") as caught:
        translate(Echo(), "Kaffee", source="auto")
    assert caught.value.body()["param"] == "source"
    (found,) = translate(Echo(), "Kaffee", source=None, target="fr", best_guess=True)
    assert 0 < found.confidence < SURE
    with pytest.raises(UnsupportedLanguageError, match="Japanese"):
        translate(Echo(), "駅はどこですか。", source="auto")


def test_a_model_that_is_absent_says_how_it_is_installed() -> None:
    with pytest.raises(ModelAbsentError, match="Install them with: nightingale models pull absent-translator"):
        translate(Echo(), "Hello.", model="absent-translator")


def held_plan(monkeypatch: pytest.MonkeyPatch, ended: Callable[[], None]) -> None:
    """Have texts that begin with "Endless" be taken apart for ever; `ended` is told of each that is given up."""
    plain = translation.make_plan

    def endless(texts: Sequence[str], *rest: Any) -> Generator[None, None, Any]:
        try:
            while texts[0].startswith("Endless"):
                yield
        finally:
            if texts[0].startswith("Endless"):
                ended()
        return (yield from plain(texts, *rest))

    monkeypatch.setattr(translation, "make_plan", endless)


async def test_texts_take_turns_while_they_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    held_plan(monkeypatch, ended.set)

    async with service(Echo()) as subject:
        options = TranslationOptions(source="en", target="de")
        long = [asyncio.create_task(subject.prepare(["Endless."], options, Timeline())) for _ in range(3)]
        await asyncio.sleep(0)
        # As long as another one: it needs its turns, and gets them.
        plan = await asyncio.wait_for(subject.prepare(["Word. " * 10_000], options, Timeline()), 300)
        assert len(plan.texts) == 1
        assert not ended.is_set()
        for task in long:
            task.cancel()
        # Nobody waits for it any more: it is given up in the middle.
        assert await asyncio.to_thread(ended.wait, 60)


async def test_a_text_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    held_plan(monkeypatch, ended.set)
    monkeypatch.setattr(translation, "MAX_SECONDS", 0.05)

    async with service(Echo()) as subject:
        with pytest.raises(TextTooLongError, match="send it in parts"):
            await subject.prepare(["Endless."], TranslationOptions(source="en", target="de"), Timeline())
        assert ended.is_set()


async def test_phrases_that_come_many_times_leave_the_event_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # However fast this machine is, each turn is too long.
    monkeypatch.setattr(translation_stream, "LOOP_SLICE", 0.0)
    beats = 0

    async def numbers(subject: TranslationService) -> list[int]:
        timeline = Timeline()
        plan = await subject.prepare(["Word.\n" * 500], TranslationOptions(source="en", target="de"), timeline)
        stream = TranslationStream(subject, plan, timeline, LABELS, in_order=True)
        found = [beats async for _ in stream]
        stream.close("ok")
        return found

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    async with service(Echo()) as subject:
        beating = asyncio.create_task(beat())
        many = await asyncio.gather(*(numbers(subject) for _ in range(4)))
        beating.cancel()
    # All are there with the first; others have more turns than the streams, which are one stream to them.
    assert [len(found) for found in many] == [500] * 4
    taken = sorted(number for found in many for number in found[10:-10])
    assert len(set(taken)) > 0.75 * len(taken)


@pytest.mark.parametrize("whole", [True, False])
async def test_a_stream_that_is_closed_stops_the_model(whole: bool) -> None:
    begun, closed = threading.Event(), threading.Event()

    class Endless(Echo):
        def translate(self, batch: Any, timeline: Timeline, cancelled: Callable[[], bool]) -> Iterator[None]:
            try:
                while True:
                    begun.set()
                    yield None
            finally:
                closed.set()

    async with service(Endless()) as subject:
        timeline = Timeline()
        plan = await subject.prepare(["Hello."], TranslationOptions(source="en", target="de"), timeline)
        stream = TranslationStream(subject, plan, timeline, LABELS)
        reading = asyncio.create_task(stream.texts())
        assert await asyncio.to_thread(begun.wait, 60)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        stream.close("cancelled", whole=whole)
        assert stream.cancelled() is whole
        assert await asyncio.to_thread(closed.wait, 60)
