import pytest

from app.conversation.overlap import is_interruption

ANSWER = ("The tallest mountain is Everest,", "in the Himalayas:", "it is 8,849 meters high.")


@pytest.mark.parametrize(
    "text", ["", "…", "Mm-hmm.", "uh huh", "Yeah, okay.", "I see.", "mountain is ever rest", "The tallest mount in."]
)
def test_an_echo_and_signs_of_listening_are_no_interruption(text: str) -> None:
    assert not is_interruption(text, ANSWER)


@pytest.mark.parametrize(
    "text", ["Stop.", "No, wait.", "And the second?", "Yes, but who climbed it?", "Himalaya who?", "停"]
)
def test_other_words_are_one(text: str) -> None:
    assert is_interruption(text, ANSWER)
    assert is_interruption(text, [])
