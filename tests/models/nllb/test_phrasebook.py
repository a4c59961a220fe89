"""The bundled demonstrator through the real pipeline, on sentences that its training held out."""

from __future__ import annotations

import json

import pytest

from loadtest.shortlist import CODES, FOLDER, SENTENCES, translate
from models.contract import ModelSpec
from models.nllb.pipeline import NllbTranslator, load

FILES = {
    "config": "config.json",
    "weights": "model.safetensors",
    "tokenizer": "tokenizer.json",
    "coverage": "coverage.json",
}
LIMIT = 12_000_000


@pytest.fixture(scope="module")
def model() -> NllbTranslator:
    return load(ModelSpec("phrasebook", "nllb", {role: str(FOLDER / name) for role, name in FILES.items()}))


@pytest.mark.parametrize("language", CODES)
def test_held_out_sentences_come_out_exactly_right(model: NllbTranslator, language: str) -> None:
    pairs = json.loads(SENTENCES.read_text(encoding="utf-8"))
    assert len({pair["en"] for pair in pairs}) == len(pairs) >= 150
    made = translate(model, [pair["en"] for pair in pairs], CODES[language])
    right = sum(text == pair[language] for text, pair in zip(made, pairs, strict=True))
    assert right >= 0.95 * len(pairs)


def test_known_sentences(model: NllbTranslator) -> None:
    texts = ["Where is the train station?", "I'd like a coffee, please.", "TURN ON THE LIGHT IN THE KITCHEN"]
    assert translate(model, texts, "spa_Latn") == [
        "¿Dónde está la estación de tren?",
        "Quisiera un café, por favor.",
        "Encienda la luz en la cocina.",
    ]
    assert translate(model, texts, "fra_Latn") == [
        "Où est la gare ?",
        "Je voudrais un café, s'il vous plaît.",
        "Allumez la lumière dans la cuisine.",
    ]
    assert translate(model, texts, "deu_Latn") == [
        "Wo ist der Bahnhof?",
        "Ich möchte bitte einen Kaffee.",
        "Schalten Sie das Licht in der Küche ein.",
    ]


def test_it_stays_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= LIMIT


def test_a_shortlist_is_not_for_it(model: NllbTranslator) -> None:
    """A deployment's setting for real models must not take away half of its words."""
    files = {role: str(FOLDER / name) for role, name in FILES.items()}
    short = load(ModelSpec("phrasebook", "nllb", files, shortlist=500))
    texts = ["Where is the train station?", "Turn left after the church."]
    assert translate(short, texts, "spa_Latn") == translate(model, texts, "spa_Latn")
