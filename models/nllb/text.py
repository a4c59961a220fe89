"""Text to token ids and back, by a checkpoint's tokenizer.json; and shortlists of the vocabulary by script."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from models.contract import UnknownLanguageError, WeightsError, WeightsMissingError
from models.nllb.config import NllbConfig

_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_SPECIAL = ("bos", "pad", "eos", "unk")


class NllbTokenizer:
    """Tokenizer of sources, `[source language] pieces </s>`, and of translations, `</s> [target language] pieces`.

    A special token spelled in the text ("</s>", "eng_Latn") is ordinary text. Methods are safe on any thread.
    """

    def __init__(self, path: str | Path, config: NllbConfig) -> None:
        """Read `path`. Raises WeightsError unless it is a tokenizer of `config`'s layout."""
        if not Path(path).is_file():
            raise WeightsMissingError(f"{path} does not exist")
        try:
            self._tokenizer: Tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises Exception itself
            raise WeightsError(f"{path}: not a tokenizer: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        if self.size > config.vocab_size:
            raise WeightsError(f"{path}: {self.size} tokens, but the checkpoint has {config.vocab_size}")
        for kind, token in zip(_SPECIAL, ("<s>", "<pad>", "</s>", "<unk>"), strict=True):
            wanted = getattr(config, f"{kind}_token_id")
            if self._tokenizer.token_to_id(token) != wanted:
                raise WeightsError(f"{path}: {token} must have id {wanted}")
        added = self._tokenizer.get_added_tokens_decoder()
        codes = {token.content: id_ for id_, token in added.items() if _LANGUAGE.fullmatch(token.content)}
        if not codes:
            raise WeightsError(f"{path}: no language codes among its added tokens")
        self.languages: dict[str, int] = dict(sorted(codes.items(), key=lambda item: item[1]))
        self._special = frozenset(added)
        self._end = config.eos_token_id

    def language(self, code: str) -> int:
        """Return the id of a FLORES-200 code. Raises UnknownLanguageError, with the nearest codes."""
        found = self.languages.get(code)
        if found is None:
            near = difflib.get_close_matches(code, self.languages, 3, 0.5) or list(self.languages)[:3]
            raise UnknownLanguageError(
                f"{code!r} is not among this model's {len(self.languages)} FLORES-200 codes; nearest: {', '.join(near)}"
            )
        return found

    def encode(self, text: str, source: str) -> list[int]:
        """Return the ids of `text` in the language `source`, with the language before and the end after them."""
        pieces: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [self.language(source), *pieces, self._end]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, without special tokens and ids that have no token."""
        kept = [id_ for id_ in ids if id_ not in self._special and id_ < self.size]
        text: str = self._tokenizer.decode(kept, skip_special_tokens=False)
        return text.strip()

    def shortlist(self, script: str, size: int) -> npt.NDArray[np.int32]:
        """Return the ids, ascending, of about `size` tokens that translations into languages of `script` most need.

        It always holds special tokens, single characters (which can spell every word) and tokens without letters. Then
        come the tokens of the script by id, the order in which the tokenizer's training found them: most frequent
        first. For scripts other than Latin, an eighth is kept for Latin tokens, for names and addresses. A translation
        differs from that with the whole vocabulary where that has a rarer token, which smaller pieces then spell.
        """
        wanted = scripts(script)
        kept: set[int] = set(self._special)
        own: list[int] = []
        latin: list[int] = []
        for id_ in range(self.size):
            if id_ in self._special:
                continue
            piece = self._tokenizer.id_to_token(id_) or ""  # an id may have no token
            letters = [name for c in piece if (name := _script_of(c))]
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


# ISO 15924 codes of FLORES-200 -> first words of the Unicode names of their letters.
_SCRIPTS: dict[str, tuple[str, ...]] = {
    "Arab": ("ARABIC",),
    "Armn": ("ARMENIAN",),
    "Beng": ("BENGALI", "OL"),  # FLORES writes Santali as sat_Beng; it is in Ol Chiki
    "Cyrl": ("CYRILLIC",),
    "Deva": ("DEVANAGARI",),
    "Ethi": ("ETHIOPIC",),
    "Geor": ("GEORGIAN",),
    "Grek": ("GREEK",),
    "Gujr": ("GUJARATI",),
    "Guru": ("GURMUKHI",),
    "Hang": ("HANGUL", "CJK"),
    "Hans": ("CJK", "IDEOGRAPHIC"),
    "Hant": ("CJK", "IDEOGRAPHIC", "BOPOMOFO"),
    "Hebr": ("HEBREW",),
    "Jpan": ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH"),
    "Khmr": ("KHMER",),
    "Knda": ("KANNADA",),
    "Laoo": ("LAO",),
    "Latn": ("LATIN",),
    "Mlym": ("MALAYALAM",),
    "Mymr": ("MYANMAR",),
    "Orya": ("ORIYA",),
    "Sinh": ("SINHALA",),
    "Taml": ("TAMIL",),
    "Telu": ("TELUGU",),
    "Tfng": ("TIFINAGH",),
    "Thai": ("THAI",),
    "Tibt": ("TIBETAN",),
}


_KNOWN = frozenset(name for names in _SCRIPTS.values() for name in names)


def scripts(script: str) -> frozenset[str]:
    """Return the first words of the Unicode names of a script's letters."""
    return frozenset(_SCRIPTS.get(script, ("LATIN",)))


@cache
def _script_of(character: str) -> str:
    """Return the first word of a letter's or mark's Unicode name; "" for a character of no script in particular."""
    if unicodedata.category(character)[0] not in "LM":
        return ""
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return name if name in _KNOWN else ""
