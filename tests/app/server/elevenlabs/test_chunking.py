"""Text in fragments: the pieces that ElevenLabs' sockets speak, and when."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.server.elevenlabs.chunking import ScheduledText


@given(st.text("ab.,! \n", max_size=200), st.lists(st.integers(1, 9), min_size=1), st.booleans())
def test_scheduled_text_comes_out_as_it_went_in(text: str, sizes: list[int], trigger: bool) -> None:
    scheduled = ScheduledText("en-us", [5, 20])
    out, position = [], 0
    for size in itertools.cycle(sizes):
        out += scheduled.feed(text[position : position + size], trigger=trigger)
        position += size
        if position >= len(text):
            break
    assert "".join(out) + scheduled.held == text
    assert "".join(out + scheduled.flush()) == text


def test_the_schedule_goes_on_with_each_piece() -> None:
    clause = "and so it went on and on for years, "
    scheduled = ScheduledText("en-us", [20, 80])
    assert scheduled.feed(clause + "then") == [clause]
    # The second entry holds now: one clause more is not enough, two are.
    assert scheduled.feed(" " + clause + "and") == []
    assert "".join(scheduled.feed(" again " + clause + "so")).count(",") >= 1


@pytest.mark.parametrize(
    ("messages", "spoken"),
    [
        (["It is late.", "Good night."], ["It is late. ", "Good night. "]),
        (["It is late. ", "Good night!\n"], ["It is late. ", "Good night!\n"]),
        # No sentence ends here: not at a comma, not in a number, not at an abbreviation.
        (["Well, I think,", " yes."], ["Well, I think, yes. "]),
        (["It costs ", "3.", "5 percent."], ["It costs 3.5 percent. "]),
        (["Ask Dr.", " Smith about it."], ["Ask Dr. Smith about it. "]),
    ],
)
def test_phrases_are_parted_where_a_sentence_ends(messages: list[str], spoken: list[str]) -> None:
    scheduled = ScheduledText("en-us", phrases=True)
    assert [piece for message in messages for piece in scheduled.feed(message)] == spoken
    assert scheduled.flush() == []
