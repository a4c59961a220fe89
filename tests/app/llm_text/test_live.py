"""Speakable text of a model's text, and its place in the original."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm_text.clean import Cleaner
from app.llm_text.live import LiveText
from app.llm_text.policy import BoundaryOptions, BoundaryPolicy
from app.llm_text.sources import Speakable


def test_text_is_cleaned_and_the_original_kept() -> None:
    live = LiveText(BoundaryPolicy(options=BoundaryOptions(first_clause=False)))
    out = live.feed("## News\n\nIt **works** 😀. See:\n```py\nx\n```\nThen [go](http://x.y)", 1.0)
    out += live.flush(2.0)
    assert [(speakable.text, speakable.original) for speakable in out] == [
        ("News\n\n", "## News\n"),
        ("It works. ", "\nIt **works** 😀. "),
        ("See:\n\n", "See:\n"),
        ("Then go", "```py\nx\n```\nThen [go](http://x.y)"),
    ]
    assert [speakable.reason for speakable in out] == ["sentence", "sentence", "sentence", "flush"]
    assert live.feed("Next. ", 3.0) == []
    (last,) = live.flush(3.5)
    assert (last.text, last.original, last.waited) == ("Next.", "Next. ", 0.5)
    (code,) = live.feed("```\nx\n", 4.0) + live.flush(4.0)
    assert (code.text, code.original, code.sentences) == ("", "```\nx\n", ())


def test_silence_works_through_code() -> None:
    live = LiveText(BoundaryPolicy(options=BoundaryOptions(silence=0.1)))
    assert live.feed("As follows:\n```py\n", 1.0) == []
    assert live.next_deadline() == pytest.approx(1.1)
    assert live.feed("import this\n", 1.05) == []
    assert [speakable.text for speakable in live.tick(1.1)] == ["As follows:\n\n"]


_snippets = st.sampled_from(
    [*"aB1 \n.,!?*_`[]()<&|#-😀", "Word ", "**", "\n```\n", "\n\n", "\n- ", "[a](b) ", "https://a.b/c ", "&amp;",
     "It is. "]
)  # fmt: skip


@given(st.lists(st.tuples(st.lists(_snippets, max_size=8).map("".join), st.booleans()), max_size=12))
@settings(max_examples=120, deadline=None)
def test_the_originals_joined_are_what_was_fed(fragments: list[tuple[str, bool]]) -> None:
    live = LiveText(BoundaryPolicy(), Cleaner(code="Code."))
    out: list[Speakable] = []
    now = 0.0
    for fragment, flush in fragments:
        out += live.feed(fragment, now)
        now += 0.2
        out += live.tick(now)
        if flush:
            out += live.flush(now)
            assert live.pending == ""
    out += live.flush(now)
    assert "".join(speakable.original for speakable in out) == "".join(fragment for fragment, _ in fragments)
    position = 0
    for speakable in out:
        assert (speakable.start, speakable.end) == (position, position + len(speakable.original))
        assert speakable.text == "".join(speakable.sentences)
        assert speakable.text == "" or speakable.text.strip()
        position = speakable.end
