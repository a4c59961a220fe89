"""Part of speech and sense of the words whose pronunciation depends on them.

Fewer than 800 of the 90,000 entries of the lexicon depend on the part of speech. The rules look at the nearest words
on both sides, at inflection, and at signs of past tense in the sentence. Tags are those of the Penn Treebank. Where
the tag is not enough, the neighbors decide: they tell "lead" the metal from "lead" the first place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.text.english import word_classes as classes
from app.text.english.tag_rules import FUNCTION_WORDS, HOMOGRAPHS, tag_capitals, tag_open_class
from app.text.english.word_context import WordContext
from app.text.word_sets import word_set


class Tagger:
    """Tagger of the words of one sentence, on demand. `words` are in order; "" stands for a punctuation mark."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._lower = [word.lower().replace("’", "'") for word in words]
        capitals = sum(word.isupper() and len(word) > 1 for word in words)
        total = sum(len(word) > 1 for word in words)
        # In a text all in capitals "IT" and "US" are pronouns; elsewhere they are acronyms.
        self._shouting = capitals >= 2 and (capitals == total or (capitals >= 4 and capitals > 0.7 * total))

    @property
    def shouting(self) -> bool:
        """Whether the sentence is written in capitals."""
        return self._shouting

    @property
    def words(self) -> Sequence[str]:
        """The words in small letters."""
        return self._lower

    def tag(self, i: int) -> str:
        """Return the Penn Treebank tag of word `i`."""
        c = WordContext(self._words, self._lower, i, shouting=self._shouting)
        if c.word == "I":
            return "PRP"
        if c.lower in FUNCTION_WORDS:
            return FUNCTION_WORDS[c.lower](c)
        if c.lower == "am" and c.word != "AM":
            return "VBP"
        if c.word.isupper() and len(c.word) > 1:
            if not self._shouting:
                return tag_capitals(c)
            if c.lower == "us" and c.next and (i == 0 or c.previous in ("", "the")):
                return "NNP"  # the country: "US TO JOIN TALKS"
            if c.lower in classes.FUNCTION:
                return "PRP"
        if c.lower in HOMOGRAPHS:
            return HOMOGRAPHS[c.lower](c)
        if c.lower.endswith("ed") and len(c.lower) > 4 and c.previous not in classes.DETERMINERS:
            return "VBN" if c.previous_verbal in classes.BE | classes.HAVE else "VBD"
        if c.lower.endswith("ing") and len(c.lower) > 5:
            return "VBG"
        return tag_open_class(c)


def tags(words: Sequence[str]) -> list[str]:
    """Return the tags of all words of one sentence."""
    tagger = Tagger(words)
    return [tagger.tag(i) for i in range(len(words))]


@dataclass(frozen=True, slots=True)
class Sense:
    """Sound of a word in one of its senses: American and British phonemes.

    The sense applies if the tag of the word begins with `tag`, and a word or pair of words of `before` is before it,
    one of `after` follows, or one of `near` is within four words. If all three are empty the tag is enough. A word
    of `not_after` before it, or of `not_before` after it, excludes the sense.
    """

    american: str
    british: str
    tag: str = ""
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    not_after: frozenset[str] = frozenset()
    not_before: frozenset[str] = frozenset()

    def is_meant(self, words: Sequence[str], i: int, tag: str) -> bool:
        """Return whether word `i` of a sentence in small letters, tagged `tag`, has this sense."""
        before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
        if not tag.startswith(self.tag) or before in self.not_after or after in self.not_before:
            return False
        if not (self.before or self.after or self.near):
            return True
        pair = f"{words[i - 2]} {before}" if i > 1 else ""
        beside = before in self.before or pair in self.before or after in self.after
        return beside or any(word in self.near for word in (*words[max(0, i - 4) : i], *words[i + 1 : i + 5]))


