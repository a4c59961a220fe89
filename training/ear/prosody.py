"""Measure what the tune of the speech adds to the marks that the ear writes.

    python -m training.ear.prosody --model build/ear/model --texts build/ear/texts.txt [--clauses 300] [--beams 1]
    python -m training.ear.prosody --model build/ear/model --texts build/ear/texts.txt --tune

Voices and texts were in no training. "told by the text": statements, yes/no questions, wh-questions, exclamations and
commas whose words tell the mark. "told by the tune": declarative clauses with each mark. "level tune": the first again,
by a voice of flite, which speaks all marks alike. The same search hears each utterance without and with the tune.
Prints the page `training/ear/results/prosody.md`. `--tune` tries weights and margins on the voices of the training.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.contract import RecognitionRequest
from models.timeline import Timeline
from models.whisper.pipeline import WhisperRecognizer
from models.whisper.prosody import MARKS, MarkModel
from training.corpus import Writer, held_out_keys, key_of, lexicon_words
from training.ear.evaluate import Audio, load_ear
from training.ear.speakers import HELD_OUT, TRAINED, speaker, trimmed
from training.ear.tunes import espeak

TOLD_BY_TEXT = {
    "statement": ("{thing} {does} {thing}.", "{thing} {goes} {where} {thing}.", "there is {thing} {where} {thing}."),
    "yes/no question": ("{aux} {whom} {do} {thing}?", "are you going to {do} {thing}?", "could you {do} {thing}?"),
    "wh-question": ("{question} did {whom} {do} {thing}?", "what is {thing}?"),
    "exclamation": ("how {adjective} {thing} is!",),
    "comma": ("{opener}, {who} {modal} {do} {thing}.", "{who} {goes} {where} {thing}, but {who} {goes}."),
}
DECLARATIVE = ("{who} {modal} {do} {thing}", "{who} {goes} {where} {thing}", "{thing} {does} {thing}")
TOLD_BY_TUNE = {
    name: tuple(f"{clause}{mark}" for clause in DECLARATIVE)
    for name, mark in (("statement", "."), ("declarative question", "?"), ("emphasis", "!"))
}
GROUPS = {"told by the text": TOLD_BY_TEXT, "told by the tune": TOLD_BY_TUNE, "level tune": TOLD_BY_TEXT}
LEVEL = {True: ("flite:awb",), False: ("flite:rms", "flite:slt")}
SCALES, MARGINS = (0.5, 1.0, 2.0, 3.0, 4.0), (0.0, 1.0, 3.0)
RESAMPLES = 1000
_WORD = re.compile(r"([\w']+)([.,?!]?)")
Counts = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """Utterance of a kind of clause, its text and its sound."""

    kind: str
    text: str
    audio: Audio


@dataclass(frozen=True, slots=True)
class Heard:
    """Marks of one utterance: `counts` [5, 5] of the true mark (rows) and the one that was heard, and the words."""

    kind: str
    counts: Counts
    words: tuple[str, ...]


def cases(group: str, clauses: int, seed: int, taken: set[str], *, held_out: bool) -> Iterator[Case]:
    """Yield `clauses` utterances of each kind of a group, all of other texts than `taken`, which grows.

    Args:
        group: One of GROUPS.
        clauses: Of each kind.
        seed: Draws texts, voices, rates and pitches.
        taken: Keys of texts that may not be used.
        held_out: By voices that no training heard.
    """
    writer, rng = Writer(random.Random(seed), lexicon_words()), random.Random(seed)
    voices = LEVEL[held_out] if group == "level tune" else espeak(HELD_OUT if held_out else TRAINED)
    for kind, templates in GROUPS[group].items():
        made = 0
        while made < clauses:
            text = writer.fill(rng.choice(templates))
            if key_of(text) in taken:
                continue
            taken.add(key_of(text))
            audio = trimmed(speaker(rng.choice(voices))(text, rng))
            made += 1
            yield Case(kind, text, (audio / np.float32(32768)).astype(np.float32))


def marked(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text, lower case, and the mark behind each."""
    found = _WORD.findall(text.lower())
    return [word for word, _ in found], [mark for _, mark in found]


