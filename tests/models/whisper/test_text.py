"""Tokens by both kinds of file, special ids by the size of the vocabulary, parts of characters."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from models.contract import UnknownLanguageError, WeightsError, WeightsMissingError
from models.whisper.languages import LANGUAGES
from models.whisper.text import WhisperTokenizer
from tests.models.whisper.builder import config, ranks_file, tokenizer, tokenizer_file

# end, start, first language, translate, transcribe, previous, no speech, no timestamps, 0.00
IDS = {
    51864: (50256, 50257, 50258, 50357, 50358, 50360, 50361, 50362, 50363),
    51865: (50257, 50258, 50259, 50358, 50359, 50361, 50362, 50363, 50364),
    51866: (50257, 50258, 50259, 50359, 50360, 50362, 50363, 50364, 50365),
}


@pytest.mark.parametrize("size", IDS)
def test_special_ids(size: int) -> None:
    one = tokenizer(size)
    found = (one.end, one.start, one.first_language, one.translate, one.transcribe, one.start_of_previous)
    assert (*found, one.no_speech, one.no_timestamps, one.first_timestamp) == IDS[size]
    assert one.specials["30.00"] == size - 1


def test_languages() -> None:
    assert tokenizer(51865).languages == list(LANGUAGES)[:99]
    assert tokenizer(51866).languages[-1] == "yue"
    assert tokenizer(51864).languages == ["en"]
    one = tokenizer()
    for name, code in (("EN", "en"), ("pt-BR", "pt"), ("Norwegian", "no"), ("jv", "jw"), ("castilian", "es")):
        assert one.language(name) == code
    with pytest.raises(UnknownLanguageError, match="99 languages"):
        one.language("klingon")
    with pytest.raises(UnknownLanguageError):
        tokenizer(51864).language("fr")


def test_start_sequences() -> None:
    one = tokenizer()
    assert one.start_sequence("fr", "translate", timestamps=True) == [50258, 50265, 50358]
    assert one.start_sequence("en", "transcribe", timestamps=False) == [50258, 50259, 50359, 50363]
    assert tokenizer(51864).start_sequence("en", "transcribe", timestamps=False) == [50257, 50362]


@pytest.mark.parametrize("size", [51864, 51865])
def test_ranks_and_json_are_one_tokenizer(tmp_path: Path, size: int) -> None:
    dims = config(n_vocab=size)
    by_ranks, by_json = (WhisperTokenizer(file(tmp_path, size), dims) for file in (ranks_file, tokenizer_file))
    assert (by_ranks.pieces, by_ranks.specials) == (by_json.pieces, by_json.specials)
    rng = random.Random(0)
    letters = "aebc ,.'!?\n12éß你好🎵"
    for _ in range(200):
        text = "".join(rng.choices(letters, k=30))
        assert by_ranks.encode(text) == by_json.encode(text)
        assert by_ranks.decode(by_ranks.encode(text)) == text
    assert by_ranks.suppressed == by_json.suppressed


def test_special_tokens_in_a_text_are_text(tmp_path: Path) -> None:
    one = WhisperTokenizer(tokenizer_file(tmp_path), config())
    ids = one.encode("<|endoftext|>")
    assert max(ids) < one.end
    assert one.decode([*ids, one.end, one.first_timestamp]) == "<|endoftext|>"
    assert one.decode_all([one.end, one.first_timestamp + 50]) == "<|endoftext|><|1.00|>"


def test_parts_of_characters() -> None:
    one = tokenizer()
    assert one.decode([0xE4, 0xBD]) == "\ufffd"
    assert one.decode([0xE4, 0xBD, 0xA0]) == "你"
    assert one.bytes_of(0xE4) == b"\xe4"
    assert one.decode([50256]) == ""


def test_words_end_in_half_a_character() -> None:
    """The decoder's limit may cut a character; it raised IndexError."""
    one = tokenizer()
    for ids in ([0xE4, 0xBD], [*one.encode(" so"), 0xF0, 0x9F, 0x8E]):
        _, groups = one.split_words(ids, "en")
        assert [id_ for group in groups for id_ in group] == ids


_JSON = """{{"version": "1.0", "added_tokens": [], "normalizer": {},
"model": {{"type": "BPE", "vocab": {}, "merges": []}}}}"""
HOSTILE = (
    # `tokenizers` panics in Rust, and a list of 4 billion tokens would be made.
    ("d.json", _JSON.format('{"type": "Precompiled", "precompiled_charsmap": "AAAA"}', '{"a": 0}')),
    ("e.json", _JSON.format("null", '{"a": 0, "b": 4294967295}')),
)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsMissingError):
        WhisperTokenizer(tmp_path / "tokenizer.json", config())
    with pytest.raises(WeightsError, match="text tokens"):
        WhisperTokenizer(ranks_file(tmp_path), config(n_vocab=60000))
    for name, text in (("a.tiktoken", "IQ== 0\nIg== 2\n"), ("b.tiktoken", "IQ==\n"), ("c.json", "{}"), *HOSTILE):
        (tmp_path / name).write_text(text)
        with pytest.raises(WeightsError):
            WhisperTokenizer(tmp_path / name, config())
