"""Commits of text that is still being written. The clock is the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm_text.policy import BoundaryOptions, BoundaryPolicy
from app.llm_text.sources import Speakable

TABLE = Path(__file__).with_name("boundaries.tsv").read_text(encoding="utf-8")
TOKEN = 0.02
OFTEN = 1e9


@pytest.fixture
def policy() -> BoundaryPolicy:
    return BoundaryPolicy()


def rows(kind: str) -> list[Any]:
    """The texts of a kind in boundaries.tsv, each with what belongs to it."""
    found = [line.split("\t") for line in TABLE.splitlines()[1:]]
    return [values if len(values) > 1 else values[0] for first, *values in found if first == kind]


def play(policy: BoundaryPolicy, fragments: list[str], start: float = 0.0) -> tuple[list[Speakable], float]:
    """Feed a fragment every TOKEN seconds, keeping the policy's deadlines in between."""
    commits: list[Speakable] = []
    now = start
    for fragment in fragments:
        commits += policy.feed(fragment, now)
        now += TOKEN
        deadline = policy.next_deadline()
        if deadline is not None and deadline <= now:
            commits += policy.tick(deadline)
    return commits, now


def said(text: str, language: str = "en", target: str | None = None, **options: object) -> list[tuple[str, str]]:
    """Return the commits of single characters, with their reasons."""
    policy = BoundaryPolicy(language, target, BoundaryOptions(**options))
    commits, now = play(policy, list(text))
    return [(commit.text.strip(), commit.reason) for commit in commits + policy.flush(now)]


_pieces = st.sampled_from(
    [*"aB .!?,;:\n[]()`*\"'1—-。，", "Dr. ", "3.14", "https://a.b/c, d ", "```\nx\n```", ". ", "one two ", "word ",
     "สวัสดี "]
)  # fmt: skip
_fragments = st.lists(st.tuples(st.lists(_pieces, max_size=9).map("".join), st.floats(0, 0.4)), max_size=25)


@given(
    _fragments,
    st.sampled_from(["en", "eng_Latn", "ja", "zho_Hans", "tha_Thai", "de", "xx-unknown", "", "_", "amh_Ethi"]),
    st.sampled_from([None, "fra_Latn", "hi", "deu_Latn", "zz"]),
    st.lists(st.floats(0, 8), max_size=6),
)
@settings(max_examples=120, deadline=None)
def test_everything_comes_out_once_unchanged_and_in_order(fragments, language, target, queues) -> None:
    policy = BoundaryPolicy(language, target, BoundaryOptions(limit=60))
    commits: list[Speakable] = []
    now = 5.0
    for number, (fragment, pause) in enumerate(fragments):
        now += pause
        if number % 3 == 0:
            deadline = policy.next_deadline()
            if deadline is not None and deadline <= now:
                commits += policy.tick(deadline)
        if number < len(queues):
            policy.queued(queues[number], now)
        commits += policy.feed(fragment, now)
        assert len(policy.pending) <= 60
        assert len(policy.waiting) < 120 + 60
        assert "".join(commit.text for commit in commits) + policy.waiting + policy.pending == "".join(
            text for text, _ in fragments[: number + 1]
        )
    commits += policy.flush(now)
    whole = "".join(text for text, _ in fragments)
    position = 0
    for commit in commits:
        assert (commit.start, commit.end) == (position, position + len(commit.text))
        assert commit.text == whole[commit.start : commit.end] == "".join(commit.sentences) != ""
        assert 0 <= commit.waited <= now
        position = commit.end
    assert position == len(whole)
    assert policy.next_deadline() is None
    assert policy.pending == policy.waiting == ""
    assert policy.flush(now) == []


# Sentences


def test_a_sentence_is_committed_when_the_next_begins(policy: BoundaryPolicy) -> None:
    assert policy.feed("Hello there. ", 1.0) == []
    (commit,) = policy.feed("H", 1.05)
    assert commit == Speakable(
        "Hello there. ", "Hello there. ", 0, 13, pytest.approx(0.05), "sentence", ("Hello there. ",)
    )
    assert policy.pending == "H"


@pytest.mark.parametrize(("language", "text", "first"), rows("stop"))
def test_stops_of_every_script(language: str, text: str, first: str) -> None:
    policy = BoundaryPolicy(language, options=BoundaryOptions(first_clause=False))
    commits, _ = play(policy, list(text))
    assert commits, policy.pending
    assert commits[0].text.strip() == first


