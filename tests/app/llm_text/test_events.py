"""Text of the streams of all formats. The streams in tests/golden/streams are made for this project."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm_text.events import MAX_LINE, Boundary, Broken, EventReader, Failed, TextDelta, read_events, read_lines

STREAMS = sorted((Path(__file__).parents[2] / "golden" / "streams").iterdir())
FIRST = "Good morning. **The house** is quiet; only the wind is in the trees. Please open the window."
SECOND = "The window is open now. See [the list](https://example.com/list)."


def said(lines: list[object]) -> list[object]:
    """Return texts and other events of lines, which are JSON values or raw."""
    events = read_events(line if isinstance(line, str | bytes) else json.dumps(line) for line in lines)
    return [event.text if isinstance(event, TextDelta) else event for event in events]


def joined(events: list[object]) -> list[object]:
    """Return the events of `said` with neighboring texts joined."""
    out: list[object] = []
    for event in events:
        if out and isinstance(event, TextDelta) and isinstance(out[-1], str):
            out[-1] += event.text
        else:
            out.append(event.text if isinstance(event, TextDelta) else event)
    return out


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.name)
def test_every_format_says_the_same(path: Path) -> None:
    with path.open("rb") as file:
        assert joined(list(read_events(read_lines(file)))) == [FIRST, Boundary(), SECOND, Boundary()]


def test_there_is_a_stream_of_every_kind() -> None:
    assert {path.name for path in STREAMS} == {
        "anthropic.jsonl", "anthropic.sse", "claude-code.jsonl", "claude-code-partial.jsonl", "openai-chat.sse",
        "openai-responses.sse",
    }  # fmt: skip


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.name)
def test_text_comes_with_its_line_not_later(path: Path) -> None:
    reader = EventReader()
    for line in path.read_text(encoding="utf-8").splitlines():
        events = reader.feed(line)
        if "Good mor" in line and "uiet" not in line:
            assert events == [TextDelta("Good mor")]
            return
    assert path.name == "claude-code.jsonl"


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.name)
def test_any_line_may_be_lost_or_broken(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for number in range(len(lines)):
        for instead in ([], [lines[number][: len(lines[number]) // 2] or "{"], ['{"type": ']):
            events = list(read_events([*lines[:number], *instead, *lines[number + 1 :]]))
            text = "".join(event.text for event in events if isinstance(event, TextDelta))
            assert len(text) <= len(FIRST + SECOND), (number, text)
            assert text.count("window is open") <= 1
            assert text.count("only the wind") <= 1
            broken = [event for event in events if isinstance(event, Broken)]
            assert len(broken) <= 1
            assert all(event.line == number + 1 for event in broken)


def test_formats_may_be_mixed_and_broken_lines_are_numbered() -> None:
    assert said(
        [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One"}},
            "{not json",
            "",
            'data: {"choices": [{"delta": {"content": " two"}}]}',
            "plain text",
            b"\xff\xfe",
            [1, 2],
            {"a": 1},
            {"type": "response.output_text.delta", "delta": " three"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
            {"choices": 7},
            {"type": "assistant", "message": "x"},
        ]
    ) == [
        "One",
        Broken(2, "not JSON: Expecting property name enclosed in double quotes (column 2)"),
        " two",
        Broken(5, "not JSON: Expecting value (column 1)"),
        Broken(6, "not UTF-8 (byte 0)"),
        Broken(7, "not a JSON object"),
        Broken(8, "no event of Claude Code, Anthropic or OpenAI: it has neither 'type' nor 'choices'"),
        " three",
        Broken(10, "'text' of 'text_delta' is not text"),
        Broken(11, "'choices' is not a list of objects"),
        Broken(12, "'message' of 'assistant' is not an object"),
        Boundary(),
    ]


def test_a_line_that_is_too_long_is_refused_and_passed() -> None:
    good = json.dumps({"choices": [{"delta": {"content": "Hi"}}]}).encode()
    long = b'{"type": "' + b"x" * (3 * MAX_LINE) + b'"}'
    file = io.BytesIO(good + b"\n" + long + b"\r\n" + good)
    lines = list(read_lines(file))
    assert max(map(len, lines)) <= MAX_LINE + 65_536
    assert list(read_events(lines)) == [
        TextDelta("Hi"),
        Broken(2, "longer than 1,000,000 bytes"),
        TextDelta("Hi"),
        Boundary(),
    ]
    exact = good[:-1] + b" " * (MAX_LINE - len(good)) + b"}"
    assert list(read_events(read_lines(io.BytesIO(exact + b"\r\n" + exact + b"\n"))))[:2] == [TextDelta("Hi")] * 2


def test_deep_and_huge_json_is_only_a_broken_line() -> None:
    (first, second) = read_events(["[" * 100_000, '{"type": ' + "9" * 9999 + "}"])
    assert isinstance(first, Broken)
    assert isinstance(second, Broken)


def partial(text: str, index: int = 0) -> dict[str, object]:
    delta = {"type": "text_delta", "text": text}
    return {"type": "stream_event", "event": {"type": "content_block_delta", "index": index, "delta": delta}}


def start(identifier: str) -> dict[str, object]:
    return {"type": "stream_event", "event": {"type": "message_start", "message": {"id": identifier}}}


def whole(identifier: str, *texts: str) -> dict[str, object]:
    blocks = [{"type": "text", "text": text} for text in texts]
    return {"type": "assistant", "message": {"id": identifier, "content": blocks}}


STOP = {"type": "stream_event", "event": {"type": "message_stop"}}


def test_a_whole_message_is_not_said_twice() -> None:
    assert said([start("a"), partial("One "), partial("two."), whole("a", "One two."), STOP]) == [
        "One ",
        "two.",
        Boundary(),
    ]
    # Whole at the end, after the stop, or without the line with the identifier.
    blocks = [start("a"), partial("One.", 0), partial("Two.", 1), STOP, whole("a", "One.", "Two.")]
    assert said(blocks) == ["One.", "Two.", Boundary()]
    assert said(blocks[1:]) == ["One.", "Two.", Boundary()]
    # A message with the same text is another message.
    assert said([start("a"), partial("Yes."), whole("a", "Yes."), STOP, whole("b", "Yes.")]) == [
        "Yes.",
        Boundary(),
        "Yes.",
        Boundary(),
    ]


def test_a_whole_message_brings_what_its_parts_did_not() -> None:
    assert said([start("a"), partial("One "), whole("a", "One two."), STOP]) == ["One ", "two.", Boundary()]
    assert said([start("a"), STOP, whole("a", "One.")]) == ["One.", Boundary()]
    # If a part is lost, a gap is better than a repetition.
    assert said([start("a"), partial("One "), partial("three."), whole("a", "One two three."), STOP]) == [
        "One ",
        "three.",
        Boundary(),
    ]


def test_the_result_is_said_only_if_nothing_was() -> None:
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "Done."}
    assert said([result]) == ["Done.", Boundary()]
    assert said([whole("a", "Done."), result, result]) == ["Done.", Boundary(), "Done.", Boundary()]


def test_whole_answers_of_the_apis() -> None:
    blocks = [{"type": "thinking", "thinking": "no"}, {"type": "text", "text": "Yes."}]
    assert said([{"type": "message", "role": "assistant", "content": blocks}]) == ["Yes.", Boundary()]
    assert said([{"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}]) == ["Yes.", Boundary()]
    output = [{"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}]
    done = {"type": "response.completed", "response": {"output": output}}
    assert said([done]) == ["Yes.", Boundary()]
    item = {"item_id": "i", "content_index": 0}
    text = {"type": "response.output_text.done", "text": "Yes.", **item}
    assert said([text, done]) == ["Yes.", Boundary()]
    assert said([{"type": "response.refusal.delta", "delta": "No.", **item}]) == ["No.", Boundary()]


def test_failures_are_told_and_what_was_said_before_is_complete() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert said([partial("One"), overloaded]) == ["One", Boundary(), Failed(2, "overloaded_error: Overloaded")]
    assert said([{"error": {"code": "rate_limit", "message": "slow\ndown"}}]) == [Failed(1, "rate_limit: slow down")]
    assert said([{"type": "result", "is_error": True, "subtype": "error_max_turns"}]) == [Failed(1, "error_max_turns")]
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Sorry"}}}
    assert said([failed]) == [Failed(1, "server_error: Sorry")]


def test_other_choices_sub_agents_and_unknown_events_are_not_said() -> None:
    assert said(
        [
            {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]},
            {"type": "something_new", "text": "no"},
            {"type": "response.audio.delta", "delta": "no"},
            whole("s", "no") | {"parent_tool_use_id": "t"},
            partial("no") | {"parent_tool_use_id": "t"},
            ": comment",
            "event: x",
            "id: 1",
            "retry: 10",
            "data:",
            "data: [DONE]",
            "[DONE]",
        ]
    ) == ["yes", Boundary()]


_names = ["type", "message", "content", "delta", "event", "choices", "text", "id", "index", "error", "response", "item",
          "content_block", "output", "result", "finish_reason", "item_id", "is_error"]  # fmt: skip
_values = ["assistant", "stream_event", "result", "content_block_delta", "content_block_start", "text_delta", "text",
           "error",
           "message_start", "message_stop", "response.output_text.delta", "response.output_text.done", "message",
           "response.completed", "response.output_item.added", "x"]  # fmt: skip
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(_values),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_names), inner, max_size=6),
    max_leaves=20,
)


@given(st.lists(_json.map(json.dumps) | st.binary(max_size=40) | st.text(max_size=40), max_size=12))
@settings(max_examples=150, deadline=None)
def test_nothing_in_a_line_raises(lines: list[str | bytes]) -> None:
    reader = EventReader()
    for number, line in enumerate(lines, 1):
        for event in reader.feed(line):
            if isinstance(event, Broken | Failed):
                assert event.line == number
            if isinstance(event, TextDelta):
                assert event.text
    assert reader.close() in ([], [Boundary()])
    assert reader.close() == []
