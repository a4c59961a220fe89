"""A small rule tagger: the part of speech of a word whose pronunciation depends on it.

Fewer than 800 of the lexicon's 90,000 entries do. The rules look at the nearest words on both sides, at
inflection, and at signs of past tense in the sentence. Tags are those of the Penn Treebank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from app.text.word_sets import word_set

_POSSESSIVES: Final = word_set("my your his her its our their whose")
_DETERMINERS: Final = word_set(
    "a an the this that these those each every some any no another either neither both all such what which"
) | (_POSSESSIVES)
_SUBJECTS: Final = word_set("i you we they he she it who")
_THIRD_PERSON: Final = word_set("he she it")
_OBJECTS: Final = word_set("me you him her it us them this that these those")
_MODALS: Final = word_set(
    "will would can could shall should must may might cannot do does did let let's please don't doesn't didn't won't "
    "wouldn't can't couldn't shouldn't mustn't shan't needn't i'll you'll he'll she'll it'll we'll they'll i'd you'd "
    "he'd she'd we'd they'd who'll that'll gonna wanna gotta"
)
_BE: Final = word_set(
    "am is are was were be been being isn't aren't wasn't weren't i'm you're he's she's it's we're they're that's "
    "there's who's get gets got getting"
)
_HAVE: Final = word_set("have has had having haven't hasn't hadn't i've you've we've they've who've")
_PREPOSITIONS: Final = word_set(
    "of in on at by for with from into onto about over under after before between through during without within "
    "against across behind beyond near off out per since than toward towards until upon via like as"
)
_CONJUNCTIONS: Final = word_set("and or but then nor so")
_ADVERBS: Final = word_set(
    "not never always yet often sometimes usually also just still only really ever already now then soon once again "
    "simply even almost actually currently instead"
)
_DEGREE: Final = word_set("very too so quite rather more most less least pretty extremely how")
_FUNCTION: Final = (
    _DETERMINERS | _SUBJECTS | _OBJECTS | _MODALS | _BE | _HAVE | _PREPOSITIONS | _CONJUNCTIONS | _ADVERBS | _DEGREE
) | word_set("to there here when where why if because while though although not")
_VERBS_OF_SAYING: Final = word_set(
    "say says said think thinks thought believe believes believed know knows knew hope hopes hoped feel feels felt "
    "mean means meant show shows showed shown see sees find finds found hear heard claim claims claimed suggest "
    "suggests suggested ensure ensures note noted realise realize realized argue argues argued agree agreed fear "
    "feared sure certain glad afraid happy sorry true clear told tell tells so such fact idea hope report reports "
    "reported explain explains explained insist insisted assume assumes assumed require requires required"
)
_PAST_SIGNS: Final = word_set(
    "yesterday ago last was were had did went came said took made got saw knew wrote told gave found left earlier "
    "previously once then"
)
_SMALL_THINGS: Final = word_set(
    "detail details amount amounts quantity quantities particle particles trace traces fraction difference differences "
    "quantities attention inspection variation variations change changes"
)
_EMPHASIS: Final = word_set("IS OR IN ME HE MY AS OH IF SO NO DO BE WE ON AT TO OF BY AN HI AND")
_HABITS: Final = word_set(
    "be have live work play go come say tell think love like hate want know feel sing smoke drink eat walk run belong "
    "call visit see take teach stay dream believe sit travel"
)
# Of the words with a choice, those that are adjectives before a noun ("an invalid token", "an elaborate plan").
_ADJECTIVES: Final = word_set(
    "invalid covert overweight uptown downhill deliberate elaborate animate incarnate consummate nominate designate "
    "diffuse converse obverse outright prostrate inside nearby downstairs learned compact minute cleanly adulterate "
    "upset attenuate degenerate mediate obligate reincarnate regenerate truncate undulate unlearned inebriate"
)
_QUESTIONS: Final = frozenset(("", "why", "when", "how", "what", "where", "who", "and", "but", "so", "or"))
_DOVES: Final = word_set("white grey gray mourning turtle rock little wounded dead single wild pure")
# Plurals that stand before a noun: "a sales record".
_PLURAL_NAMES: Final = word_set(
    "sales sports goods arms news customs systems savings series species states olympics physics"
)
_CLAUSE_STARTS: Final = _CONJUNCTIONS | _DETERMINERS | word_set("most many some few when if as") | {""}
_ON_AIR: Final = word_set(
    "go goes went going stream streams streamed watch watched play plays played perform performs performed sing sang "
    "broadcast air airs aired recorded reporting appear appeared captured"
)
_BARE_VERB: Final = word_set("help helps lets watch")


class Tagger:
    """Tags words of one sentence on demand. `words` are its words in order; "" stands for a punctuation mark."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._lower = [word.lower().replace("’", "'") for word in words]
        shouted = sum(word.isupper() and len(word) > 1 for word in words)
        total = sum(len(word) > 1 for word in words)
        # In a text all in capitals "IT" and "US" are pronouns; elsewhere they are acronyms.
        self._shouting = shouted >= 2 and (shouted == total or (shouted >= 4 and shouted > 0.7 * total))

    @property
    def words(self) -> Sequence[str]:
        """The words in small letters."""
        return self._lower

    def tag(self, i: int) -> str:
        """Return the Penn Treebank tag of word `i`."""
        word, lower = self._words[i], self._lower[i]
        if word == "I":
            return "PRP"
        if lower == "a":
            return self._tag_a(i)
        if lower in ("an", "the"):
            return "DT"
        if lower == "to":
            return "TO"
        if lower == "that":
            return self._tag_that(i)
        if lower == "used":
            return self._tag_used(i)
        if lower == "in":
            return "RP" if self._next(i) in ("", "to") else "IN"
        if lower == "am" and word != "AM":
            return "VBP"
        if word.isupper() and len(word) > 1:
            if not self._shouting:
                return self._tag_capitals(i)
            if lower in _FUNCTION:
                return "PRP"
        if lower in ("read", "reread"):
            return self._tag_read(i)
        if lower == "close":
            return self._tag_close(i)
        if lower == "dove":
            return self._tag_dove(i)
        if lower == "wind":
            return self._tag_wind(i)
        if lower == "wound":
            return self._tag_wound(i)
        if lower == "minute":
            small = self._next(i) in _SMALL_THINGS and self._previous(i) not in ("last", "first", "final")
            return "JJ" if small else "NN"
        if lower == "bass":
            return "NN"
        if lower in ("live", "lives"):
            return self._tag_live(i)
        if lower.endswith("ed") and len(lower) > 4 and self._previous(i) not in _DETERMINERS:
            return "VBN" if self._previous_verbal(i) in _BE | _HAVE else "VBD"
        if lower.endswith("ing") and len(lower) > 5:
            return "VBG"
        return self._tag_open(i)

    def _word(self, i: int) -> str:
        return self._lower[i] if 0 <= i < len(self._lower) else ""

    def _previous(self, i: int) -> str:
        return self._word(i - 1)

    def _next(self, i: int) -> str:
        return self._word(i + 1)

    def _previous_verbal(self, i: int) -> str:
        """The word before `i`, seen through adverbs ("will not often use")."""
        i -= 1
        while i >= 0 and (self._lower[i] in _ADVERBS or (self._lower[i].endswith("ly") and len(self._lower[i]) > 4)):
            i -= 1
        return self._lower[i] if i >= 0 else ""

    def _asks_with(self, i: int) -> str:
        """The auxiliary of a question whose verb is word `i` ("Have you read it?"), or nothing."""
        for j in range(i - 1, max(-1, i - 5), -1):
            word = self._lower[j]
            if word in _HAVE or word in _MODALS:
                first = j == 0 or self._lower[j - 1] in _QUESTIONS
                return word if first and j < i - 1 else ""
            if not word:
                break
        return ""

    def _starts_object(self, i: int) -> bool:
        """Whether the word after `i` begins an object or complement, as after a verb."""
        following = self._next(i)
        return following in _DETERMINERS or following in _OBJECTS or following in ("myself", "yourself", "themselves")

    def _follows_plural(self, i: int) -> bool:
        """Whether a noun in the plural stands before word `i` and begins its clause: "Prices", "these reports"."""
        direct = self._previous(i)
        if not direct.endswith("s") or direct.endswith(("ss", "us", "'s")) or direct in _PLURAL_NAMES | _FUNCTION:
            return False
        return self._word(i - 2) in _CLAUSE_STARTS

    def _ends_clause(self, i: int) -> bool:
        after = self._next(i)
        return (
            not after
            or after in _CONJUNCTIONS
            or after in _ADVERBS
            or after in ("when", "if", "while", "because", "with")
        )

    def _tag_a(self, i: int) -> str:
        if self._words[i] == "a":
            return "DT" if self._next(i) else "NN"
        if not self._next(i):
            return "NN"
        return "DT" if i == 0 or not self._words[i - 1] or self._shouting else "NN"

    def _tag_capitals(self, i: int) -> str:
        word = self._words[i]
        if word in _EMPHASIS:
            return self._tag_open(i)
        if word in ("IT", "WHO", "US", "ALL", "AM", "ARE"):
            article = self._previous(i) in ("the", "our", "an", "your", "in", "of", "from", "by", "to", "for")
            noun = self._next(i) in ("department", "support", "staff", "services", "team", "systems", "dollars")
            return "NNP" if article or noun or (word in ("US", "IT", "WHO") and not self._next(i)) else "PRP"
        return "NN"

    def _tag_that(self, i: int) -> str:
        before, after = self._previous(i), self._next(i)
        if not after:
            return "DT"
        if after in _SUBJECTS or after in _DETERMINERS or after in ("there", "if", "when"):
            return "IN"
        if not before or before in _PREPOSITIONS or before in _BE or before in _CONJUNCTIONS or before in _MODALS:
            return "DT"
        if before in _VERBS_OF_SAYING:
            return "IN"
        if after in _BE or after in _HAVE or after in _MODALS or after.endswith("ed"):
            return "WDT"
        if after in _ADVERBS or (after.endswith("ly") and len(after) > 4):
            return "WDT"
        plural = before.endswith("s") and not before.endswith("ss") and self._word(i - 2) not in _THIRD_PERSON
        # "like that book", "after that day": a demonstrative, unless a verb follows ("the dog that barks").
        return "WDT" if plural or (after.endswith("s") and not after.endswith("ss")) else "DT"

    def _tag_used(self, i: int) -> str:
        before = self._previous_verbal(i)
        if self._next(i) != "to":
            return "VBN" if before in _BE | _HAVE else "VBD"
        after = self._word(i + 2)
        if before in _BE:
            # "is used to make it" is a passive; "is used to it", "is used to working" is a habit.
            habit = not after or after in _FUNCTION - {"be", "have", "do"} or after.endswith("ing")
            return "JJ" if habit else "VBN"
        if before in _SUBJECTS or before in ("there", "that", "people", "everyone", "everybody", "things"):
            return "VBD"
        # "My father used to say" is a habit; "a tool used to cut" is a short relative clause.
        habit = bool(before) and before not in _FUNCTION and after in _HABITS
        return "VBD" if habit else "VBN"

    def _tag_read(self, i: int) -> str:
        before = self._previous_verbal(i)
        if self._next(i) == "only":
            return "VB"
        asked = self._asks_with(i)
        if asked and before != "to":
            return "VBN" if asked in _HAVE else "VB"
        if before in _HAVE or before in _BE:
            return "VBN"
        if self._next(i) in ("", "by", "and") and before == "as" and self._word(i - 2) in ("mark", "marked", "marks"):
            return "VBN"
        if before in ("well", "widely", "best"):
            return "JJ"
        if before == "to" or before in _MODALS or (self._previous(i) in _DETERMINERS):
            return "VB"
        past = any(word in _PAST_SIGNS or (word.endswith("ed") and len(word) > 4) for word in self._lower)
        if before in _THIRD_PERSON or (before == "who" and (past or i == 1)):
            return "VBD"
        if before in _SUBJECTS:
            return "VBD" if past else "VB"
        name = i > 0 and self._words[i - 1][:1].isupper() and before not in _FUNCTION
        if name and before:
            return "VBD"
        if before and past and before not in _FUNCTION:
            return "VBD"
        if before == "and" and past:
            return "VBD"
        return "VB"

    def _tag_close(self, i: int) -> str:
        before, after = self._previous_verbal(i), self._next(i)
        if (
            self._follows_plural(i)
            and after in ("early", "late", "soon", "at", "on", "for")
            and self._word(i + 2) != "hand"
        ):
            return "VBP"
        if before == "to" or before in _MODALS:
            return "JJ" if after in ("to", "by", "friend", "friends") and before in _BE else "VB"
        if before in _BE or before in _DEGREE or after in ("to", "by", "enough", "together", "behind", "at"):
            return "RB"
        if self._previous(i) in _DETERMINERS:
            return "NN" if not after or after in _FUNCTION else "JJ"
        if self._starts_object(i) or before in _SUBJECTS:
            return "VB"
        if not self._previous(i):
            return "VB" if after not in _FUNCTION or after in _DETERMINERS else "RB"
        return "VBP" if before.endswith("s") and not after else "RB"

    def _tag_dove(self, i: int) -> str:
        before, after = self._previous(i), self._next(i)
        if before in _SUBJECTS:
            return "VBD"
        moving = after in ("into", "under", "down", "off", "headfirst", "deep", "for", "underwater")
        return "VBD" if moving and before and before not in _FUNCTION | _DOVES else "NN"

    def _tag_wind(self, i: int) -> str:
        before, after = self._previous(i), self._next(i)
        turning = after in ("up", "down", "back", "around", "through", "along", "its", "round", "past")
        plural = before.endswith("s") and before not in _FUNCTION
        return "VB" if turning and (not before or plural or before in _CONJUNCTIONS) else self._tag_open(i)

    def _tag_wound(self, i: int) -> str:
        before, after = self._previous_verbal(i), self._next(i)
        if before in _SUBJECTS:
            return "VBD"
        turning = after in ("up", "around", "down", "through", "its", "round", "along", "back")
        if turning and before not in _DETERMINERS:
            return "VBD"
        return "NN"

    def _tag_live(self, i: int) -> str:
        before, after = self._previous_verbal(i), self._next(i)
        if self._lower[i] == "lives":
            if before in _SUBJECTS or after in ("in", "on", "at", "here", "there", "with", "alone", "near"):
                return "NNS" if self._previous(i) in _POSSESSIVES else "VBZ"
            return "NNS"
        if before in _BE or before in _DETERMINERS or before in _ON_AIR:
            return "JJ"
        if before in _SUBJECTS and self._word(i - 2) in ("is", "are", "was", "were", "am"):
            return "JJ"  # "Is it live?"
        if before == "to" or before in _MODALS or before in _SUBJECTS or before == "long":
            return "VB"
        if not self._previous(i) and after == "from":
            return "JJ"
        if after in _PREPOSITIONS or after in ("here", "there", "together", "alone", "long", "well", "forever", "and"):
            return "VBP"
        if before.endswith("s") and before not in _FUNCTION:
            return "VBP"
        return "VB" if not self._previous(i) and after in _FUNCTION else "JJ"

    def _tag_open(self, i: int) -> str:
        """Noun or verb, for the many words that are either."""
        lower, before, direct, after = self._lower[i], self._previous_verbal(i), self._previous(i), self._next(i)
        inflected = lower.endswith("s") and not lower.endswith("ss")
        if direct in _DETERMINERS:
            if direct in ("that", "which", "this", "these", "those", "what", "all", "her") and self._starts_object(i):
                return "VBZ" if inflected else "VBP"
            if inflected:
                return "NNS"
            return "JJ" if lower in _ADJECTIVES and after and after not in _FUNCTION else "NN"
        if before == "to":
            return "NNS" if inflected else "VB"
        if not inflected and self._starts_object(i) and self._asks_with(i) in ("do", "does", "did", "will", "can"):
            return "VB"
        if before in _MODALS or before in _BARE_VERB:
            return "NNS" if inflected else "VB"
        if before in _SUBJECTS:
            return "VBZ" if inflected else "VBP"
        if before in _BE or direct in _DEGREE:
            return "NNS" if inflected else "JJ"
        if direct in _PREPOSITIONS or direct in _HAVE or re.fullmatch(r"\d+|one|two|three|four|five|ten", direct):
            return "NNS" if inflected else "NN"
        if not direct or direct in _CONJUNCTIONS or direct in _ADVERBS:
            if self._starts_object(i) or (lower == "bow" and after in ("to", "down", "before")):
                return "VBZ" if inflected else "VB"
            if lower in _ADJECTIVES and after and after not in _FUNCTION:
                return "JJ"
            return "NNS" if inflected else "NN"
        if self._starts_object(i) or after == "to":
            plural = direct.endswith("s") and not direct.endswith("ss")
            if inflected and not plural:
                return "VBZ"
            if plural and not inflected:
                return "VBP"
        if not inflected and self._follows_plural(i):
            starts = not self._word(i - 2) or (i == 2 and self._word(0) in ("the", "these", "those", "many", "most"))
            content = after not in _FUNCTION and starts
            if self._ends_clause(i) or content or after in ("in", "on", "at", "from"):
                return "VBP"
        if direct.endswith("ly") and self._word(i - 2) in _DETERMINERS:  # "an early estimate"
            return "NNS" if inflected else "NN"
        if direct.endswith("ly") or direct in ("who", "that", "which"):
            return "VBZ" if inflected else "VBP"
        return "NNS" if inflected else "NN"


def tags(words: Sequence[str]) -> list[str]:
    """Return the tags of all words of one sentence."""
    tagger = Tagger(words)
    return [tagger.tag(i) for i in range(len(words))]
