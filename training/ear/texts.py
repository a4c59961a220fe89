"""Texts to speak and to recognize, their phonemes, and the tokenizer of the recognizer.

    python -m training.ear.texts build/ear [--prose PATH[=MOST] ...] [--tokenizer models/ear/tokenizer.json]
        [--without FILE]

Writes `texts.txt`, one text a line, `lines.tsv.gz`, the same with phonemes, and `tokenizer.json`, a byte-level BPE of
TOKENS tokens that is trained on them. The held-out sentences of the house voice are in none of them: they are in
`held_out.tsv.gz`. Nor has any text RUN words in a row of a line of FILE, such as the transcripts by which it is judged.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from app.text.planner import get_phonemizer
from app.text.types import PhonemizedSentence
from training.corpus import HELD_OUT, MAX_PHONEMES, Writer, distinct, held_out_keys, key_of, lexicon_words
from training.ear.figures import FigureWriter
from training.ear.lines import TOKENS, Line, encode, target, write_lines
from training.ear.prose import all_prose
from training.ear.vocabulary import FlatWriter, counted, ranked
from training.measure import words_of
from training.phrasebook.grammar import sentences

SPECIAL = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)
KINDS = {
    "flat": 16_000, "template": 5000, "short": 5000, "words": 0, "long": 1000, "prose": 140_000, "phrases": 10_000,
    "figures": 12_000,
}  # fmt: skip
BRITISH = 0.5  # share of the texts that British voices say in their own way
CHARACTERS_A_SECOND = 12.9  # of 75,000 utterances of 70 hours
RUN = 5  # words
FIRST_HOURS = 90.0  # of speech, of which main() tells how often it has each word


def runs(text: str) -> set[tuple[str, ...]]:
    """Return all RUN words in a row of a text."""
    words = words_of(text)
    return {tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


def texts(counts: dict[str, int], seed: int, prose: Iterable[str] = (), without: Iterable[str] = ()) -> list[str]:
    """Return shuffled texts, `counts` of each kind at most, without the held-out sentences; `prose` has sentences.

    None has RUN words in a row of a text in `without`.
    """
    rng = random.Random(seed)
    writer = Writer(rng, lexicon_words())
    held_out = held_out_keys()
    taken = set(held_out)
    chosen = sorted({text for text in prose if key_of(text) not in held_out})
    rng.shuffle(chosen)
    made = [
        *chosen[: counts.get("prose", 0)],
        *distinct(writer.sentence, counts.get("template", 0), taken),
        *distinct(writer.short, counts.get("short", 0), held_out, exact=True),
        *distinct(writer.word_row, counts.get("words", 0), taken),
        *distinct(writer.long, counts.get("long", 0), taken),
        *distinct(phrases(seed), counts.get("phrases", 0), taken),
        *distinct(FigureWriter(rng).sentence, counts.get("figures", 0), held_out, exact=True),
    ]
    if counts.get("flat"):
        flat = FlatWriter(rng, lambda text: key_of(text) in held_out)
        made.extend(flat.flat() for _ in range(counts["flat"]))
    judged = set[tuple[str, ...]]().union(*map(runs, without))
    found = [text for text in map(target, made) if text is not None and judged.isdisjoint(runs(text))]
    rng.shuffle(found)
    return found


def phrases(seed: int, *, held_out: bool = False) -> Callable[[], str]:
    """Return a function that returns English sentences of the phrase book, one after the other."""
    drawn = sentences(seed, held_out=held_out)
    return lambda: next(drawn).texts["en"]


def train_tokenizer(lines: Iterable[str], size: int = TOKENS) -> Tokenizer:
    """Return a byte-level BPE as Whisper's, of `size` tokens and the special ones behind them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[]
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return tokenizer


def read_texts(path: Path) -> list[str]:
    """Return the texts of a file, one a line."""
    return path.read_text(encoding="utf-8").splitlines()


def coverage(lines: Sequence[str]) -> str:
    """Return words of the texts, and the shares of the vocabulary that the first FIRST_HOURS say fewer than 5 times."""
    left, first = FIRST_HOURS * 3600 * CHARACTERS_A_SECOND, 0
    while first < len(lines) and left > 0:
        left -= len(lines[first])
        first += 1
    said = counted(lines[:first])
    shares = [
        f"{sum(said[word] < 5 for word in group) / len(group):.1%} of {len(group)} {name}"
        for name, group in zip(("common words", "inflections", "other words"), ranked(), strict=True)
    ]
    total = f"{said.total()} words, {len(said)} different, in the first {first} texts (about {FIRST_HOURS:.0f} h)"
    return f"{total}; fewer than 5 times: {', '.join(shares)}"


def spoken_lines(texts: Iterable[str], seed: int, british: float = BRITISH) -> list[Line]:
    """Return the texts with the phonemes of one utterance, a share of them with British ones, too."""
    rng = random.Random(seed)
    found = []
    for text in texts:
        wanted = ("en-us", "en-gb") if rng.random() < british else ("en-us",)
        said = [phonemes_of(text, accent) for accent in wanted]
        if all(said):
            found.append(Line(text, *said))
    return found


def phonemes_of(text: str, accent: str) -> str:
    """Return the product's phonemes of a text that it says in one utterance, and "" for another."""
    said = [part.phonemes for part in get_phonemizer(accent).segments(text) if isinstance(part, PhonemizedSentence)]
    return said[0] if len(said) == 1 and len(said[0]) <= MAX_PHONEMES else ""


def main(argv: Sequence[str] | None = None) -> None:
    """Write the texts and the tokenizer that the arguments ask for."""
    parser = argparse.ArgumentParser(description="Write the texts and the tokenizer of the ear.")
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--prose", nargs="*", default=[], help="PATH or PATH=MOST: a file or folder, MOST sentences of it"
    )
    parser.add_argument("--tokenizer", type=Path, help="keep this one: a run that begins with weights needs theirs")
    parser.add_argument("--without", type=Path, help="lines of which no text may have RUN words in a row")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of texts")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args(argv)
    counts = {kind: round(count * options.share) for kind, count in KINDS.items()}
    judged = read_texts(options.without) if options.without else []
    lines = texts(counts, options.seed, all_prose(options.prose, options.seed), judged)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "texts.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    write_lines(options.out / "lines.tsv.gz", spoken_lines(lines, options.seed))
    held_out = [text for line in read_texts(HELD_OUT) if (text := target(line))]
    write_lines(options.out / "held_out.tsv.gz", spoken_lines(held_out, options.seed, british=1.0))
    tokenizer = Tokenizer.from_file(str(options.tokenizer)) if options.tokenizer else train_tokenizer(lines)
    tokenizer.save(str(options.out / "tokenizer.json"))
    tokens = sum(len(encode(tokenizer, line)) for line in lines[:2000]) / len(lines[:2000])
    print(coverage(lines))
    print(f"{len(lines)} texts, {tokens:.1f} tokens each -> {options.out}")


if __name__ == "__main__":
    main()
