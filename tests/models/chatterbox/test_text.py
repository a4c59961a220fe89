"""Punctuation and tokenizers, on small files in the official layouts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from models.chatterbox.config import ENGLISH, TURBO
from models.chatterbox.text import EnglishTokenizer, TurboTokenizer, load_tokenizer, normalize
from models.contract import InputTooLongError, WeightsError, WeightsMissingError

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,!?'\"-[]"


def english_file(folder: Path, start: int = 255) -> Path:
    """Special tokens, characters, two merges: ids of the special ones as in the official file."""
    vocab = {"[STOP]": 0, "[UNK]": 1, "[SPACE]": 2}
    for piece in [*LETTERS, "he", "ll"]:
        vocab[piece] = len(vocab)
    while len(vocab) < start:
        vocab[f"<{len(vocab)}>"] = len(vocab)
    vocab["[START]"] = start
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("h", "e"), ("l", "l")], unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[STOP]", "[UNK]", "[SPACE]", "[START]"])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def turbo_files(folder: Path, laugh: int | None = None) -> dict[str, str]:
    """Every byte, some merges, the end of text, and one sound."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: id_ for id_, piece in enumerate([*alphabet, "he", "ll", "hell", "Ġw", "<|endoftext|>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\nh e\nl l\nhe ll\nĠ w\n", encoding="utf-8")
    added = {"[laugh]": len(vocab) if laugh is None else laugh, "[sigh]": len(vocab) + 1}
    (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
    names = {"vocabulary": "vocab.json", "merges": "merges.txt", "added_tokens": "added_tokens.json"}
    return {role: str(folder / name) for role, name in names.items()}


@pytest.mark.parametrize(
    ("text", "english", "turbo"),
    [
        ("hello", "Hello.", "Hello."),
        ("  two   spaces\n and lines ", "Two spaces and lines.", "Two spaces and lines."),
        ("“Don’t,” ‘he’ said", "\"Don't,\" 'he' said.", "\"Don't,\" 'he' said."),
        ("Wait… what", "Wait,  what.", "Wait,  what."),
        ("Wait... what", "Wait,  what.", "Wait... what."),
        ("One; two: three", "One,  two, three.", "One; two, three."),
        ("A - b — c–d", "A, b - c-d.", "A - b - c-d."),
        ("Really?", "Really?", "Really?"),
        ("Trailing, ", "Trailing,", "Trailing,"),
        ("and so on…", "And so on,", "And so on,"),
        ("A , b", "A, b.", "A, b."),
        ("", "", ""),
        (" \n ", "", ""),
    ],
)
def test_punctuation(text: str, english: str, turbo: str) -> None:
    assert normalize(text) == english
    assert normalize(text, turbo=True) == turbo


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab .,:;…—–-“”‘’!?\n\"'", max_size=30))
def test_what_comes_out_has_an_end_and_no_typographic_signs(text: str) -> None:
    for turbo in (False, True):
        found = normalize(text, turbo=turbo)
        assert found == "" or found.endswith((".", "!", "?", "-", ","))
        assert not set(found) & set("…—–“”‘’:\n") and (turbo or ";" not in found)
        assert not found[:1].islower()


def test_english(tmp_path: Path) -> None:
    tokenizer = EnglishTokenizer(str(english_file(tmp_path)), ENGLISH.t3)
    vocab = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    assert tokenizer.encode("hello hi.") == [vocab[p] for p in ("he", "ll", "o", "[SPACE]", "h", "i", ".")]


def test_special_tokens_in_the_text_are_text(tmp_path: Path) -> None:
    """Nobody ends the text by writing [STOP], nor begins another."""
    tokenizer = EnglishTokenizer(str(english_file(tmp_path)), ENGLISH.t3)
    found = tokenizer.encode("a[STOP]b [START] [UNK] [SPACE]c")
    assert not {0, 1, 255} & set(found)
    assert found.count(2) == 3
    assert len(found) == len("a[STOP]b[START][UNK][SPACE]c") + 3


