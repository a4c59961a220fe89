"""Text to token ids and back, by a hub's tokenizer.json or by OpenAI's file of ranks; and the special tokens.

Special tokens follow the text tokens in one order for all of OpenAI's models, so their ids come from the size of the
vocabulary. A tokenizer.json of another size names its own, in any order.
A special token spelled in a text ("<|endoftext|>") is ordinary text.
"""

from __future__ import annotations

import base64
import string
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers

from models.contract import WeightsError, WeightsMissingError
from models.tokenizer import read_tokenizer, refused
from models.whisper.config import WhisperConfig
from models.whisper.languages import LANGUAGES, UNSPACED, language_code

TIMESTAMPS = 1501  # 0.00 to 30.00 seconds
TIMESTAMP_SECONDS = 0.02
_TASKS = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
_REPLACEMENT = "\ufffd"

# Marks of what is not speech: speaker tags, notes, brackets. Music is suppressed by its first token.
_SYMBOLS = [
    *'"#()*+/:;<=>@[\\]^_`{|}~「」『』',
    "<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", '("', "((", "))", "(((", ")))", "[[", "]]", "{{", "}}",
    "♪♪", "♪♪♪",
]  # fmt: skip
_MUSIC = "♩♪♫♬♭♮♯"


class WhisperTokenizer:
    """Tokenizer of prompts and transcripts. Methods are safe on any thread.

    `pieces` holds the bytes of each text token; `specials` the names of the tokens behind them, with their ids.
    """

    def __init__(self, path: str | Path, config: WhisperConfig) -> None:
        """Read `path`. Raises WeightsError unless it is a tokenizer of `config`'s size."""
        path = Path(path)
        if not path.is_file():
            raise WeightsMissingError(f"{path} does not exist")
        ranks = path.suffix == ".tiktoken"
        self._tokenizer, self.pieces = _read_ranks(path) if ranks else _read_json(path, config.n_vocab)
        self._tokenizer.encode_special_tokens = True
        self._set_specials(path, config)

    def _set_specials(self, path: Path, config: WhisperConfig) -> None:
        added = {token.content: id_ for id_, token in self._tokenizer.get_added_tokens_decoder().items()}
        count = config.n_vocab - len(self.pieces) - 2 - len(_TASKS) - TIMESTAMPS
        self.official = 1 <= count <= len(LANGUAGES)
        if self.official:
            codes = list(LANGUAGES)[:count]
            times = (f"{k * TIMESTAMP_SECONDS:.2f}" for k in range(TIMESTAMPS))
            names = ["endoftext", "startoftranscript", *codes, *_TASKS, *times]
            self.specials = {name: len(self.pieces) + k for k, name in enumerate(names)}
            self.languages = codes if config.multilingual else ["en"]
        else:
            self.specials = {name[2:-2]: id_ for name, id_ in added.items() if name[:2] == "<|" and name[-2:] == "|>"}
            self.languages = [name for name in self.specials if name in LANGUAGES]
            wanted = {"endoftext", "startoftranscript", *_TASKS}
            ids = range(len(self.pieces), config.n_vocab)
            if not self.languages or not wanted <= set(self.specials) or sorted(self.specials.values()) != [*ids]:
                raise WeightsError(
                    f"{path}: {len(self.pieces)} text tokens, but the checkpoint has {config.n_vocab} tokens"
                )
        # OpenAI's English models have neither language nor task before their transcripts.
        self.prompted = config.multilingual or not self.official
        self.timed = self.official
        self.end, self.start = self.specials["endoftext"], self.specials["startoftranscript"]
        self.translate, self.transcribe = self.specials["translate"], self.specials["transcribe"]
        self.start_of_previous = self.specials["startofprev"]
        self.no_speech, self.no_timestamps = self.specials["nospeech"], self.specials["notimestamps"]
        # OpenAI's models tell silence after their first token; others begin with the end.
        self.silence = self.no_speech if self.official else self.end
        self.first_timestamp = self.no_timestamps + 1 if self.timed else config.n_vocab
        self.first_language = self.specials[self.languages[0]]
        self._names = {id_: f"<|{name}|>" for name, id_ in self.specials.items()}
        for name in ("endoftext", "startoftranscript", "translate", "transcribe", "notimestamps"):
            id_ = self.specials[name]
            if added.get(f"<|{name}|>", id_) != id_:
                raise WeightsError(f"{path}: <|{name}|> must have id {id_}, not {added[f'<|{name}|>']}")

    def language(self, name: str) -> str:
        """Return the code of a language by code, tag or name. Raises UnknownLanguageError."""
        return language_code(name, self.languages)

    def start_sequence(self, language: str, task: str, *, timestamps: bool) -> list[int]:
        """Return the tokens with which a transcript begins; `timestamps`: it may have them."""
        found = [self.start]
        if self.prompted:
            found += [self.specials[language], self.specials[task]]
        return found if timestamps else [*found, self.no_timestamps]

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids of a prompt or prefix, which a space precedes."""
        return self.encode(" " + text.strip())

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` without special tokens."""
        return self._bytes([id_ for id_ in ids if id_ < self.end])

    def decode_all(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, special tokens and times written as `<|...|>`."""
        return self._bytes(ids)

    def bytes_of(self, id_: int) -> bytes:
        """Return the UTF-8 bytes of a text token, perhaps a part of a character."""
        return self.pieces[id_]

    def _bytes(self, ids: Sequence[int]) -> str:
        end = self.end
        parts = (self.pieces[id_] if id_ < end else self._names.get(id_, "").encode() for id_ in ids)
        return b"".join(parts).decode("utf-8", errors="replace")

    @cached_property
    def blank(self) -> list[int]:
        """Return the tokens that no transcript begins with: a space, and the end; none for a model not of OpenAI's."""
        return [*self.encode(" "), self.end] if self.official else []

    @cached_property
    def not_speech(self) -> list[int]:
        """Return the ids, ascending, of tokens that are not spoken: brackets, notes, dashes before a speaker.

        A small vocabulary spells words with the beginnings of such tokens: there are none in it.
        """
        if not self.official:
            return []
        found = {self.encode(" -")[0], self.encode(" '")[0]}
        for symbol in [*_SYMBOLS, *_MUSIC]:
            for ids in (self.encode(symbol), self.encode(" " + symbol)):
                if len(ids) == 1 or symbol in _MUSIC:
                    found.add(ids[0])
        return sorted(found)

    @cached_property
    def suppressed(self) -> list[int]:
        """Return the ids, ascending, that never come out: `not_speech`, and the special tokens of prompts."""
        names = ("transcribe", "translate", "startoftranscript", "startofprev", "startoflm", "nospeech")
        return sorted({*self.not_speech, *(self.specials[name] for name in names)})

    def split_words(self, ids: Sequence[int], language: str) -> tuple[list[str], list[list[int]]]:
        """Split `ids` into words and the tokens of each; where words have no spaces between them, into characters."""
        parts, tokens = self._split_characters(ids)
        if language in UNSPACED:
            return parts, tokens
        words: list[str] = []
        grouped: list[list[int]] = []
        for part, group in zip(parts, tokens, strict=True):
            alone = group[0] >= self.end or part.startswith(" ") or part.strip() in string.punctuation
            if alone or not words:
                words.append(part)
                grouped.append(group)
            else:
                words[-1] += part
                grouped[-1] += group
        return words, grouped

    def _split_characters(self, ids: Sequence[int]) -> tuple[list[str], list[list[int]]]:
        """Split where the tokens so far are whole characters."""
        whole = self.decode_all(ids)
        words: list[str] = []
        tokens: list[list[int]] = []
        pending: list[int] = []
        offset = 0
        for id_ in ids:
            pending.append(id_)
            text = self.decode_all(pending)
            place = text.find(_REPLACEMENT)
            # Bytes of no character may be fewer marks in the whole than in its parts.
            if place < 0 or whole[offset + place : offset + place + 1] in ("", _REPLACEMENT):
                words.append(text)
                tokens.append(pending)
                pending = []
                offset += len(text)
        return words, tokens


def _byte_letters() -> dict[int, str]:
    """Return the letter that stands for each byte in GPT-2's vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + k) for k, byte in enumerate(rest)}


def _read_json(path: Path, size: int) -> tuple[Tokenizer, list[bytes]]:
    """Read the hub's tokenizer.json, for a checkpoint of `size` tokens."""
    tokenizer = read_tokenizer(path)
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    vocabulary = {
        piece: id_ for piece, id_ in tokenizer.get_vocab(with_added_tokens=False).items() if piece not in added
    }
    # The token of no letters may be an added one.
    count = max(vocabulary.values(), default=-1) + 1
    end = tokenizer.token_to_id("<|endoftext|>")
    if max(count, end or 0) > size:
        raise WeightsError(f"{path}: {count} text tokens, but the checkpoint has {size} tokens")
    pieces = [b""] * count
    byte_of = {letter: byte for byte, letter in _byte_letters().items()}
    try:
        for piece, id_ in vocabulary.items():
            pieces[id_] = bytes(byte_of[letter] for letter in piece)
    except KeyError as error:
        raise WeightsError(f"{path}: not a tokenizer of bytes: {error}") from error
    if end is not None and len(pieces) < end:
        pieces += [b""] * (end - len(pieces))
    return tokenizer, pieces


def _read_ranks(path: Path) -> tuple[Tokenizer, list[bytes]]:
    """Read OpenAI's file of ranks: lines of a token in base64, and its id. The last may be no token at all (`=`)."""
    pieces: list[bytes] = []
    try:
        for number, line in enumerate(path.read_text(encoding="ascii").splitlines()):
            token, rank = line.split()
            if int(rank) != number:
                raise ValueError(f"line {number + 1} has rank {rank}")
            pieces.append(base64.b64decode(token))
    except ValueError as error:
        raise WeightsError(f"{path}: not a file of ranks: {error}") from error
    letters = _byte_letters()
    names = ["".join(letters[byte] for byte in piece) for piece in pieces]
    vocabulary = {name: rank for rank, name in enumerate(names) if name}
    merges: list[tuple[str, str]] = []
    for name in names:
        # Every pair of tokens that makes this one may be merged into it, as tiktoken does.
        pairs = [(name[:at], name[at:]) for at in range(1, len(name))]
        known = [pair for pair in pairs if pair[0] in vocabulary and pair[1] in vocabulary]
        merges += sorted(known, key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
    with refused(f"{path}: not a file of ranks"):
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return tokenizer, pieces
