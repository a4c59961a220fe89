"""Fit the marks of clause ends to their tunes, as espeak-ng speaks them.

    python -m training.ear.tunes [--utterances 1500] [--scale 3 --margin 1]

Writes `models/whisper/prosody.json`, and prints how often the tune alone tells the mark, for voices of the training and
for others. Clauses come from the house voice's templates; each is spoken with every mark, so that its words tell
nothing. flite's voices, which do not change their tunes for marks, are among them.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.whisper import prosody
from models.whisper.prosody import FEATURES, MARKS, MarkModel
from training.corpus import Writer, held_out_keys, key_of, lexicon_words
from training.ear.speakers import HELD_OUT, TRAINED, espeak_words, speaker

OUT = Path(prosody.__file__).with_name("prosody.json")
TEMPLATES = (
    "{thing} {does} {thing}", "{thing} {goes} {adverb}", "{who} {modal} {do} {thing}", "{who} {goes} {where} {thing}",
    "there is {thing} {where} {thing}", "{aux} {whom} {do} {thing}", "{question} did {whom} {do} {thing}",
    "{number} {noun}s", "{thing}", "{phrase}", "{noun}", "{do} it",
)  # fmt: skip
LEVEL = ("flite:rms", "flite:slt", "flite:kal")
_DECAY = 1e-3
_STEPS = 3000
Array = npt.NDArray[np.float64]


def espeak(voices: Sequence[str]) -> list[str]:
    """Return those of the speakers whose tunes vary."""
    return [name for name in voices if name.startswith("espeak:") and "+croak" not in name]


def clauses(seed: int) -> Iterator[str]:
    """Yield clauses without marks."""
    writer, held_out = Writer(random.Random(seed), lexicon_words()), held_out_keys()
    rng = random.Random(seed)
    while True:
        clause = writer.fill(rng.choice(TEMPLATES)).rstrip(".?!")
        if key_of(clause) not in held_out and clause.replace(" ", "").replace("'", "").isalpha():
            yield clause


def examples(voices: Sequence[str], utterances: int, seed: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the features [N, F] of clause ends, and the numbers [N] of their marks.

    An utterance has two clauses with drawn marks. A place between two words of each has none: half of these
    get a drawn pause, as if the speaker hesitated.
    """
    rng, source = random.Random(seed), clauses(seed)
    features: list[Array] = []
    marks: list[int] = []
    for _ in range(utterances):
        first, second = next(source), next(source)
        one, other = rng.choice(MARKS[1:]), rng.choice(MARKS[2:])
        text = f"{first}{one} {second}{other}"
        audio, starts = espeak_words(rng.choice(voices)[len("espeak:") :], text, rng)
        heard = prosody.tune(audio.astype(np.float32) / np.float32(32768))
        words = [starts.get(at) for at in range(len(text)) if at == 0 or text[at - 1] == " "]
        joint = len(first.split())
        inner = [at for at in range(len(words) - 1) if at != joint - 1]
        wanted = [(joint - 1, one), (len(words) - 1, other)]
        if inner:
            wanted.append((rng.choice(inner), ""))
        for at, mark in wanted:
            start, word = words[0 if at < joint else joint], words[at]
            end = words[at + 1] if at + 1 < len(words) else None
            if start is None or word is None or (end is None and at + 1 < len(words)):
                continue
            found = prosody.clause_end(heard, start, word, end)
            if found is None:
                continue
            row = found.features.copy()
            if not mark and rng.random() < 0.5:
                row[FEATURES.index("pause")] = rng.uniform(0, 0.5)
            features.append(row)
            marks.append(MARKS.index(mark))
    return np.array(features), np.array(marks)


def level_examples(voices: Sequence[str], utterances: int, seed: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return as `examples` the ends of single clauses by voices that do not change their tunes for marks.

    They teach that a falling tune proves little: not everybody who asks rises.
    """
    rng, source = random.Random(seed), clauses(seed)
    features: list[Array] = []
    marks: list[int] = []
    for _ in range(utterances):
        mark = rng.choice(MARKS[2:])
        audio = speaker(rng.choice(voices))(f"{next(source)}{mark}", rng)
        heard = prosody.tune(audio.astype(np.float32) / np.float32(32768))
        found = prosody.clause_end(heard, 0.0, 0.0, None)
        if found is not None:
            features.append(found.features)
            marks.append(MARKS.index(mark))
    return np.array(features), np.array(marks)


def fit(features: Array, marks: npt.NDArray[np.int64]) -> MarkModel:
    """Return the multinomial logistic regression of marks [N] by features [N, F], each mark of the same weight."""
    low, high = np.percentile(features, [1, 99], axis=0)
    cut = np.clip(features, low, high)
    weights, bias = np.zeros((len(MARKS), 2 * len(FEATURES))), np.zeros(len(MARKS))
    model = MarkModel(low, high, cut.mean(axis=0), cut.std(axis=0), weights, bias, 1.0, 1.0)
    x, target = model.inputs(features), np.eye(len(MARKS))[marks]
    share = (1 / np.bincount(marks, minlength=len(MARKS)))[marks][:, None] / len(MARKS)
    for _ in range(_STEPS):
        wrong = (np.exp(model.logprobs(features)) - target) * share
        weights -= wrong.T @ x + _DECAY * weights
        bias -= wrong.sum(axis=0)
    return model


def confusion(model: MarkModel, features: Array, marks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how often each mark (rows) is taken for each (columns) by the tune alone."""
    found = np.zeros((len(MARKS), len(MARKS)), np.int64)
    np.add.at(found, (marks, model.logprobs(features).argmax(axis=1)), 1)
    return found


def save(model: MarkModel, path: Path) -> None:
    """Write the model with six digits."""
    values = {
        name: np.array([float(f"{one:.6g}") for one in np.ravel(value)]).reshape(np.shape(value)).tolist()
        for name, value in asdict(model).items()
    }
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    path.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Fit the model, and print the confusions of its tunes."""
    parser = argparse.ArgumentParser(description="Fit marks to tunes.")
    parser.add_argument("--utterances", type=int, default=1500)
    parser.add_argument("--scale", type=float, default=3.0, help="weight of the tune against the text")
    parser.add_argument("--margin", type=float, default=1.0, help="nats by which a mark must lead to replace another")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(argv)
    seen, unseen = espeak(TRAINED), espeak(HELD_OUT)
    parts = examples(seen, options.utterances, 1), level_examples(LEVEL, options.utterances, 4)
    joined = (np.concatenate(each) for each in zip(*parts, strict=True))
    model = replace(fit(*joined), scale=options.scale, margin=options.margin)
    save(model, options.out)
    tests = {
        "seen voices": examples(seen, options.utterances // 4, 2),
        "other voices": examples(unseen, options.utterances // 4, 3),
        "level voices": level_examples(LEVEL, options.utterances // 4, 5),
    }
    for name, (features, marks) in tests.items():
        table = confusion(model, features, marks)
        print(f"{name}: {np.trace(table) / table.sum():.1%} of {table.sum()} right")
        for mark, row in zip(MARKS, table, strict=True):
            print(f"  {mark or 'none':>4} {row.tolist()} {row[MARKS.index(mark)] / max(1, row.sum()):.1%}")


if __name__ == "__main__":
    main()
