"""The grammar as a whole: every template can be filled, says one thing, and keeps its held-out words to itself."""

from __future__ import annotations

import random
import re
from itertools import islice

import pytest

from training.phrasebook.grammar import ENOUGH, Slot, Template, parse, sentences, templates
from training.phrasebook.lexicon import LANGUAGES, class_of, load


@pytest.mark.parametrize("seed", [1, 2])
def test_every_template_makes_whole_sentences(seed: int) -> None:
    rng = random.Random(seed)
    opener = load()["opener"][seed]
    for template in templates():
        choice = template.choose(rng)
        for chosen in (None, opener) if template.openable else (None,):
            for language, text in template.fill(choice, chosen).texts.items():
                letters = re.sub(r"^\W+", "", text)
                assert letters[0].isupper(), text
                assert text[-1] == template.mark, text
                assert not re.search(r"[{}_|/ʰ·@]|\s\s|\s[.,]", text), text
                assert (language == "es") == (text[0] in "¿¡") or template.mark == "." or chosen, text
                if language == "fr" and template.mark in "?!":
                    assert text[-2] == " ", text
                if language == "es" and template.mark == "?":
                    assert text.count("¿") == 1, text


def test_what_the_english_lacks_has_only_one_entry() -> None:
    """Otherwise a translation would hold what its source does not."""
    for template in templates():
        in_english = {part.variable for part in template.parts["en"] if isinstance(part, Slot)}
        assert in_english | {name for name in template.variables if len(load()[class_of(name)]) == 1} == set(
            template.variables
        ), template.texts[0]


def test_what_the_english_says_every_language_says() -> None:
    said_by_form = {"do"}  # an auxiliary of English alone
    for template in templates():
        per_language = {
            language: {name for part in parts if isinstance(part, Slot) for name in (part.variable, part.extra) if name}
            for language, parts in template.parts.items()
        }
        for language in LANGUAGES[1:]:
            assert per_language["en"] - said_by_form - per_language[language] <= {"have"}, (language, template.texts[0])


def test_one_english_sentence_has_one_translation() -> None:
    made: dict[str, dict[str, str]] = {}
    for pair in islice(sentences(11, held_out=False), 6000):
        assert made.setdefault(pair.texts["en"], pair.texts) == pair.texts


def test_templates_agree_with_known_sentences() -> None:
    known = {
        "My sister has a purple scarf.": ("Mi hermana tiene una bufanda morada.", "Ma sœur a une écharpe violette."),
        "He did not close the window.": ("Él no cerró la ventana.", "Il n'a pas fermé la fenêtre."),
    }
    lexicon = load()

    def fill(start: str, **words: str) -> dict[str, str]:
        (template,) = [t for t in templates() if t.texts[0] == start]
        choice = {
            name: next(entry for entry in lexicon[class_of(name)] if entry.name == words.get(name, entry.name))
            for name in template.variables
        }
        return template.fill(choice).texts

    texts = fill("my {person} has a {color} {clothes}", person="sister", color="purple", clothes="scarf")
    assert (texts["es"], texts["fr"]) == known[texts["en"]]
    assert texts["de"] == "Meine Schwester hat einen violetten Schal."
    texts = fill(
        "{who} {switch@who:past} the {device} in the {room}", who="my parents", switch="turn off", device="lamp"
    )
    assert texts["de"] == "Meine Eltern haben die Lampe in der Küche ausgeschaltet."
    texts = fill("how do I get to the {place}", place="train station")
    assert list(texts.values()) == [
        "How do I get to the train station?",
        "¿Cómo llego a la estación de tren?",
        "Comment aller à la gare ?",
        "Wie komme ich zum Bahnhof?",
    ]


def test_equal_seeds_give_equal_sentences() -> None:
    first, again, other = (
        [pair.texts["en"] for pair in islice(sentences(seed, held_out=False), 50)] for seed in (3, 3, 4)
    )
    assert first == again != other


def test_held_out_combinations_are_never_trained_on() -> None:
    held_out = {pair.texts["en"] for pair in islice(sentences(5, held_out=True), 3000)}
    trained = {pair.texts["en"] for pair in islice(sentences(6, held_out=False), 6000)}
    assert len(held_out) > 1500
    assert not held_out & trained


def test_an_opener_does_not_bring_a_held_out_combination_back() -> None:
    opener, rng = load()["opener"][0], random.Random(7)
    template = next(t for t in templates() if t.openable and t.combinations >= ENOUGH)
    for _ in range(200):
        choice = template.choose(rng)
        assert template.fill(choice).held_out == template.fill(choice, opener).held_out


def test_words_of_one_class_differ() -> None:
    rng = random.Random(8)
    template = next(t for t in templates() if "place3" in t.variables)
    for _ in range(300):
        choice = template.choose(rng)
        assert len({choice[name].name for name in ("place1", "place2", "place3")}) == 3


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        parse("the {place is open")
    with pytest.raises(KeyError):
        Template(("the {nonsense}", "", "", ""), ".", openable=False).choose(random.Random(0))
