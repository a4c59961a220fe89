"""Texts to train on and their phonemes: templates, word lists, phrases and, if given, sentences of prose.

    python -m training.corpus --out build/house/corpus.tsv [--prose LANGUAGE=FOLDER ...]

Writes one line an utterance: language, text, phonemes, separated by tabs. The phonemes come from the product's own
grapheme-to-phoneme conversion, so that the voice is trained on the very strings it will be asked to say.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from training import words
from training.prose import sentences
from training.voices import READERS

HELD_OUT = Path(__file__).parent / "eval_sentences.txt"
VERIFIED = HELD_OUT.with_name("verify_sentences.txt")
MAX_PHONEMES = 505
MAX_TEXT = 115
MARKED = 10  # one of so many texts comes again as a question, in quotation marks or the like
KINDS = {"template": 4000, "short": 2500, "words": 1200, "long": 900}

TEMPLATES = """
{thing} {does} {thing}.
{thing} {goes} {where} {thing}.
{thing} {goes} {adverb}.
{thing} is {adjective} and {adjective}.
{who} {modal} {do} {thing} {where} {thing}.
{aux} {whom} {do} {thing}?
{question} did {whom} {do} {thing}?
{thing}, {thing}, and {thing} {goes} {adverb}.
{conjunction} {thing} {goes}, {thing} {does} {thing}.
{do} {thing} {where} {thing}.
please {do} {thing}.
please {do} {thing} {adverb}.
there was {thing} {where} {thing}.
there is {thing} {where} {thing}.
{number} {adjective} {noun}s {where} {thing}.
on {day}, {who} will {do} {thing}.
it is {adjective} to {do} {thing}.
{thing} of {thing} was {adjective}.
{adjective} {noun}s are {adjective}.
what is {thing}?
{who} {does} {thing}; {thing} {goes} {adverb}.
{who} said that {thing} {goes} {where} {thing}.
how {adjective} {thing} is!
{thing} {does} {thing} {where} {thing}, and {thing} {goes}.
{word}, {word}, {word}, {number}.
{number} {number}, {number} {number}.
{opener}, {who} {modal} {do} {thing}.
{who} {goes} {where} {thing}, but {who} {goes}.
{who} {goes} {where} {thing}, so {who} {goes} {adverb}.
are you going to {do} {thing} {where} {thing}?
I would like to {do} {thing}, please.
could you {do} {thing} {adverb}?
{who} {does} {number} {noun}s every {day}.
the {adjective} {noun} and the {adjective} {noun} {goes} {adverb}.
{thing} {goes} — {thing} {does} {thing}.
{opener} — {who} {modal} {do} {thing}.
{opener}… {who} {does} {thing}.
{thing} {goes}… and {thing} {does} {thing}.
{who} {does} {number} things: {thing}, {thing}, and {thing}.
{day}: {thing} {does} {thing}.
do {whom} {do} {thing} or {thing}?
{who} {does} {thing}, {aux} {whom}?
{opener}! {phrase}.
""".strip().splitlines()

SHORT_TEMPLATES = """
{phrase}
{phrase}
{phrase}
{noun}
{word}
{word}
{number}
{day}
{thing}
{adjective} {noun}
{do} it
{adverb}
{phrase}, {phrase}
{number} {noun}s
""".strip().splitlines()

# A long utterance is one sentence of several such parts: the product sends up to 510 phonemes at once.
CLAUSES = """
{thing} {does} {thing}
{thing} {goes} {where} {thing}
{who} {modal} {do} {thing} {adverb}
{who} {does} {thing} {where} {thing}
it is {adjective} to {do} {thing}
there is {thing} {where} {thing}
{conjunction} {thing} {goes} {adverb}
the {adjective} {noun} and {thing} {goes} {where} {thing}
{number} {adjective} {noun}s {where} {thing}
""".strip().splitlines()

JOINTS = (", ", ", ", ", and ", ", but ", " and ", "; ", ": ", " — ")

SHORT_ENDINGS = (".", ".", ".", "!", "?", "", ",")

Phonemize = Callable[[str], "str | None"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the corpus, and the language that it is in ("en-us", "pt-br")."""

    language: str
    text: str
    phonemes: str


def key_of(text: str) -> str:
    """The letters of `text` alone: two texts with one key are the same sentence."""
    return re.sub(r"[^a-z]", "", text.lower())


def lexicon_words(pattern: str = "[a-z]{3,12}") -> list[str]:
    """Words of misaki's American lexicon that match a pattern, sorted; without one, plain words of 3 to 12 letters."""
    lexicon = json.loads(files("misaki").joinpath("data/us_gold.json").read_text(encoding="utf-8"))
    return sorted(word for word in lexicon if re.fullmatch(pattern, word))


