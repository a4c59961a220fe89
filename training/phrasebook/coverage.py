"""Write coverage.json: which English sentences the phrase book knows, for the product to refuse all others.

python -m training.phrasebook.coverage build/phrasebook/model/coverage.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from training.phrasebook import english
from training.phrasebook.grammar import OPENER, Slot, Template, render, templates
from training.phrasebook.lexicon import TARGETS, class_of, load
from training.phrasebook.tokens import CODES

MODEL = "phrasebook"
EXAMPLES = (
    "Where is the train station?",
    "I would like a coffee, please.",
    "The meeting starts at nine o'clock.",
    "Turn on the light in the kitchen.",
)
Slots = dict[str, list[str]]


def name_of(slot: Slot, group: str) -> str:
    """Return the name of an English slot: its class, its form, and the group of persons it agrees with."""
    form = slot.form
    marks = [form.determiner] if form.determiner != "bare" else []
    marks += ["plural"] if form.plural else []
    marks += [form.verb] if form.verb != "pres" else []
    return " ".join([class_of(slot.variable), *marks, *([group] if group else [])])


def phrase(template: Template, subject: str | None, group: str, slots: Slots, *, opened: bool) -> str:
    """The template as a phrase; where its verbs agree, with the subjects of one group of persons only."""
    lexicon = load()
    text = ""
    for part in (template.opened_parts if opened else template.parts)["en"]:
        if isinstance(part, str):
            text += part
            continue
        agreeing = part.agree is not None or part.variable == subject
        name = name_of(part, group if agreeing else "")
        if name not in slots:
            entries = lexicon[class_of(part.variable)]
            if part.variable == subject:
                entries = [entry for entry in entries if english.group(entry.person) == group]
            others = [one for one in lexicon["who"] if english.group(one.person) == group] if part.agree else []
            choices = [{part.variable: entry} | ({part.agree: others[0]} if part.agree else {}) for entry in entries]
            slots[name] = sorted({english.finish(render(part, "en", choice)) for choice in choices})
        text += f"{{{name}}}"
    return text


def phrases(slots: Slots) -> Iterator[str]:
    """Every template's phrases, the words of their slots into `slots`."""
    for template in templates():
        english_slots = [part for part in template.parts["en"] if isinstance(part, Slot)]
        subjects = [slot.agree for slot in english_slots if slot.agree]
        subject = subjects[0] if subjects else None
        groups = ("1s", "3s", "others") if subject else ("",)
        for group in groups:
            for opened in (False, True) if template.openable else (False,):
                yield phrase(template, subject, group, slots, opened=opened)


def coverage() -> dict[str, object]:
    """The content of coverage.json, as `models.nllb.coverage.Coverage` reads it."""
    slots: Slots = {}
    found = sorted(set(phrases(slots)))
    assert any(OPENER in slot for slot in slots)
    return {
        "model": MODEL,
        "pairs": [[CODES["en"], CODES[target]] for target in TARGETS],
        "examples": list(EXAMPLES),
        "contractions": english.CONTRACTIONS,
        "slots": dict(sorted(slots.items())),
        "phrases": found,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Write which sentences the phrase book knows.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args(argv)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found = coverage()
    options.out.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found['phrases'])} phrases -> {options.out}")


if __name__ == "__main__":
    main()
