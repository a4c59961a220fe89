"""A language model of random weights translates: each sentence of a batch as alone, and never for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.contract import Cancelled, ModelRequestError, ModelSpec, Translation, TranslationRequest, Translator
from models.llm.pipeline import load
from models.llm.translator import LanguageModelTranslator
from models.timeline import Timeline
from tests.models.llm.tiny import write_model

TEXTS = ("Good morning.", "Where is the station?", "It costs 12 euros and 50 cents.")
GEMMA_TEMPLATE = (
    "{% for message in messages %}{% set part = message.content[0] %}"
    "{{ part.source_lang_code }}>{{ part.target_lang_code }}:{{ part.text }}{% endfor %}"
)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> LanguageModelTranslator:
    folder = write_model(tmp_path_factory.mktemp("llm") / "tiny")
    made = load(ModelSpec("tiny", "llm", {"config": str(folder / "config.json")}, kind="translation"))
    assert isinstance(made, Translator)
    return made


def translate(translator: LanguageModelTranslator, *texts: str) -> list[Translation]:
    batch = [TranslationRequest(text, "eng_Latn", "deu_Latn") for text in texts]
    items = [item for item in translator.translate(batch, Timeline(), lambda: False) if item is not None]
    return sorted(items, key=lambda item: item.index)


def test_a_batch_is_translated_as_each_alone_and_ends(translator: LanguageModelTranslator) -> None:
    together = translate(translator, *TEXTS)
    alone = [translate(translator, text)[0] for text in TEXTS]
    assert [item.index for item in together] == [0, 1, 2]
    assert [item.best.text for item in together] == [item.best.text for item in alone]
    assert all(item.best.text for item in together)


def test_the_prompt_names_the_language(translator: LanguageModelTranslator) -> None:
    def size(target: str) -> int:
        return len(translator._generation(TranslationRequest("Hello.", "eng_Latn", target)).prompt)

    assert {"deu_Latn", "zho_Hans", "bod_Tibt"} <= set(translator.languages)
    assert "eng_Latn" not in translator.targets("eng_Latn")
    assert size("tgl_Latn") - size("deu_Latn") == len("Filipino") - len("German")
    assert size("zho_Hans") != size("deu_Latn")


def test_what_it_cannot_do_is_refused(translator: LanguageModelTranslator) -> None:
    with pytest.raises(ModelRequestError, match="one translation"):
        translator.check(TranslationRequest("Hello.", "eng_Latn", "deu_Latn", beams=3, alternatives=2))
    with pytest.raises(ModelRequestError, match="at most"):
        translator.check(TranslationRequest("word " * 300, "eng_Latn", "deu_Latn"))
    generated = translator.translate([TranslationRequest("Hello.", "eng_Latn", "deu_Latn")], Timeline(), lambda: True)
    with pytest.raises(Cancelled):
        list(generated)


def test_translategemma_gets_its_own_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_model(tmp_path / "tiny", template=GEMMA_TEMPLATE)
    model = load(ModelSpec("tiny", "llm", {"config": str(folder / "config.json")}))
    gemma = LanguageModelTranslator(model, "gemma3_text")
    request = gemma._generation(TranslationRequest("Hello.", "eng_Latn", "zho_Hant"))
    assert len(request.prompt) == len("en>zh-TW:Hello.")
    assert "bod_Tibt" not in gemma.languages