class Writer:
    """Fills templates from one random stream; equal seeds give equal texts."""

    def __init__(self, rng: random.Random, vocabulary: Sequence[str]) -> None:
        self._rng = rng
        self._vocabulary = vocabulary
        self._lists: dict[str, Sequence[str]] = {
            "does": words.TRANSITIVE, "goes": words.INTRANSITIVE, "do": words.BASE_VERBS, "adverb": words.ADVERBS,
            "where": words.PREPOSITIONS, "who": words.PRONOUNS, "whom": words.PRONOUNS[1:], "modal": words.MODALS,
            "aux": words.AUXILIARIES, "question": words.QUESTIONS, "conjunction": words.CONJUNCTIONS,
            "day": words.DAYS, "number": words.NUMBERS, "opener": words.OPENERS, "phrase": words.PHRASES,
            "word": vocabulary,
        }  # fmt: skip

    def _slot(self, name: str) -> str:
        choose, chance = self._rng.choice, self._rng.random
        if name == "noun":
            return choose(words.NOUNS) if chance() < 0.7 else choose(self._vocabulary)
        if name == "adjective":
            return choose(words.ADJECTIVES) if chance() < 0.8 else choose(self._vocabulary)
        if name == "thing":
            article = choose(["the", "a", "the", choose(words.POSSESSIVES), "this", "that", "every"])
            middle = f"{self._slot('adjective')} " if chance() < 1 / 3 else ""
            return f"{article} {middle}{self._slot('noun')}"
        return choose(self._lists[name])

    def fill(self, template: str) -> str:
        """One text from `template`; raises KeyError for a slot that does not exist."""
        text = re.sub(r"\{(\w+)\}", lambda slot: self._slot(slot[1]), template)
        text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
        return text[:1].upper() + text[1:]

    def sentence(self) -> str:
        return self.fill(self._rng.choice(TEMPLATES))

    def short(self) -> str:
        text = self.fill(self._rng.choice(SHORT_TEMPLATES))
        if self._rng.random() < 0.3:
            text = text[:1].lower() + text[1:]
        return text + self._rng.choice(SHORT_ENDINGS)

    def long(self) -> str:
        text = self.fill(self._rng.choice(CLAUSES))
        for _ in range(self._rng.randint(3, 11)):
            clause = self.fill(self._rng.choice(CLAUSES))
            if not clause.startswith("I "):
                clause = clause[:1].lower() + clause[1:]
            text += self._rng.choice(JOINTS) + clause
        return text + self._rng.choice("...?!")

    def word_row(self) -> str:
        count = self._rng.randint(2, 6)
        return " ".join(self._rng.choice(self._vocabulary) for _ in range(count)).capitalize() + "."


_SENTENCE = re.compile(r"(?<![\w,;:'-])([A-Z][a-z']*(?:[ ,;:]+[A-Za-z][A-Za-z']*){1,21}[.?!])(?=\s|$)")


def doc_sentences(text: str) -> Iterator[str]:
    """Plain English sentences found in documentation or source comments: no names, acronyms, digits or symbols."""
    text = re.sub(r"^[ \t#*;/\"]+", "", text, flags=re.MULTILINE)
    text = re.sub(r"\s*\n(?!\s*\n)\s*", " ", text)
    for found in _SENTENCE.finditer(text):
        sentence = re.sub(r" ([,;:.])", r"\1", re.sub(r"\s+", " ", found[1]))
        tokens = re.findall(r"[A-Za-z']+", sentence)
        plain = all(token == token.lower() or token in {"I", "I'm", "I'll", "I've"} for token in tokens[1:])
        letters = any(len(token) == 1 and token not in {"a", "A", "I"} for token in tokens)
        if 2 <= len(tokens) <= 20 and len(sentence) <= MAX_TEXT and plain and not letters:
            yield sentence


def distinct(make: Callable[[], str], count: int, taken: set[str], *, exact: bool = False) -> list[str]:
    """`count` texts from `make`, none whose key is in `taken`, no two alike; fewer if `make` runs dry.

    With `exact`, texts that differ in punctuation alone are different; otherwise keys are compared, and are added
    to `taken`.
    """
    texts: dict[str, None] = {}
    for _ in range(count * 20):
        if len(texts) == count:
            break
        text = make()
        key = key_of(text)
        if key in taken or text in texts:
            continue
        if not exact:
            taken.add(key)
        texts[text] = None
    return list(texts)


def phoneme_line(language: str, text: str, phonemize: Phonemize, symbols: frozenset[str]) -> Line | None:
    """`text` with its phonemes, or None where they hold a symbol that the network does not know, or are too long."""
    phonemes = phonemize(text)
    if not phonemes or len(phonemes) > MAX_PHONEMES or not set(phonemes) <= symbols:
        return None
    return Line(language, text, phonemes)


def held_out_keys(paths: Sequence[Path] = (HELD_OUT, VERIFIED)) -> set[str]:
    """Keys of the sentences that models are judged on, which must never be trained on."""
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    return {key_of(line) for line in lines if line.strip()}


