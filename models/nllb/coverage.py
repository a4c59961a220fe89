"""Coverage of a demonstrator: the sentences of a phrase grammar, which are all that it can translate.

coverage.json holds `model` (its name in messages), `pairs` of FLORES-200 codes, `phrases` such as ``where is the
{place}``, the `slots` that they name, each with its words, `contractions` with their long forms, and `examples`. Case,
the final mark, contractions, and a for an make no difference.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.contract import OutsideCoverageError, UnknownLanguageError, WeightsError

MAX_CHARACTERS = 300

_TOKEN = re.compile(r"\{[^}]*\}|[\w'-]+|[^\w\s]")
_MARKS = " .!?…"
_APOSTROPHES = str.maketrans("’ʼ`´", "''''")
_ARTICLES = {"an": "a"}
_QUOTED = 40


@dataclass(slots=True)
class _Node:
    """State of the automaton: the words and slots that may follow, and whether a phrase may end here."""

    words: dict[str, _Node] = field(default_factory=dict)
    slots: dict[str, _Node] = field(default_factory=dict)
    last: bool = False

    def add(self, tokens: Iterable[str]) -> None:
        node = self
        for token in tokens:
            follow = node.slots if token.startswith("{") else node.words
            node = follow.setdefault(token.strip("{}"), _Node())
        node.last = True


class Coverage:
    """Phrases that a model knows, compiled to an automaton. Methods are safe on any thread."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        """Compile the automaton of what coverage.json holds. Raises ValueError for a slot without words."""
        self.model = str(content["model"])
        self.pairs = tuple((str(source), str(target)) for source, target in content["pairs"])
        self.examples: tuple[str, ...] = tuple(content["examples"])
        self._contractions: dict[str, str] = dict(content["contractions"])
        self._start = _Node()
        self._slots: dict[str, _Node] = {}
        self._known: set[str] = set()
        for name, entries in content["slots"].items():
            self._slots[name] = _Node()
            for entry in entries:
                self._slots[name].add(self._learn(entry))
        for phrase in content["phrases"]:
            tokens = self._learn(phrase)
            missing = [token for token in tokens if token.startswith("{") and token.strip("{}") not in self._slots]
            if missing or not tokens:
                raise ValueError(f"phrase {phrase!r}: no words for {', '.join(missing) or 'it'}")
            self._start.add(tokens)

    @classmethod
    def read(cls, path: Path) -> Coverage:
        """Read coverage.json. Raises WeightsError where it cannot be read."""
        try:
            return cls(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise WeightsError(f"{path}: not a coverage: {error!r}") from error

    def check(self, text: str, source: str, target: str) -> None:
        """Raise UnknownLanguageError for another direction, OutsideCoverageError for text that no phrase matches.

        Takes time in proportion to the words of `text` (at most 300 characters) times the phrases that begin alike.
        """
        if (source, target) not in self.pairs:
            known = ", ".join(f"{one} to {other}" for one, other in self.pairs)
            raise UnknownLanguageError(f"{self.model} does not translate {source} to {target}; it translates {known}")
        if len(text) > MAX_CHARACTERS:
            raise self._outside(f"its phrases are shorter than the {len(text)} characters given", text)
        tokens = self.tokens(text)
        reached = self._match(tokens)
        if reached is None:
            return
        if reached == len(tokens):
            raise self._outside("no phrase of it ends there" if tokens else "there is no phrase in it", text)
        if tokens[reached] not in self._known:
            raise self._outside(f"it does not know {_quoted(tokens[reached])}", text)
        before = " ".join(tokens[:reached])
        after = f" after {_quoted(before, end=True)}" if before else " at the beginning"
        raise self._outside(f"no phrase of it has {_quoted(tokens[reached])}{after}", text)

    def tokens(self, text: str) -> list[str]:
        """Split `text` into words and marks as in phrases: lower case, contractions written out, no final mark."""
        plain = unicodedata.normalize("NFC", text).lower().translate(_APOSTROPHES).strip().rstrip(_MARKS)
        found: list[str] = []
        for token in _TOKEN.findall(plain):
            found += self._contractions.get(token, token).split()
        return [_ARTICLES.get(word, word) for word in found]

    def _learn(self, phrase: str) -> list[str]:
        """Return the tokens of a phrase or slot entry, and remember its words as known."""
        words = [word if word.startswith("{") else word.lower() for word in _TOKEN.findall(phrase)]
        tokens = [_ARTICLES.get(word, word) for word in words]
        self._known.update(token for token in tokens if not token.startswith("{"))
        return tokens

    def _match(self, tokens: list[str]) -> int | None:
        """Return None where a phrase matches all of `tokens`, else the index of the first token that fits none."""
        # By identity: paths that meet in one state continue as one, or they would double with every word.
        active: list[dict[int, _Node]] = [{} for _ in range(len(tokens) + 1)]
        active[0] = {id(self._start): self._start}
        ends: dict[tuple[str, int], list[int]] = {}
        reached = 0
        for place, nodes in enumerate(active[:-1]):
            for node in nodes.values():
                following = node.words.get(tokens[place])
                if following is not None:
                    active[place + 1][id(following)] = following
                    reached = max(reached, place + 1)
                for slot, after in node.slots.items():
                    if (slot, place) not in ends:
                        ends[slot, place], deepest = self._entries(slot, tokens, place)
                        reached = max(reached, deepest)
                    for end in ends[slot, place]:
                        active[end][id(after)] = after
        return None if any(node.last for node in active[-1].values()) else reached

    def _entries(self, slot: str, tokens: list[str], place: int) -> tuple[list[int], int]:
        """Return the ends of entries of `slot` that begin at `place`, and how far any of them went."""
        node, ends = self._slots[slot], []
        while place < len(tokens) and tokens[place] in node.words:
            node = node.words[tokens[place]]
            place += 1
            if node.last:
                ends.append(place)
        return ends, place

    def _outside(self, why: str, text: str) -> OutsideCoverageError:
        can = " ".join(f'"{example}"' for example in self.examples)
        return OutsideCoverageError(
            f"{self.model} is a phrase-book demonstrator, not a general translator, and {_quoted(text)} is not in it: "
            f"{why}. It can translate, for example: {can}"
        )


def _quoted(text: str, *, end: bool = False) -> str:
    """Return `text` in quotes, cut to a readable length: its beginning, or its `end`."""
    text = " ".join(text.split())
    if len(text) > _QUOTED:
        text = f"…{text[-_QUOTED:]}" if end else f"{text[:_QUOTED]}…"
    return f'"{text}"'
