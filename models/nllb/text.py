"""Text to token ids and back, by a checkpoint's tokenizer.json; and shortlists of the vocabulary by script."""

from __future__ import annotations

import difflib
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.contract import UnknownLanguageError, WeightsError
from models.nllb.config import NllbConfig
from models.tokenizer import read_tokenizer

_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_SPECIAL = {"<s>": "bos", "<pad>": "pad", "</s>": "eos", "<unk>": "unk"}
# ISO 15924 codes of FLORES-200 -> first words of the Unicode names of their letters. FLORES writes Santali as sat_Beng;
# it is in Ol Chiki.
_LETTERS = """
Arab:ARABIC Armn:ARMENIAN Beng:BENGALI,OL Cyrl:CYRILLIC Deva:DEVANAGARI Ethi:ETHIOPIC Geor:GEORGIAN Grek:GREEK
Gujr:GUJARATI Guru:GURMUKHI Hang:HANGUL,CJK Hans:CJK,IDEOGRAPHIC Hant:CJK,IDEOGRAPHIC,BOPOMOFO Hebr:HEBREW
Jpan:CJK,IDEOGRAPHIC,HIRAGANA,KATAKANA,HALFWIDTH Khmr:KHMER Knda:KANNADA Laoo:LAO Latn:LATIN Mlym:MALAYALAM Mymr:MYANMAR
Orya:ORIYA Sinh:SINHALA Taml:TAMIL Telu:TELUGU Tfng:TIFINAGH Thai:THAI Tibt:TIBETAN
"""
_SCRIPTS = {code: tuple(names.split(",")) for code, names in (item.split(":") for item in _LETTERS.split())}
_KNOWN = frozenset(name for names in _SCRIPTS.values() for name in names)


class TranslationTokenizer(ABC):
    """Tokenizer of sources, `[language] pieces </s>`, and of translations, `</s> [target language] pieces`.

    The language of a source is its own one. With `target_first` it is the target language, and translations begin with
    `</s>` alone. Ids from `size` on have no token; those of `unused` must not come out of the network.
    A special token spelled in the text ("</s>", "eng_Latn") is ordinary text. Methods are safe on any thread.
    """

    target_first = False
    unused: Sequence[int] = ()

    def __init__(self, languages: Mapping[str, int], special: Iterable[int], size: int, end: int) -> None:
        """Keep the layout.

        Args:
            languages: FLORES-200 codes and their ids.
            special: Ids of special tokens, languages included.
            size: Number of tokens.
            end: Id of the token that ends a sentence.
        """
        self.languages = dict(sorted(languages.items(), key=lambda item: item[1]))
        self.size = size
        self._special, self._end = frozenset(special), end

    @abstractmethod
    def pieces(self, text: str) -> list[int]:
        """Return the ids of `text`, without language and end."""

    @abstractmethod
    def piece(self, id_: int) -> str:
        """Return the piece of an id below `size`, "" where an id has none. U+2581 stands for a space."""

    @abstractmethod
    def join(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, none of them special."""

    def language(self, code: str) -> int:
        """Return the id of a FLORES-200 code. Raises UnknownLanguageError, with the nearest codes."""
        found = self.languages.get(code)
        if found is None:
            near = difflib.get_close_matches(code, self.languages, 3, 0.5) or list(self.languages)[:3]
            raise UnknownLanguageError(
                f"{code!r} is not among this model's {len(self.languages)} FLORES-200 codes; nearest: {', '.join(near)}"
            )
        return found

    def encode(self, text: str, language: str) -> list[int]:
        """Return the ids of `text`, with the language `language` before and the end after them."""
        return [self.language(language), *self.pieces(text), self._end]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, without special tokens and ids that have no token."""
        return self.join([id_ for id_ in ids if id_ not in self._special and id_ < self.size]).strip()

    def shortlist(self, script: str, size: int) -> npt.NDArray[np.int32]:
        """Return the ids, ascending, of about `size` tokens that translations into languages of `script` most need.

        It always holds special tokens, single characters (which can spell every word) and tokens without letters. Then
        come the tokens of the script by id, the order in which the tokenizer's training found them: most frequent
        first. For scripts other than Latin, an eighth is kept for Latin tokens, for names and addresses. A translation
        differs from that with the whole vocabulary where that has a rarer token, which smaller pieces then spell.
        """
        wanted = frozenset(_SCRIPTS.get(script, ("LATIN",)))
        kept: set[int] = set(self._special)
        own: list[int] = []
        latin: list[int] = []
        for id_ in self._by_frequency():
            if id_ in self._special:
                continue
            letters = [name for c in self.piece(id_) if (name := script_of(c))]
            found = set(letters)
            if not letters or (len(letters) == 1 and found <= wanted | {"LATIN"}):
                kept.add(id_)
            elif found <= wanted:
                own.append(id_)
            elif found <= {"LATIN"}:
                latin.append(id_)
        room = max(size - len(kept), 0)
        rare = latin[: room // 8]
        kept.update(rare, own[: room - len(rare)])
        return np.array(sorted(kept), np.int32)

    def _by_frequency(self) -> Iterable[int]:
        """Return all ids, those of frequent tokens first."""
        return range(self.size)


class NllbTokenizer(TranslationTokenizer):
    """Tokenizer of NLLB: tokenizer.json, with FLORES-200 codes among its added tokens."""

    def __init__(self, path: str | Path, config: NllbConfig) -> None:
        """Read `path`. Raises WeightsError unless it is a tokenizer of `config`'s layout."""
        self._tokenizer = read_tokenizer(path)
        self._tokenizer.encode_special_tokens = True
        size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        if size > config.vocab_size:
            raise WeightsError(f"{path}: {size} tokens, but the checkpoint has {config.vocab_size}")
        check_specials(path, {token: self._tokenizer.token_to_id(token) for token in _SPECIAL}, config)
        added = self._tokenizer.get_added_tokens_decoder()
        codes = {token.content: id_ for id_, token in added.items() if _LANGUAGE.fullmatch(token.content)}
        if not codes:
            raise WeightsError(f"{path}: no language codes among its added tokens")
        super().__init__(codes, added, size, config.eos_token_id)

    def pieces(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def piece(self, id_: int) -> str:
        return self._tokenizer.id_to_token(id_) or ""  # an id may have no token

    def join(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text


def check_specials(path: str | Path, found: Mapping[str, int | None], config: NllbConfig) -> None:
    """Raise WeightsError unless `found`, ids of tokens, has `config`'s special tokens."""
    for token, kind in _SPECIAL.items():
        wanted = getattr(config, f"{kind}_token_id")
        if found.get(token) != wanted:
            raise WeightsError(f"{path}: {token} must have id {wanted}")


@cache
def script_of(character: str) -> str:
    """Return the first word of a letter's or mark's Unicode name; "" for a character of no script in particular."""
    if unicodedata.category(character)[0] not in "LM":
        return ""
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return name if name in _KNOWN else ""
