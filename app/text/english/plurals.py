"""Readings of numbers before "s": decades, numbers in the plural, seconds."""

from __future__ import annotations

import re
from typing import Final

from app.text.english import measures, numbers
from app.text.english.normalize import NormalizerContext
from app.text.word_sets import word_set

# Words before "90s" that make it seconds instead of a decade, if no noun follows: beside it, and anywhere before it.
_LASTING: Final = re.compile(
    r"\b(?:[Aa]fter|[Ff]or|[Ww]ithin|[Ee]very|[Tt]akes|[Tt]ook|[Ww]ait|[Ww]aits|[Ww]aited|[Tt]imeout|[Uu]nder|[Ii]n|[Ll]asts"
    r"|[Ll]asted|[Ss]leep|[Rr]est|[Hh]old|[Aa]bout|[Bb]etween|[Pp]er|[Ll]asting|[Aa]nother|than|at (?:least|most)"
    r"|up to|first|last|next|final)(?:\s(?:of|about|only|just|around|roughly|exactly|nearly|almost))?:?\s$"
    r"|\d\s?[-–]\s?$|=\s?$"
)
_TIMED_BEFORE: Final = re.compile(
    r"\b(?:time-?outs?|delay\w*|intervals?|latenc(?:y|ies)|durations?|(?:response|run|load|start|cycle|lap|idle) ?"
    r"times?|wait(?:s|ed|ing)?|sleeps?|paus(?:es?|ed)|cool-?downs?|countdowns?|timers?|TTL|retr(?:y|ies|ied)|heartbeats?|polls?"
    r"|polled|polling|debounced?|throttled?|back-?off|takes?|took|lasts?|lasted|exposures?|seconds|requests?|repeats?"
    r"|refresh\w*|expir\w+|maximum|max|minimum|min|average|elapsed|each|hold|plank|rest|every|after|within)\b[^.!?;]*\s[\"'(]?$",
    re.IGNORECASE,
)
_DECADE_BEFORE: Final = re.compile(
    r"(?i:\b(?:the|his|her|my|your|their|our|its|one's|early|late|mid|middle|the (?:over|under|upper|lower))[\s-]$)"
)
_LIST_AFTER: Final = re.compile(r"(?:(?:,|,?\s(?:and|or|to|not|but|then))\s'?\d0s(?!\w)){0,4}")
_TIMED_AFTER: Final = re.compile(
    r"(?:-|\s)(?:timers?|delays?|timeouts?|countdowns?|clips?|intervals?|pauses?|windows?|limits?|marks?|breaks?|rests?|holds?"
    r"|rule|videos?|ads?|cooldowns?|laps?|sprints?|waits?|bursts?|loops?|samples?|exposures?|runs?|gaps?|spots?|tracks?|penalt(?:y|ies)|long|later|ago|each|per"
    r"|apart|to (?:complete|finish|load|start|boot|respond)|of (?:silence|audio|video|footage|speech|idle))\b"
    r"|/(?:req(?:uest)?|call|frame|step|iter(?:ation)?|epoch|it|op|page|query|run)\b"
)
# Numbers in the plural: what stands before and after them, and numbers that are names.
_COUNTS_BEFORE: Final = re.compile(
    r"\b(?:the|both|all|these|those|some|any|many|few|more|no|two|three|four|five|six|seven|eight|nine|ten|twelve|double"
    r"|(?:pairs?|row|sets?|deck|series|strings?|lots?|plenty|groups?|counts?|numbers?|bunch) of"
    r"|triple|roll(?:s|ed|ing)?|sizes?|pocket|straight|his|her|my|your|their|our|models?|types?|series|class|grade|year)\s$",
    re.IGNORECASE,
)
_NO_NOUN_AFTER_PLURAL: Final = re.compile(
    r"\s*(?:[^\w\s]|$)|\s(?:and|or|at|before|per|then|on|with|in|of|from|to|are|were|have|had|will|can|that|which|who|for"
    r"|as|but|by|into|than|between|until|while|when|if|so|not|fit|run|ran|came|beat|win|won|fly|flew|was|is|the|a|an|he|she|it|they|we|you|i)\b"
)
_OTHER_BEFORE: Final = re.compile(r"(?<![\w.,])\d{1,3}s,?\s(?:and|or|to)\s$")
_SEVERAL_AFTER: Final = re.compile(r",?\s(?:and|or)\s\ds(?!\w)")
_BETWEEN: Final = re.compile(r"\b(?:[Bb]etween|[Ff]rom)\s$")
_NAMED: Final = re.compile(r"7[0-8]7|911|1099|40[134]|50[1234]|401|[2-5]86")
_ERA_AFTER: Final = re.compile(r"\s(?:BCE?|CE|AD|B\.C|A\.D)\b")
# Words before a number that is a size or a name, whatever follows; a name and what counts it.
_NAME_BEFORE: Final = re.compile(
    r"\b(?:sizes?|models?|Fortune|Pixel|Xbox|PlayStation|Galaxy|iPhone|iPad)\s$"
    r"|\b(?:(?i:these|those|both|old|new|two|three|four|five|six)|\d{1,2})\s[A-Z][a-zA-Z]+\s$"
)
_MAKERS: Final = word_set(
    "boeing boeings airbus porsche porsches form forms mig ak colt ford audi peugeot ferrari levi's mazda error errors"
)
_CODE_BEFORE: Final = re.compile(r"(?<![\w-])[A-Z][A-Za-z]{0,2}-$")
_CENTURY_BEFORE: Final = re.compile(r"\b(?:[Tt]he|[Ee]arly|[Ll]ate|[Mm]id)[\s-]$")