_SENSES: Final[dict[str, tuple[Sense, ...]]] = {
    "lead": (
        Sense(
            "lˈɛd", "lˈɛd", before=word_set("of molten pencil tetraethyl contain contains containing"),
            after=word_set("pipe pipes paint poisoning acid bullet bullets shot weight weights pencil oxide ore glass "
                         "crystal free levels content contamination exposure sulfide mine"),
            near=word_set("metal metals mercury zinc copper tin arsenic cadmium toxic poisonous plumbing graphite"),
            not_after=word_set("to will would can could i we you they who"),
        ),
    ),
    "bow": (
        Sense("bˈW", "bˈW", tag="VB"),
        Sense(
            "bˈW", "bˈW", before=frozenset(
                f"{verb} {owner}"
                for verb in ("took", "take", "takes", "taking", "taken")
                for owner in ("a", "his", "her", "their", "my", "our")
            )
            | {
                f"{article} {kind}" for article in ("a", "her", "his", "their", "one", "the")
                for kind in ("deep", "low", "final", "last", "slight", "little", "small", "quick", "curtain")
            },
            after=word_set("wave waves thruster"),
            near=word_set("ship ship's ships boat boats stern hull yacht vessel deck sail sailed anchor port starboard "
                        "applause curtain"),
            not_after=word_set("violin cello hair red pink ribbon"),
        ),
    ),
    "row": (
        Sense(
            "ɹˈW", "ɹˈW", tag="NN",
            before=word_set("blazing furious heated bitter diplomatic angry flaming almighty")
            | {"had a", "have a", "having a", "huge political", "a political", "terrible"},
            near=word_set("argument quarrel argued shouting erupted"),
            not_after=word_set("in"), not_before=word_set("of houses"),
        ),
    ),
    "resume": (
        Sense(
            "ɹˈɛzəmˌA", "ɹˈɛzjʊmˌA", tag="NN",
            before=word_set("my your his her our their a the this that updated update attached attach send upload"),
            near=word_set("cover cv job hiring recruiter applicant"),
        ),
    ),
    "bass": (
        Sense(
            "bˈAs", "bˈAs",
            before=word_set("double play plays played playing electric slap and heavy deep sub upright"),
            after=word_set("guitar guitars player players drum line lines clef note notes voice singer boost solo drop "
                         "amp section tone"),
            near=word_set("guitar guitarist drums treble music band song jazz tenor soprano sound audio"),
            not_after=word_set("sea striped largemouth smallmouth"),
        ),
    ),
    "tear": (
        Sense(
            "tˈɛɹ", "tˈɛː", tag="NN", before=frozenset(("wear and",)), after=word_set("in along through"),
            near=word_set("shirt paper cloth fabric ligament muscle jeans meniscus seam page tissue tendon hole"),
        ),
    ),
    "address": (Sense("ˈæˌdɹɛs", "ədɹˈɛs", tag="NN"),),
    "protest": (Sense("pɹətˈɛst", "pɹətˈɛst", tag="VB"),),
    "update": (Sense("ˌʌpdˈAt", "ˌʌpdˈAt", tag="VB"),),
    "polish": (Sense("pˈɑlɪʃ", "pˈɒlɪʃ", tag="VB"),),
}  # fmt: skip

# Words that the lexicons lack or have wrong.
_WORDS: Final[dict[str, tuple[str, str]]] = {
    "ikea": ("Ikˈiə", "Ikˈiːə"), "json": ("ʤˈAsᵊn", "ʤˈAsᵊn"), "yaml": ("jˈæməl", "jˈaməl"), "pfft": ("pft", "pft"),
    "brr": ("bɹ", "bɹ"), "brrr": ("bɹ", "bɹ"), "grr": ("ɡɹ", "ɡɹ"), "grrr": ("ɡɹ", "ɡɹ"), "bowed": ("bˈWd", "bˈWd"),
    "aws": ("ˌAdˌʌbᵊljuˈɛs", "ˌAdˌʌbᵊljuːˈɛs"), "zzz": ("z", "z"), "'n": ("ən", "ən"), "bowing": ("bˈWɪŋ", "bˈWɪŋ"),
}  # fmt: skip


def has_sense(word: str) -> bool:
    """Return whether `sound_by_sense` knows a word, given in small letters."""
    word = word.removesuffix("'s")
    return word in _SENSES or word in _WORDS or word[:3] == "shh"


def sound_by_sense(words: Sequence[str], i: int, tag: str, *, british: bool) -> str | None:
    """Return the phonemes of word `i` of a sentence in small letters, or None if the lexicon decides.

    A possessive is pronounced without its ending.
    """
    word = words[i].removesuffix("'s")
    if word in _WORDS:
        return _WORDS[word][british]
    if word[:3] == "shh" and not word.strip("sh"):
        return "ʃ"
    for meant in _SENSES.get(word, ()):
        if meant.is_meant(words, i, tag):
            return meant.british if british else meant.american
    return None