def generated(rng: random.Random, counts: dict[str, int], vocabulary: Sequence[str], held_out: set[str]) -> list[str]:
    """English texts of our own: `counts` of each kind, without the held-out sentences."""
    writer = Writer(rng, vocabulary)
    taken = set(held_out)
    return [
        *distinct(writer.sentence, counts.get("template", 0), taken),
        *distinct(writer.short, counts.get("short", 0), held_out, exact=True),
        *distinct(writer.word_row, counts.get("words", 0), taken),
        *distinct(writer.long, counts.get("long", 0), taken),
    ]


def product_phonemizer(language: str = "en-us") -> Phonemize:
    """The product's conversion for a language; None for a text that it cuts into several utterances."""
    from app.text.planner import get_phonemizer
    from app.text.types import PhonemizedSentence

    phonemizer = get_phonemizer(language)

    def phonemize(text: str) -> str | None:
        spoken = [part.phonemes for part in phonemizer.segments(text) if isinstance(part, PhonemizedSentence)]
        return spoken[0] if len(spoken) == 1 else None

    return phonemize


def phrases(language: str, rng: random.Random, rounds: int = 8) -> list[str]:
    """Short things that people say in a language ("en", "es"), those with numbers with others in each round."""
    with (Path(__file__).parent / "phrases.toml").open("rb") as file:
        lines = tomllib.load(file)[language]
    made = dict.fromkeys(lines)
    for _ in range(rounds):
        for line in lines:
            text = re.sub(r"\{n\}", lambda _: str(rng.randrange(100)), line)
            made[re.sub(r"\{N\}", lambda _: str(rng.randrange(10_000)), text)] = None
    return [text for text in made if "{" not in text]


def lines_of(language: str, texts: Sequence[str], symbols: frozenset[str]) -> list[Line]:
    """The texts of a language with their phonemes, without those that the network cannot speak."""
    phonemize = product_phonemizer(language)
    return [line for text in texts if (line := phoneme_line(language, text, phonemize, symbols)) is not None]


def marked(text: str, rng: random.Random) -> str:
    """`text` as a question or exclamation, or in quotation marks or brackets, whole or from one word to another."""
    if text.endswith(".") and rng.random() < 0.5:
        return text.rstrip(".") + rng.choice("??!")
    words_of_text = text.split(" ")
    first = rng.randrange(len(words_of_text)) if rng.random() < 0.5 else 0
    last = rng.randrange(first, len(words_of_text)) if first else len(words_of_text) - 1
    opening, closing = rng.choice(['""', "“”", "“”", "()", "«»"])
    words_of_text[first] = opening + words_of_text[first]
    words_of_text[last] += closing
    return " ".join(words_of_text)


def all_lines(options: argparse.Namespace, symbols: frozenset[str]) -> list[Line]:
    """The lines of all languages, shuffled."""
    rng, held_out = random.Random(options.seed), held_out_keys()
    texts: dict[str, list[str]] = defaultdict(list)
    for each in options.prose:
        language, _, folder = each.partition("=")
        chosen = [text for text in sentences(Path(folder), language) if key_of(text) not in held_out]
        texts[language].extend(rng.sample(chosen, min(len(chosen), options.prose_count)))
    counts = {kind: getattr(options, f"{kind}_count") for kind in KINDS}
    texts["en"].extend(generated(rng, counts, lexicon_words(), held_out))
    made = []
    for language in READERS:
        group = list(dict.fromkeys(texts[language[:2]] + phrases(language[:2], rng)))
        group.extend(marked(text, rng) for text in rng.sample(group, len(group) // MARKED))
        rng.shuffle(group)
        # Half of the English sentences are read by the British voices too.
        made.extend(lines_of(language, group[: len(group) // 2] if language == "en-gb" else group, symbols))
    rng.shuffle(made)
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Write the corpus that the arguments ask for."""
    parser = argparse.ArgumentParser(description="Write the training texts and their phonemes.")
    parser.add_argument("--out", type=Path, default=Path("build/house/corpus.tsv"))
    parser.add_argument("--config", type=Path, default=Path("models/house/config.json"), help="for the vocabulary")
    parser.add_argument("--prose", nargs="*", default=[], help="LANGUAGE=FOLDER: files to take sentences from")
    parser.add_argument("--prose-count", type=int, default=4000, help="most sentences of a folder")
    parser.add_argument("--seed", type=int, default=7)
    for kind, count in KINDS.items():
        parser.add_argument(f"--{kind}-count", type=int, default=count, help=f"most texts of this kind ({count})")
    options = parser.parse_args(argv)
    symbols = frozenset(json.loads(options.config.read_text(encoding="utf-8"))["vocab"])
    lines = all_lines(options, symbols)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("".join(f"{x.language}\t{x.text}\t{x.phonemes}\n" for x in lines), encoding="utf-8")
    print(f"{len(lines)} lines {dict(Counter(line.language for line in lines))} -> {options.out}")


if __name__ == "__main__":
    main()
