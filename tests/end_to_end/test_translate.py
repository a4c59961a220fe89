"""A server process in which SMaLL-100 and NLLB are installed, with tiny checkpoints of random weights.

What they say is nonsense, but real: it is compared with what each model says by itself. The default is SMaLL-100,
which a business may use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from app import main
from app.config import Settings
from app.engine.catalog import Catalog
from models.contract import TranslationRequest, Translator
from models.timeline import Timeline
from tests.models.nllb import builder, m2m100_builder
from tests.processes import serve

SMALL, NLLB = "small-100", "nllb-200-distilled-600m"
SENTENCES = ["the cat sees a dog.", "she goes home now!", "the big red house runs and then goes home."]
TEXT = "The cat sees a red house."

Translate = Callable[..., list[str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory in which both translators are installed."""
    folder = tmp_path_factory.mktemp("translate") / "data"
    for name, write in ((SMALL, m2m100_builder.files), (NLLB, builder.files)):
        model = folder / "models" / name
        model.mkdir(parents=True)
        write(model)
    return folder


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[str]:
    with serve(data.parent) as process:
        yield process.url


@pytest.fixture(scope="module")
def translate(data: Path) -> Translate:
    """`translate(name, texts, target)`: the translation of each text alone, by the model itself."""
    catalog = Catalog(Settings(data_dir=data))
    models = {name: catalog.load(name) for name in (SMALL, NLLB)}

    def say(name: str, texts: list[str], target: str = "fra_Latn") -> list[str]:
        model = models[name]
        assert isinstance(model, Translator)
        results = []
        for text in texts:
            items = model.translate([TranslationRequest(text, "eng_Latn", target)], Timeline(), lambda: False)
            (translation,) = [item for item in items if item is not None]
            results.append(translation.best.text)
        assert all(results) and len(set(results)) == len(results)
        return results

    return say


def post(server: str, **body: object) -> httpx.Response:
    body = {"source": "en", "target": "fr"} | body
    # The model that is not the default is loaded with its first request.
    return httpx.post(f"{server}/v1/translate", json=body, headers={"prefer": "wait"}, timeout=180)


def translations(reply: httpx.Response) -> list[str]:
    assert reply.status_code == 200, reply.text
    return [entry["text"] for entry in reply.json()["translations"]]


def test_the_default_is_warm_before_readiness_and_models_say_who_may_use_them(server: str) -> None:
    assert [model["name"] for model in httpx.get(f"{server}/readyz").json()["models"]] == ["house", SMALL, "ear"]
    entries = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/models").json()["data"]}
    small, nllb = entries[SMALL], entries[NLLB]
    assert (small["status"], small["kind"], small["default"]) == ("ready", "translation", True)
    assert (nllb["kind"], nllb["default"]) == ("translation", False)
    assert small["commercial_use"] is True
    assert (nllb["license"], nllb["commercial_use"]) == ("CC-BY-NC-4.0", False)


def test_texts_come_back_as_the_model_says_them(server: str, translate: Translate) -> None:
    reply = post(server, text=SENTENCES, model=NLLB)
    assert translations(reply) == translate(NLLB, SENTENCES)
    stages = dict(re.findall(r"(\w+);dur=([\d.]+)", reply.headers["server-timing"]))
    assert float(stages["translate_encode"]) > 0
    assert float(stages["translate_decode"]) > 0
    usage = reply.json()["usage"]
    assert usage["source_tokens"] > 20
    assert usage["target_tokens"] > 3
    lines = post(server, text="\n\n".join(SENTENCES), model=NLLB)
    assert translations(lines) == ["\n\n".join(translate(NLLB, SENTENCES))]


@pytest.mark.parametrize(("language", "code"), [("fr", "fra_Latn"), ("West Frisian", "fry_Latn"), ("br", "bre_Latn")])
def test_the_default_answers_in_its_languages(server: str, translate: Translate, language: str, code: str) -> None:
    reply = post(server, text=TEXT, target=language)
    assert translations(reply) == translate(SMALL, [TEXT], code)
    assert reply.json()["model"] == SMALL


def test_languages_that_the_default_lacks_are_refused(server: str) -> None:
    reply = post(server, text=TEXT, target="zh-TW")
    assert reply.status_code == 400
    assert "does not translate Traditional Chinese" in reply.json()["error"]["message"]


def test_alternatives_are_scored_and_the_best_leads(server: str) -> None:
    (entry,) = post(server, text=SENTENCES[0], model=NLLB, num_beams=4, alternatives=3).json()["translations"]
    scores = [each["score"] for each in entry["alternatives"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_libretranslate_s_client_gets_the_same(server: str, translate: Translate) -> None:
    client = LibreTranslateAPI(f"{server}/")
    assert [client.translate(TEXT, "en", "fr")] == translate(SMALL, [TEXT])
    listed = {one["code"] for one in client.languages()}
    assert len(listed) == 100
    assert {"br", "fy", "en", "fr", "zh-Hans"} <= listed


def test_the_command_line_says_the_same(
    data: Path, translate: Translate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NIGHTINGALE_DATA_DIR", str(data))
    assert main.main(["translate", TEXT, "--source", "en", "--target", "French"]) == 0
    assert capsys.readouterr().out == translate(SMALL, [TEXT])[0] + "\n"
    assert main.main(["translate", "the cat\n", "--target", "klingon"]) == 2
    assert "'klingon'" in capsys.readouterr().err
