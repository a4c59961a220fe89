"""Text to T3's text ids: punctuation as in its training text, then the checkpoint's own tokenizer.

English: a byte-pair tokenizer.json of a few hundred pieces, in which a space is the token [SPACE]. Turbo: GPT-2's
byte-level BPE (vocab.json, merges.txt) and a few added tokens for sounds such as [laugh], which the text may contain.
Ids come without start and stop: `t3.network` puts them around.

Replacements of punctuation: resemble-ai/chatterbox 0.1.7, tts.py and tts_turbo.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models.chatterbox.config import T3Config
from models.contract import InputTooLongError, WeightsError, WeightsMissingError
from models.files import read_json
from models.tokenizer import read_tokenizer, refused

_SPACE = "[SPACE]"
_ENDS = (".", "!", "?", "-", ",")

# The order matters: a later replacement may change the result of an earlier one.
_TURBO = (
    ("…", ", "),
    (":", ","),
    ("—", "-"),
    ("–", "-"),
    (" ,", ","),
    ("“", '"'),
    ("”", '"'),
    ("‘", "'"),
    ("’", "'"),
)
_ENGLISH = (("...", ", "), *_TURBO[:2], (" - ", ", "), (";", ", "), *_TURBO[2:])


def normalize(text: str, *, turbo: bool = False) -> str:
    """Return `text` with a capital first, single spaces, plain quotes and dashes, and a final sign. "" stays "".

    Turbo was trained on text in which three dots, semicolons and dashes between spaces stay as they are.
    """
    text = " ".join(text.split())
    if not text:
        return ""
    if text[0].islower():
        text = text[0].upper() + text[1:]
    for old, new in _TURBO if turbo else _ENGLISH:
        text = text.replace(old, new)
    text = text.rstrip(" ")
    return text if text.endswith(_ENDS) else text + "."


def _check_length(ids: list[int], config: T3Config) -> list[int]:
    if len(ids) > config.max_text:
        raise InputTooLongError(f"{len(ids)} text tokens in one utterance; at most {config.max_text} are read")
    return ids


class EnglishTokenizer:
    """The 704 pieces of English Chatterbox.

    A character without a piece would be read as [UNK], which has no sound of its own. Its form without accents replaces
    it, or it is left out. Text that spells a special token ("[STOP]") is read as text.
    """

    def __init__(self, path: str, config: T3Config) -> None:
        self._tokenizer, self._config = read_tokenizer(path), config
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        if size > config.text_vocabulary:
            raise WeightsError(f"{path}: {size} tokens, but the checkpoint has {config.text_vocabulary}")
        for token, wanted in (("[START]", config.start_text), ("[STOP]", config.stop_text)):
            if self._tokenizer.token_to_id(token) != wanted:
                raise WeightsError(f"{path}: {token} must have id {wanted}")
        space = self._tokenizer.token_to_id(_SPACE)
        if space is None:
            raise WeightsError(f"{path}: no token {_SPACE}")
        self._space: int = space
        self._special = {self._tokenizer.token_to_id(token) for token in ("[START]", "[STOP]", "[UNK]")}
        self._tokenizer.encode_special_tokens = True

    def encode(self, text: str) -> list[int]:
        """Return the ids of normalized `text`; none if nothing in it can be spoken. Raises InputTooLongError."""
        known = "".join(self._known(character) for character in text)
        ids: list[int] = []
        for k, word in enumerate(known.split(" ")):
            if k:
                ids.append(self._space)
            ids += (
                id_ for id_ in self._tokenizer.encode(word, add_special_tokens=False).ids if id_ not in self._special
            )
        return _check_length(ids if any(id_ != self._space for id_ in ids) else [], self._config)

    def _known(self, character: str) -> str:
        """Return `character`, or the parts of it that have pieces."""
        if character == " " or self._tokenizer.token_to_id(character) is not None:
            return character
        plain = unicodedata.normalize("NFKD", character)
        return "".join(part for part in plain if part == " " or self._tokenizer.token_to_id(part) is not None)


class TurboTokenizer:
    """GPT-2's tokenizer, which knows every byte, and the added tokens. Reads its files, or one tokenizer.json.

    "<|endoftext|>" in the text is read as text.
    """

    def __init__(self, files: Mapping[str, str], config: T3Config) -> None:
        self._config = config
        if "tokenizer" in files:
            source = files["tokenizer"]
            self._tokenizer = read_tokenizer(source)
            self._tokenizer.encode_special_tokens = True
        else:
            source = files["vocabulary"]
            self._tokenizer = self._from_parts(files)
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        if size > config.text_vocabulary:
            raise WeightsError(f"{source}: {size} tokens, but the checkpoint has {config.text_vocabulary}")

    @staticmethod
    def _from_parts(files: Mapping[str, str]) -> Tokenizer:
        for role in ("vocabulary", "merges", "added_tokens"):
            if role not in files or not Path(files[role]).is_file():
                raise WeightsMissingError(f"{files.get(role, role)} does not exist")
        with refused(f"{files['vocabulary']}: not a GPT-2 tokenizer"):
            found = Tokenizer(models.BPE.from_file(files["vocabulary"], files["merges"]))
            added: dict[str, Any] = read_json(files["added_tokens"])
            ordered = sorted(added, key=lambda token: int(added[token]))
        found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        found.decoder = decoders.ByteLevel()
        found.add_tokens([AddedToken(token, normalized=False) for token in ordered if found.token_to_id(token) is None])
        for token in ordered:
            if found.token_to_id(token) != added[token]:
                raise WeightsError(f"{files['added_tokens']}: {token} must have id {found.token_to_id(token)}")
        return found

    def encode(self, text: str) -> list[int]:
        """Return the ids of normalized `text`. Raises InputTooLongError."""
        return _check_length(self._tokenizer.encode(text, add_special_tokens=False).ids, self._config)


TextTokenizer = EnglishTokenizer | TurboTokenizer
"""Tokenizer of one checkpoint, safe on any thread."""


def load_tokenizer(files: Mapping[str, str], config: T3Config) -> TextTokenizer:
    """Load the tokenizer of a checkpoint: role "tokenizer", or "vocabulary", "merges" and "added_tokens".

    Raises WeightsError if the files do not fit `config`.
    """
    if config.guided:
        return EnglishTokenizer(files["tokenizer"], config)
    return TurboTokenizer(files, config)
