"""Texts to speak and to recognize, and the tokenizer of the recognizer.

    python -m training.ear.texts build/ear [--docs FILE ...]

Writes `texts.txt`, one text a line, and `tokenizer.json`, a byte-level BPE of TOKENS tokens that is trained on them.
The held-out sentences of the house voice are in neither.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from training.corpus import Writer, distinct, doc_sentences, held_out_keys, key_of, lexicon_words
from training.ear.figures import FigureWriter
from training.ear.vocabulary import FlatWriter, counted, ranked
from training.phrasebook.grammar import sentences

TOKENS = 512
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
MOST_CHARACTERS = 180  # about 14 s of speech
KINDS = {
    "flat": 75_000, "template": 8000, "short": 6000, "words": 0, "long": 1500, "docs": 30_000, "phrases": 10_000,
    "figures": 15_000,
}  # fmt: skip
CHARACTERS_A_SECOND = 12.9  # of 75,000 utterances of 70 hours
FIRST_HOURS = 90.0  # of speech, of which main() tells how often it has each word
_PAUSES = re.compile(r"\s*[;:—…]+\s*")
_FOREIGN = re.compile(r"[^A-Za-z .,?!']")


def target(text: str) -> str | None:
    """Return what the recognizer is to write for a text: words, and . , ? ! ' alone; None where other signs are left.

    Semicolons, colons, dashes and ellipses are pauses, and become commas.
    """
    text = re.sub(r"\s+", " ", _PAUSES.sub(", ", text)).strip()
    text = re.sub(r",+(?=[ .,?!])", ",", text).rstrip(" ,")
    text = re.sub(r",\s*([.?!])", r"\1", text)
    return text if text and not _FOREIGN.search(text) and len(text) <= MOST_CHARACTERS else None


def texts(counts: dict[str, int], seed: int, documents: Iterable[str] = ()) -> list[str]:
    """Return shuffled texts, `counts` of each kind at most, without the held-out sentences."""
    rng = random.Random(seed)
    writer = Writer(rng, lexicon_words())
    held_out = held_out_keys()
    taken = set(held_out)
    docs: dict[str, None] = {}
    for document in documents:
        docs.update((text, None) for text in doc_sentences(document) if key_of(text) not in held_out)
    chosen = sorted(docs)
    rng.shuffle(chosen)
    made = [
        *chosen[: counts.get("docs", 0)],
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
    found = [text for text in map(target, made) if text is not None]
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


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text, which begins with a space as Whisper's do."""
    found: list[int] = tokenizer.encode(f" {text}", add_special_tokens=False).ids
    return found


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


def _documents(paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        yield path.read_text(encoding="utf-8", errors="ignore")


def main(argv: Sequence[str] | None = None) -> None:
    """Write the texts and the tokenizer that the arguments ask for."""
    parser = argparse.ArgumentParser(description="Write the texts and the tokenizer of the ear.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", type=Path, nargs="*", default=[], help="documentation files to take sentences from")
    parser.add_argument("--tokenizer", type=Path, help="keep this one: a run that begins with weights needs theirs")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of texts")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args(argv)
    counts = {kind: round(count * options.share) for kind, count in KINDS.items()}
    lines = texts(counts, options.seed, _documents(options.docs))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "texts.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(options.tokenizer)) if options.tokenizer else train_tokenizer(lines)
    tokenizer.save(str(options.out / "tokenizer.json"))
    tokens = sum(len(encode(tokenizer, line)) for line in lines[:2000]) / len(lines[:2000])
    print(coverage(lines))
    print(f"{len(lines)} texts, {tokens:.1f} tokens each -> {options.out}")


if __name__ == "__main__":
    main()
