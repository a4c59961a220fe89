"""French forms: gender, plural, the regular conjugation, elision, contractions, the space before ? and !."""

from __future__ import annotations

import re

from training.phrasebook.forms import MARK, Adjective, Form, Noun, Verb, options, read_noun, tidy

ARTICLES = {
    "a": ("un", "une", "des"),
    "the": ("le", "la", "les"),
    "my": ("mon", "ma", "mes"),
    "your": ("votre", "votre", "vos"),
    "this": ("ce", "cette", "ces"),
    "which": ("quel", "quelle", "quels"),
    "no": ("de", "de", "de"),
}
VOWEL = re.compile(r"[aeiouhâàéèêëîïôùûœ]", re.IGNORECASE)
BEFORE_VOWEL = {"ma": "mon", "ce": "cet"}
PRESENT = {"1s": "e", "3s": "e", "1p": "ons", "2": "ez", "3p": "ent"}
LETTERS = "aeiouhâàéèêëîïôùûœAEIOUHÀÉÈÊŒ"
ELISION = re.compile(rf"(?<![-\w])([LlDdJjNnSsMmTt]|[Qq]u)(?:e|(?<=[Ll])a) (?=[{LETTERS}])")
CONTRACTIONS = {"à le": "au", "à les": "aux", "de le": "du", "de les": "des"}


def plural_of(word: str) -> str:
    if word[-1] in "sxz":
        return word
    if re.search("(eau|au|eu)$", word):
        return word + "x"
    return re.sub("al$", "aux", word) if word.endswith("al") else word + "s"


def noun(text: str) -> Noun:
    word, gender, flags, named = read_noun(text)
    return Noun(word, gender, named.get("pl") or plural_of(word), frozenset(flags))


def adjective(text: str) -> Adjective:
    words, named = options(text)
    flags = {word for word in words[1:] if word in ("pre", "inv")}
    masculine, *others = [word for word in words if word not in flags]
    if "inv" in flags:
        return Adjective(masculine, masculine, masculine, masculine)
    feminine = others[0] if others else (masculine if masculine.endswith("e") else masculine + "e")
    return Adjective(
        masculine, feminine, plural_of(masculine), plural_of(feminine), "pre" in flags, named.get("vowel", "")
    )


def verb(text: str) -> Verb:
    """`text` is a regular infinitive in -er, or the infinitive, present I, he, we, you, they, and the participle."""
    infinitive, *given = text.split(" ")
    if given:
        *present, participle = given
        row = dict(zip(PRESENT, present, strict=True))
    else:
        stem, participle = infinitive[:-2], infinitive[:-2] + "é"
        soft = re.sub("g$", "ge", re.sub("c$", "ç", stem))
        row = {person: (soft if ending == "ons" else stem) + ending for person, ending in PRESENT.items()}
    forms = {"inf": infinitive, "part": participle, "imp": row["2"]}
    return Verb(forms | {f"pres {person}": word for person, word in row.items()})


def agree(word: Adjective, gender: str, plural: bool, following: str = "") -> str:
    """`following` is what comes next in the phrase: some adjectives have a form of their own before a vowel."""
    if plural:
        return word.feminine_plural if gender == "f" else word.masculine_plural
    if gender == "f":
        return word.feminine
    return word.vowel if word.vowel and VOWEL.match(following) else word.masculine


def noun_phrase(word: Noun, form: Form, extra: Adjective | None = None) -> str:
    phrase = word.plural if form.plural else word.word
    if "asp" in word.flags:
        phrase = MARK + phrase
    if extra is not None:
        agreed = agree(extra, word.gender, form.plural, phrase)
        phrase = f"{agreed} {phrase}" if extra.before else f"{phrase} {agreed}"
    if form.determiner == "bare":
        return phrase
    singulars = ARTICLES[form.determiner]
    chosen = singulars[2] if form.plural else singulars[word.gender == "f"]
    if form.determiner == "which" and form.plural and word.gender == "f":
        chosen = "quelles"
    if VOWEL.match(phrase):
        chosen = BEFORE_VOWEL.get(chosen, chosen)
    return f"{chosen} {phrase}"


def conjugate(word: Verb, form: Form, person: str) -> str:
    return word.forms[f"pres {person}" if form.verb == "pres" else form.verb]


def finish(text: str) -> str:
    """Elide and contract, unless the next word is marked as taking no elision, and space the marks."""
    text = tidy(text)
    text = ELISION.sub(lambda m: m[1] + "'", text)
    text = re.sub(r"\b([Ss])i (?=ils?\b)", r"\1'", text)
    for apart, together in CONTRACTIONS.items():
        text = re.sub(rf"\b{apart}(?= )", together, text)
        text = re.sub(rf"\b{apart.capitalize()}(?= )", together.capitalize(), text)
    text = text.replace(MARK, "")
    return re.sub(r"(?<=[^ ])([?!])$", r" \1", text)