def read_decade(context: NormalizerContext, text: str, start: int, end: int) -> None:
    """Read a decade, a number in the plural, or seconds: `the 1990s`, `two 747s`, `58s`."""
    digits = re.sub(r"\D", "", text)
    digits = "2000" if digits == "00" else digits
    before = context.before(start)
    if text[0] == ".":  # a caliber
        context.say(["point", *numbers.plural(context.digits_in_name(digits))], start, end)
    elif text[1] in "x×":
        context.say([*context.cardinal(text[0]), "by", *numbers.plural(context.cardinal(text[2]))], start, end)
    elif text in ("4s", "5s", "6s") and context.previous_word(start).lower() == "iphone":
        context.say([*context.cardinal(digits), "S"], start, end)
    elif digits + "s" == text and _is_name(context, digits, start, end):
        context.say(numbers.plural(context.digits_in_name(digits)), start, end)
    elif digits + "s" == text and _lasts(context, digits, start, end):
        measures.read_quantity(context, text, start, end)
    else:
        named = len(digits) == 4 or (len(digits) == 3 and _CENTURY_BEFORE.search(before))
        spoken = numbers.year(digits, british=context.british) if named else context.cardinal(digits)
        context.say(numbers.plural(spoken), start, end)


def _is_name(context: NormalizerContext, digits: str, start: int, end: int) -> bool:
    """Return whether a number before "s" is a name, as in "B-17s" or "747s"."""
    before = context.before(start)
    maker = context.previous_word(start).lower() in _MAKERS or _NAME_BEFORE.search(before) is not None
    named = _NAMED.fullmatch(digits) is not None and _LASTING.search(before) is None
    return maker or _CODE_BEFORE.search(before) is not None or (named and not _TIMED_AFTER.match(context.text, end))


def _lasts(context: NormalizerContext, digits: str, start: int, end: int) -> bool:
    """Return whether a number before "s" counts seconds."""
    before = context.before(start)
    if _TIMED_AFTER.match(context.text, end):
        return True
    if _OTHER_BEFORE.search(before) and context.pieces:  # as the one before
        return any(piece.text.startswith("second") for piece in context.pieces[-4:])
    if len(digits) in (2, 4) and digits[-1] == "0":
        timed = any(piece.text == "seconds" for piece in context.pieces[-4:])
        timed = timed or bool(_LASTING.search(before) or _TIMED_BEFORE.search(before))
        if len(digits) == 4 or not timed or _DECADE_BEFORE.search(before) or context.next_word(end) in ("are", "were"):
            return False
        listed = _LIST_AFTER.match(context.text, end)
        return _NO_NOUN_AFTER_PLURAL.match(context.text, listed.end() if listed else end) is not None
    alone = _NO_NOUN_AFTER_PLURAL.match(context.text, end) is not None
    if len(digits) == 1 and _SEVERAL_AFTER.match(context.text, end):
        return _LASTING.search(before) is not None or _BETWEEN.search(before) is not None
    if len(digits) == 3 and digits[-1] == "0":
        return _CENTURY_BEFORE.search(before) is None and _ERA_AFTER.match(context.text, end) is None
    return not (alone and _COUNTS_BEFORE.search(before))