def test_thai_has_no_stops_and_is_cut_at_spaces() -> None:
    sentence = "วันนี้อากาศดีมากและฉันอยากไปเดินเล่นในสวน "
    commits, _ = play(BoundaryPolicy("tha_Thai"), list(sentence * 6))
    assert len(commits) >= 3
    assert all(commit.text.endswith(" ") for commit in commits)
    assert len(commits[0].text) == len(sentence)


def test_text_without_boundaries_is_cut_all_the_same() -> None:
    commits, _ = play(BoundaryPolicy(options=BoundaryOptions(first_clause=False, limit=100)), ["word "] * 100)
    assert {commit.reason for commit in commits} == {"forced"}
    assert all(len(commit.text) <= 100 for commit in commits)


# Silence


def test_the_last_sentence_is_not_held_for_its_successor() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(silence=0.1))
    assert policy.feed("It is done", 1.0) == []
    assert policy.next_deadline() is None
    assert policy.feed(".", 1.5) == []
    assert policy.next_deadline() == pytest.approx(1.6)
    assert policy.tick(1.59) == []
    (commit,) = policy.tick(1.6)
    assert (commit.text, commit.reason, commit.waited) == ("It is done.", "silence", pytest.approx(0.6))
    assert policy.next_deadline() is None
    (rest,) = policy.feed(" Next", 2.0) + policy.flush(2.0)
    assert (rest.text, rest.start) == (" Next", 11)


def test_silence_counts_from_the_last_fragment() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(silence=0.1))
    policy.feed("It is done.", 1.0)
    assert policy.feed("..", 1.08) == []
    assert policy.next_deadline() == pytest.approx(1.18)


def test_a_late_tick_is_made_up_for_when_text_comes() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(silence=0.1))
    policy.feed("It is done.", 1.0)
    (commit,) = policy.feed("Now", 3.0)
    assert (commit.text, commit.reason) == ("It is done.", "silence")


@pytest.mark.parametrize("text", [*rows("open"), "   ", "\n\n"])
def test_silence_commits_nothing_that_may_go_on(policy: BoundaryPolicy, text: str) -> None:
    policy.feed(text, 0.0)
    assert policy.next_deadline() is None
    assert policy.tick(OFTEN) == []


@pytest.mark.parametrize(
    "text",
    ["Done!", "Is it?", "“It is done.”", "A heading\n\n", "你好。", "He left (at last).", "Run `make`. ", "Yes…"],
)
def test_silence_commits_what_looks_complete(policy: BoundaryPolicy, text: str) -> None:
    assert policy.feed(text, 0.0) == []
    (commit,) = policy.tick(policy.next_deadline())
    assert commit.text == text


# The first clause

LONG = "When the rain had stopped at last, we went out into the garden; nobody was there, so we sat down. And so on. "


def test_the_first_chunk_is_a_clause_and_later_ones_are_sentences() -> None:
    assert said(LONG) == [
        ("When the rain had stopped at last,", "clause"),
        ("we went out into the garden; nobody was there, so we sat down.", "sentence"),
        ("And so on.", "flush"),
    ]


def test_first_clause_off() -> None:
    assert said(LONG, first_clause=False)[0][1] == "sentence"


def test_a_flush_begins_anew(policy: BoundaryPolicy) -> None:
    for _ in range(2):
        commits, now = play(policy, list(LONG))
        assert [commit.reason for commit in commits + policy.flush(now)] == ["clause", "sentence", "flush"]


def test_a_clause_needs_one_character_more(policy: BoundaryPolicy) -> None:
    assert policy.feed("When the rain had stopped at last,", 0.0) == []
    (commit,) = policy.feed(" ", 0.1)
    assert (commit.text, commit.reason) == ("When the rain had stopped at last, ", "clause")


def test_short_words_count_by_words_and_long_ones_by_characters() -> None:
    assert said("If I am to go on, yes")[0] == ("If I am to go on,", "clause")
    assert said("Incomprehensibilities notwithstanding, yes")[0] == ("Incomprehensibilities notwithstanding,", "clause")
    assert said("Well, yes, I do, so there")[0][1] == "flush"


def test_a_short_first_sentence_does_not_use_up_the_clause() -> None:
    assert [reason for _, reason in said("Sure! " + LONG)] == ["sentence", "clause", "sentence", "flush"]


def test_a_clause_is_forced_after_fifteen_words() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    assert said(words)[0] == (words.partition(" sixteen")[0], "forced")
    # Not behind an abbreviation or around a number.
    assert said(words.replace("fifteen", "Dr."))[0][0].endswith("Dr. sixteen")
    assert said(words.replace("sixteen", "16 m") + " or")[0][0].endswith("16 m")
    assert said("一二三四五六七八九十" * 20, "zh")[0][1] == "flush"


