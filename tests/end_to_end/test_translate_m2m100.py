"""A server process in which SMaLL-100 and NLLB are installed, with tiny checkpoints: business may use the default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from app.config import Settings
from app.engine.catalog import Catalog
from models.contract import TranslationRequest, Translator
from models.timeline import Timeline
from tests.conftest import serve
from tests.models.nllb import builder, m2m100_builder

TEXT = "The cat sees a red house."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("m2m100") / "data"
    for name, write in (("small-100", m2m100_builder.files), ("nllb-200-distilled-600m", builder.files)):
        model = folder / "models" / name
        model.mkdir(parents=True)
        write(model)
    return folder


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[str]:
    with serve(data.parent) as url:
        yield url


def said(data: Path, name: str, target: str) -> str:
    """Return the translation by the model itself."""
    model = Catalog(Settings(data_dir=data)).load(name)
    assert isinstance(model, Translator)
    request = TranslationRequest(TEXT, "eng_Latn", target)
    (found,) = [item for item in model.translate([request], Timeline(), lambda: False) if item is not None]
    return found.best.text


def post(server: str, **body: object) -> httpx.Response:
    return httpx.post(f"{server}/v1/translate", json={"text": TEXT, "source": "en"} | body, timeout=180)


@pytest.mark.parametrize(("language", "code"), [("fr", "fra_Latn"), ("West Frisian", "fry_Latn"), ("br", "bre_Latn")])
def test_what_business_may_use_answers(server: str, data: Path, language: str, code: str) -> None:
    reply = post(server, target=language)
    assert reply.status_code == 200, reply.text
    assert reply.json()["model"] == "small-100"
    assert reply.json()["translations"][0]["text"] == said(data, "small-100", code)


def test_languages_that_it_lacks_are_refused(server: str) -> None:
    reply = post(server, target="zh-TW")
    assert reply.status_code == 400
    assert "does not translate Traditional Chinese" in reply.json()["error"]["message"]


def test_models_say_whether_business_may_use_them(server: str) -> None:
    entries = {entry["id"]: entry for entry in httpx.get(f"{server}/v1/models").json()["data"]}
    assert (entries["small-100"]["default"], entries["small-100"]["commercial_use"]) == (True, True)
    other = entries["nllb-200-distilled-600m"]
    assert (other["default"], other["commercial_use"]) == (False, False)


def test_libretranslate_s_clients_see_its_languages(server: str) -> None:
    listed = {one["code"] for one in LibreTranslateAPI(f"{server}/").languages()}
    assert len(listed) == 100
    assert {"br", "fy", "en", "zh-Hans"} <= listed