def compare(said: str, heard: str) -> Counts:
    """Return how often each true mark [5] was heard as each [5], behind words that are aligned with each other."""
    words, marks = marked(said)
    others, found = marked(heard)
    counts = np.zeros((len(MARKS), len(MARKS)), np.int64)
    partner: dict[int, int] = {}
    for _, a, b, c, d in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        partner.update(zip(range(b - 1, a - 1, -1), range(d - 1, c - 1, -1), strict=False))
    for at, mark in enumerate(marks):
        got = found[partner[at]] if at in partner else ""
        if mark or got:
            counts[MARKS.index(mark), MARKS.index(got)] += 1
    for at in set(range(len(others))) - set(partner.values()):
        if found[at]:
            counts[0, MARKS.index(found[at])] += 1
    return counts


def hear(recognizer: WhisperRecognizer, case: Case, beams: int, *, prosody: bool) -> Heard:
    """Return the marks and words of an utterance."""
    request = RecognitionRequest(case.audio, "en", temperature=0.0, beams=beams, prosody=prosody)
    segments = recognizer.recognize(request, Timeline(), lambda: False)
    text = "".join(one.text for one in segments if one is not None)
    return Heard(case.kind, compare(case.text, text), tuple(marked(text)[0]))


def scores(counts: Counts) -> Array:
    """Return F1 of , . ? ! and their mean, by counts [..., 5, 5]: [..., 5]; NaN where a mark is not said."""
    right = np.diagonal(counts, axis1=-2, axis2=-1)[..., 1:]
    said, heard = counts.sum(-1)[..., 1:], counts.sum(-2)[..., 1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(said > 0, 2 * right / (said + heard), np.nan)
    found: Array = np.concatenate([each, np.nanmean(each, axis=-1, keepdims=True)], axis=-1)
    return found


def intervals(plain: Sequence[Heard], tuned: Sequence[Heard], seed: int = 1) -> Array:
    """Return the 2.5th and 97.5th percentile [2, 3, 5] of the scores without, with, and of their difference.

    Utterances are drawn with replacement, the same for both.
    """
    rng = np.random.default_rng(seed)
    tables = [np.stack([one.counts for one in each]) for each in (plain, tuned)]
    drawn = []
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(plain), len(plain))
        without, added = (scores(table[rows].sum(0)) for table in tables)
        drawn.append([without, added, added - without])
    found: Array = np.percentile(np.array(drawn), [2.5, 97.5], axis=0)
    return found


def rows_of(group: str, plain: Sequence[Heard], tuned: Sequence[Heard]) -> Iterator[str]:
    """Yield the lines of the table for one group."""
    totals = [np.sum([one.counts for one in each], axis=0) for each in (plain, tuned)]
    without, added = (scores(total) for total in totals)
    bounds = intervals(plain, tuned)
    for at, name in enumerate([*MARKS[1:], "mean"]):
        if np.isnan(without[at]):
            continue
        clauses = str(totals[0].sum(1)[at + 1]) if at < len(MARKS) - 1 else ""
        values = (without[at], added[at], added[at] - without[at])
        cells = [
            f"{value:{'+' if part == 2 else ''}.3f} ({bounds[0, part, at]:.3f} to {bounds[1, part, at]:.3f})"
            for part, value in enumerate(values)
        ]
        label = name if name == "mean" else f"`{name}`"
        yield f"| {group} | {label} | {clauses} | {' | '.join(cells)} |"


def kinds_of(group: str, plain: Sequence[Heard], tuned: Sequence[Heard]) -> Iterator[str]:
    """Yield how many true marks of each kind were heard without and with the tune."""
    for kind in dict.fromkeys(one.kind for one in plain):
        cells = []
        for each in (plain, tuned):
            total = np.sum([one.counts for one in each if one.kind == kind], axis=0)
            cells.append(f"{np.trace(total[1:, 1:])} of {total[1:].sum()}")
        yield f"| {group} | {kind} | {cells[0]} | {cells[1]} |"


@dataclass(frozen=True, slots=True)
class Recorder(MarkModel):
    """Model that changes no mark, and keeps what it is asked."""

    asked: list[tuple[str, Array, Array]] = field(default_factory=list)

    def choose(self, mark: str, text: Array, features: Array) -> str:
        """Return the mark that is there."""
        self.asked.append((mark, text, features))
        return mark