def test_a_whole_first_sentence_is_cut_only_if_it_is_long(policy: BoundaryPolicy) -> None:
    short = "When the rain had stopped at last, we went. "
    assert [commit.text for commit in policy.feed(short + "Now", 0.0)] == [short]
    policy.flush(0.0)
    first, second = policy.feed(LONG.removesuffix("And so on. ") + "Now", 0.0)
    assert (first.text, first.reason) == ("When the rain had stopped at last, ", "clause")
    assert second.reason == "sentence"


@pytest.mark.parametrize("text", rows("inside"))
def test_no_clause_ends_inside(text: str) -> None:
    commits = BoundaryPolicy(options=BoundaryOptions(clause_words=4, forced_words=90)).feed(text, 0.0)
    assert commits == []


@pytest.mark.parametrize(("language", "target", "reason"), rows("order"))
def test_where_the_order_of_words_differs_no_clause_is_cut(language, target, reason) -> None:
    japanese = "彼が言ったことによると、とても長い文の一部であり、続きがまだある"
    text = japanese if language.startswith("j") else LONG.partition(";")[0]
    commits, _ = play(BoundaryPolicy(language, target or None), list(text))
    assert {commit.reason for commit in commits} == {reason} - {"-"}


def test_german_is_cut_between_main_clauses_only() -> None:
    assert said(LONG, "en", "deu_Latn")[0] == (
        "When the rain had stopped at last, we went out into the garden;",
        "clause",
    )


# Merging


def test_short_sentences_are_merged_while_audio_is_queued() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(first_clause=False))
    policy.queued(5.0, 0.0)
    assert policy.feed("One is here. Two is here. Three is here. Four", 0.0) == []
    assert policy.waiting == "One is here. Two is here. Three is here. "
    assert policy.pending == "Four"
    assert policy.next_deadline() == pytest.approx(2.0)
    assert policy.tick(1.9) == []
    (commit,) = policy.tick(2.0)
    assert commit.reason == "merged"
    assert commit.sentences == ("One is here. ", "Two is here. ", "Three is here. ")
    assert commit.waited == pytest.approx(2.0)
    assert policy.next_deadline() is None


def test_merged_text_goes_when_it_is_long_enough() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(first_clause=False, merge_characters=30))
    policy.queued(60.0, 0.0)
    commits, _ = play(policy, ["One is here. "] * 9)
    assert [commit.text for commit in commits] == ["One is here. " * 3] * 2
    (commit, *_) = policy.feed("A sentence that is long enough by itself to be spoken. Next", 1.0)
    assert commit.reason == "merged"


def test_nothing_waits_while_little_is_queued() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(first_clause=False))
    policy.queued(2.9, 0.0)
    assert [commit.reason for commit in policy.feed("One is here. Two is here. T", 0.0)] == ["sentence", "sentence"]


def test_what_waits_alone_keeps_its_reason() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(first_clause=False, silence=0.1))
    policy.queued(4.0, 0.0)
    policy.feed("One is here.", 0.0)
    assert policy.tick(0.1) == []
    assert policy.waiting == "One is here."
    (commit,) = policy.tick(1.0)
    assert commit.reason == "silence"


def test_flush_lets_nothing_wait() -> None:
    policy = BoundaryPolicy(options=BoundaryOptions(first_clause=False))
    policy.queued(60.0, 0.0)
    policy.feed("One is here. Two is here. Three", 0.0)
    (commit,) = policy.flush(0.5)
    assert commit.text == "One is here. Two is here. Three"
    assert commit.waited == pytest.approx(0.5)


def test_a_first_clause_is_not_cut_while_audio_is_queued(policy: BoundaryPolicy) -> None:
    policy.queued(60.0, 0.0)
    assert policy.feed("When the rain had stopped at last, we went", 0.0) == []
    assert policy.waiting == ""


# Waiting


def test_the_wait_begins_with_the_first_visible_character(policy: BoundaryPolicy) -> None:
    policy.feed("Gone.", 0.0)
    policy.tick(1.0)
    policy.feed(" ", 2.0)
    policy.feed("Back", 5.0)
    policy.feed(" again.", 5.5)
    (commit,) = policy.tick(6.0)
    assert (commit.text, commit.waited) == (" Back again.", pytest.approx(1.0))
