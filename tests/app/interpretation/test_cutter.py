"""Sentences out of what is recognized: once each, in order, with their places."""

from __future__ import annotations

import pytest

from app.errors import ModelFailedError
from app.interpretation.cutter import SentenceCutter
from app.recognition.events import LiveHypothesis, LiveUtterance, SpeechStarted, SpeechStopped, UtteranceFailed
from models.contract import RecognizedSegment, RecognizedWord


def cutter(*, clauses: bool = False) -> SentenceCutter:
    return SentenceCutter("eng_Latn", "fra_Latn", clauses=clauses)


def hypothesis(item: int, end: float, committed: str, pending: str = "", start: float = 0.0) -> LiveHypothesis:
    return LiveHypothesis(item, start, end, committed, pending, ())


def utterance(
    item: int, end: float, text: str, start: float = 0.0, words: tuple[RecognizedWord, ...] = ()
) -> LiveUtterance:
    return LiveUtterance(item, start, end, text, "en", (RecognizedSegment(start, end, text, "en", words=words),))


def told(pieces: list) -> list[tuple[str, float, float]]:
    return [(piece.text.strip(), round(start, 3), round(end, 3)) for piece, start, end in pieces]


def test_an_utterance_is_sentences_with_their_places() -> None:
    cut = cutter()
    assert cut.take(SpeechStarted(0, 1.0), 0.0) == []
    assert cut.take(SpeechStopped(0, 5.0), 0.0) == []
    pieces = cut.take(utterance(0, 5.0, "One two. Six ten.", start=1.0), 0.0)
    assert told(pieces) == [("One two.", 1.0, 3.0), ("Six ten.", 3.0, 5.0)]


def test_words_say_it_better() -> None:
    words = (
        RecognizedWord(" One", 1.0, 1.5, 0.9),
        RecognizedWord(" two.", 1.5, 2.0, 0.9),
        RecognizedWord(" Six", 3.5, 4.0, 0.9),
        RecognizedWord(" ten.", 4.0, 4.8, 0.9),
    )
    pieces = cutter().take(utterance(0, 5.0, "One two. Six ten.", 1.0, words), 0.0)
    assert told(pieces) == [("One two.", 1.0, 2.0), ("Six ten.", 2.0, 4.8)]


def test_a_sentence_that_is_followed_by_another_is_cut_before_the_utterance_ends() -> None:
    cut = cutter()
    assert cut.take(hypothesis(0, 2.0, "Where is", " the station?"), 0.0) == []
    assert cut.expected == "Where is the station?"
    pieces = cut.take(hypothesis(0, 4.0, "Where is the station? I am", " late."), 0.5)
    assert [text for text, _, _ in told(pieces)] == ["Where is the station?"]
    assert 0.0 < pieces[0][2] < 4.0
    assert cut.expected == "I am late."
    rest = cut.take(utterance(0, 5.0, "Where is the station? I am late."), 1.0)
    assert told(rest) == [("I am late.", round(pieces[0][2], 3), 5.0)]


def test_a_sentence_that_looks_complete_is_not_waited_for() -> None:
    cut = cutter()
    assert cut.take(hypothesis(0, 2.0, "I am late."), 10.0) == []
    deadline = cut.next_deadline()
    assert deadline is not None
    assert told(cut.tick(deadline)) == [("I am late.", 0.0, 2.0)]
    assert told(cut.take(utterance(0, 2.5, "I am late."), 11.0)) == []


@pytest.mark.parametrize("text", ["I saw Dr.", "It costs 3.", "and then"])
def test_text_that_may_go_on_is_waited_for(text: str) -> None:
    cut = cutter()
    assert cut.take(hypothesis(0, 2.0, text), 0.0) == []
    assert cut.next_deadline() is None
    assert told(cut.take(utterance(0, 2.0, text), 1.0)) == [(text, 0.0, 2.0)]


def test_an_utterance_that_failed_keeps_what_was_sure() -> None:
    cut = cutter()
    cut.take(hypothesis(0, 2.0, "I am", " late"), 0.0)
    pieces = cut.take(UtteranceFailed(0, 0.0, 3.0, ModelFailedError("no")), 1.0)
    assert [text for text, _, _ in told(pieces)] == ["I am"]
    assert cut.item == 1
    assert told(cut.take(utterance(1, 5.0, "Go.", start=4.0), 2.0)) == [("Go.", 4.0, 5.0)]


def test_utterances_are_not_joined() -> None:
    cut = cutter()
    assert told(cut.take(utterance(0, 2.0, "to the"), 0.0)) == [("to the", 0.0, 2.0)]
    assert told(cut.take(utterance(1, 4.0, "station", start=3.0), 0.0)) == [("station", 3.0, 4.0)]
    assert told(cut.take(utterance(2, 5.0, "", start=4.5), 0.0)) == []


def test_an_utterance_whose_end_was_not_told_is_ended_by_the_next() -> None:
    cut = cutter()
    cut.take(hypothesis(0, 2.0, "one two"), 0.0)
    pieces = cut.take(hypothesis(1, 4.0, "three", start=3.0), 1.0)
    assert [text for text, _, _ in told(pieces)] == ["one two"]


def test_the_first_clause_of_a_long_sentence_on_request() -> None:
    text = "We walked along the river in the evening, because the last bus was late again, and nobody minded that."
    whole = cutter().take(utterance(0, 9.0, text), 0.0)
    assert len(whole) == 1
    parts = cutter(clauses=True).take(utterance(0, 9.0, text), 0.0)
    assert len(parts) > 1
    assert "".join(piece.text for piece, _, _ in parts) == text
