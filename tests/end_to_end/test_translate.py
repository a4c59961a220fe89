"""A server process with NLLB's own code and a tiny checkpoint of random weights: what it says is nonsense, but real.

What comes out is compared with what the model says by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from app.cli import main
from app.config import Settings
from app.engine.catalog import Catalog
from models.contract import TranslationRequest, Translator
from models.timeline import Timeline
from tests.conftest import serve
from tests.models.nllb.builder import files

NAME = "nllb-200-distilled-600m"
SENTENCES = ["the cat sees a dog.", "she goes home now!", "the big red house runs and then goes home."]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory in which one translator is installed: the default one."""
    folder = tmp_path_factory.mktemp("translate") / "data"
    model = folder / "models" / NAME
    model.mkdir(parents=True)
    files(model)
    return folder


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[str]:
    with serve(data.parent) as url:
        yield url


@pytest.fixture(scope="module")
def expected(data: Path) -> list[str]:
    """Translations of each sentence alone."""
    model = Catalog(Settings(data_dir=data)).load(NAME)
    assert isinstance(model, Translator)
    found = []
    for sentence in SENTENCES:
        (translation,) = [
            item
            for item in model.translate(
                [TranslationRequest(sentence, "eng_Latn", "fra_Latn")], Timeline(), lambda: False
            )
            if item is not None
        ]
        found.append(translation.best.text)
    assert len(set(found)) == len(found)
    assert all(found)
    return found


def post(server: str, **body: object) -> httpx.Response:
    reply = httpx.post(f"{server}/v1/translate", json={"source": "en", "target": "fr"} | body, timeout=180)
    assert reply.status_code == 200, reply.text
    return reply


def test_an_installed_translator_is_warm_before_readiness(server: str) -> None:
    assert [model["name"] for model in httpx.get(f"{server}/readyz").json()["models"]] == ["house", NAME, "ear"]
    entries = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/models").json()["data"]}
    assert (entries[NAME]["status"], entries[NAME]["kind"], entries[NAME]["default"]) == ("ready", "translation", True)
    assert (entries[NAME]["license"], entries[NAME]["commercial_use"]) == ("CC-BY-NC-4.0", False)


def test_texts_come_back_as_the_model_says_them(server: str, expected: list[str]) -> None:
    reply = post(server, text=SENTENCES)
    assert [entry["text"] for entry in reply.json()["translations"]] == expected
    stages = dict(re.findall(r"(\w+);dur=([\d.]+)", reply.headers["server-timing"]))
    assert float(stages["translate_encode"]) > 0
    assert float(stages["translate_decode"]) > 0
    usage = reply.json()["usage"]
    assert usage["source_tokens"] > 20
    assert usage["target_tokens"] > 3


def test_lines_of_one_text_come_back_as_lines(server: str, expected: list[str]) -> None:
    assert post(server, text="\n\n".join(SENTENCES)).json()["translations"][0]["text"] == "\n\n".join(expected)


def test_alternatives_are_scored_and_the_best_leads(server: str) -> None:
    (entry,) = post(server, text=SENTENCES[0], num_beams=4, alternatives=3).json()["translations"]
    scores = [each["score"] for each in entry["alternatives"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_libretranslate_s_client_gets_the_same(server: str, expected: list[str]) -> None:
    client = LibreTranslateAPI(server)
    assert client.translate(SENTENCES[0], "en", "fr") == expected[0]
    assert {"en", "fr", "zh-Hans"} <= {entry["code"] for entry in client.languages()}


def test_speech_and_translation_share_the_thread(server: str, expected: list[str]) -> None:
    spoken = httpx.post(f"{server}/v1/audio/speech", json={"input": "Hello world."}, timeout=180)
    assert spoken.status_code == 200
    assert post(server, text=SENTENCES[0]).json()["translations"][0]["text"] == expected[0]


def test_the_command_line_says_the_same(
    data: Path, expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NIGHTINGALE_DATA_DIR", str(data))
    assert main.main(["translate", SENTENCES[0], "--source", "en", "--target", "French"]) == 0
    assert capsys.readouterr().out == expected[0] + "\n"
    assert main.main(["translate", "the cat\n", "--target", "klingon"]) == 2
    assert "'klingon'" in capsys.readouterr().err