def test_characters_without_a_piece(tmp_path: Path) -> None:
    """Accents go, ligatures come apart, the rest is left out; never [UNK]."""
    tokenizer = EnglishTokenizer(str(english_file(tmp_path)), ENGLISH.t3)
    assert tokenizer.encode("café ﬁn") == tokenizer.encode("cafe fin")
    assert tokenizer.encode("a猫b😀") == tokenizer.encode("ab")
    assert tokenizer.encode("猫 😀") == []
    assert tokenizer.encode("") == []


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_has_ids(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    tokenizer = EnglishTokenizer(str(english_file(tmp_path_factory.mktemp("english"))), ENGLISH.t3)
    assert not {0, 1, 255} & set(tokenizer.encode(normalize(text)))


def test_turbo(tmp_path: Path) -> None:
    """Bytes, merges, and sounds that may be written; the end of text may not."""
    files = turbo_files(tmp_path)
    tokenizer = TurboTokenizer(files, TURBO.t3)
    vocab = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    assert tokenizer.encode("hello w") == [vocab[p] for p in ("hell", "o", "Ġw")]
    assert tokenizer.encode("o[laugh]o [sigh]") == [vocab["o"], len(vocab), vocab["o"], vocab["Ġ"], len(vocab) + 1]
    assert vocab["<|endoftext|>"] not in tokenizer.encode("a<|endoftext|>b")
    assert len(tokenizer.encode("é")) == 2
    assert tokenizer.encode("") == []


def test_turbo_from_one_file(tmp_path: Path) -> None:
    files = turbo_files(tmp_path)
    parts = TurboTokenizer(files, TURBO.t3)
    path = tmp_path / "tokenizer.json"
    parts._tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    parts._tokenizer.save(str(path))
    whole = load_tokenizer({"tokenizer": str(path)}, TURBO.t3)
    for text in ("hello w[laugh]", "a<|endoftext|>b", "naïve 猫"):
        assert whole.encode(text) == TurboTokenizer(files, TURBO.t3).encode(text)


def test_length_limits(tmp_path: Path) -> None:
    tokenizers = [
        load_tokenizer({"tokenizer": str(english_file(tmp_path))}, replace(ENGLISH.t3, max_text=20)),
        load_tokenizer(turbo_files(tmp_path), replace(TURBO.t3, max_text=20)),
    ]
    for tokenizer in tokenizers:
        assert len(tokenizer.encode("x" * 20)) == 20
        with pytest.raises(InputTooLongError, match="21 text tokens in one utterance; at most 20"):
            tokenizer.encode("x" * 21)


def test_files_of_another_model_are_refused(tmp_path: Path) -> None:
    path = english_file(tmp_path)
    with pytest.raises(WeightsError, match="tokens, but the checkpoint has 100"):
        EnglishTokenizer(str(path), replace(ENGLISH.t3, text_vocabulary=100))
    with pytest.raises(WeightsError, match=r"\[START\] must have id 254"):
        EnglishTokenizer(str(path), replace(ENGLISH.t3, start_text=254))
    with pytest.raises(WeightsMissingError, match="does not exist"):
        EnglishTokenizer(str(tmp_path / "none.json"), ENGLISH.t3)
    (tmp_path / "broken.json").write_text("{}", encoding="utf-8")
    with pytest.raises(WeightsError, match="not a tokenizer"):
        EnglishTokenizer(str(tmp_path / "broken.json"), ENGLISH.t3)
    files = turbo_files(tmp_path, laugh=7)
    with pytest.raises(WeightsError, match=r"\[laugh\] must have id"):
        TurboTokenizer(files, TURBO.t3)
    with pytest.raises(WeightsError, match="but the checkpoint has 50"):
        TurboTokenizer(turbo_files(tmp_path), replace(TURBO.t3, text_vocabulary=50))
    with pytest.raises(WeightsMissingError, match="merges"):
        TurboTokenizer({"vocabulary": files["vocabulary"]}, TURBO.t3)
    Path(files["merges"]).write_text("nothing of the kind here", encoding="utf-8")
    with pytest.raises(WeightsError, match="not a GPT-2 tokenizer"):
        TurboTokenizer(files, TURBO.t3)