def tuned_weights(recognizer: WhisperRecognizer, clauses: int, taken: set[str], beams: int) -> None:
    """Print the mean F1 of each group for every scale and margin, on voices of the training."""
    model = recognizer.marks
    settings = [replace(model, scale=scale, margin=margin) for scale, margin in product((0.0, *SCALES), MARGINS)]
    totals = np.zeros((len(settings), len(GROUPS), len(MARKS), len(MARKS)), np.int64)
    for number, group in enumerate(GROUPS):
        for case in cases(group, clauses, 7, taken, held_out=False):
            recorder = Recorder(**{one.name: getattr(model, one.name) for one in fields(MarkModel)})
            recognizer.marks = recorder
            # Settings that choose the same marks have the same text.
            counts = hear(recognizer, case, beams, prosody=True).counts
            known = {tuple(mark for mark, _, _ in recorder.asked): counts}
            for at, setting in enumerate(settings):
                chosen = tuple(setting.choose(*asked) for asked in recorder.asked)
                if chosen not in known:
                    recognizer.marks = setting
                    known[chosen] = hear(recognizer, case, beams, prosody=True).counts
                totals[at, number] += known[chosen]
    print("| scale | margin | " + " | ".join(GROUPS) + " | mean |\n" + "| ---: " * (len(GROUPS) + 3) + "|")
    for setting, total in zip(settings, totals, strict=True):
        found = scores(total)[:, -1]
        cells = " | ".join(f"{value:.3f}" for value in [*found, found.mean()])
        print(f"| {setting.scale:g} | {setting.margin:g} | {cells} |")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, or tune, as the arguments ask."""
    parser = argparse.ArgumentParser(description="Measure marks with and without the tune.")
    parser.add_argument("--model", type=Path, default=Path("build/ear/model"))
    parser.add_argument("--texts", type=Path, required=True, help="texts of the training, which are not used")
    parser.add_argument("--clauses", type=int, default=300, help="of each kind")
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--groups", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--tune", action="store_true", help="try weights on voices of the training")
    options = parser.parse_args(argv)
    recognizer = load_ear(options.model)
    if not isinstance(recognizer, WhisperRecognizer):
        raise TypeError(f"{options.model} is no Whisper")
    taken = held_out_keys() | {key_of(line) for line in options.texts.read_text(encoding="utf-8").splitlines()}
    if options.tune:
        tuned_weights(recognizer, options.clauses, taken, options.beams)
        return
    table: list[str] = []
    kinds: list[str] = []
    changed = same = 0
    spent = {False: 0.0, True: 0.0}
    for group in options.groups:
        found: dict[bool, list[Heard]] = {False: [], True: []}
        for case in cases(group, options.clauses, 8, taken, held_out=True):
            for prosody in (False, True):
                started = time.perf_counter()
                found[prosody].append(hear(recognizer, case, options.beams, prosody=prosody))
                spent[prosody] += time.perf_counter() - started
        table += rows_of(group, found[False], found[True])
        kinds += kinds_of(group, found[False], found[True])
        pairs = list(zip(found[False], found[True], strict=True))
        changed += sum((one.counts != other.counts).any() for one, other in pairs)
        same += sum(one.words == other.words for one, other in pairs)
        print(table[-1], flush=True)
    total = sum(len(GROUPS[group]) for group in options.groups) * options.clauses
    print(
        "| group | mark | clauses | F1 without | F1 with | difference |\n| --- | --- | ---: | --- | --- | --- |\n"
        + "\n".join(table)
        + "\n\n| group | kind | right without | right with |\n| --- | --- | ---: | ---: |\n"
        + "\n".join(kinds)
        + f"\n\nMarks of {changed} of {total} utterances changed; the words of {same} are the same. "
        f"{spent[False]:.0f} s without, {spent[True]:.0f} s with the tune.\nScale {recognizer.marks.scale:g}, "
        f"margin {recognizer.marks.margin:g}, {options.beams} hypotheses, bootstrap of {RESAMPLES} draws, 95 %."
    )


if __name__ == "__main__":
    main()
