"""Lexicons on a real server: the owner's files, uploads of keys, words of a request, ElevenLabs' dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.clients import RATE, converse, samples, speak, websocket
from tests.processes import Process, serve_stand_ins

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789ab"


@pytest.fixture(scope="module")
def server(house: Process) -> str:
    """The shared server, with a lexicon of its owner beside one that is broken."""
    folder = house.folder / "data" / "lexicons"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "broken.pls").write_text("<lexicon>", encoding="utf-8")
    (folder / "house.tsv").write_text("qzx\tmorning\n", encoding="utf-8")
    return house.url


def call(server: str, method: str, path: str, key: str = ALICE, **fields: Any) -> httpx.Response:
    return httpx.request(method, server + path, headers={"authorization": f"Bearer {key}"}, timeout=180, **fields)


def upload(server: str, content: str, key: str = ALICE, **data: str) -> httpx.Response:
    return call(server, "POST", "/v1/lexicons", key, files={"file": ("mine.tsv", content)}, data=data)


def spoken(server: str, text: str, key: str = ALICE, **fields: Any) -> str:
    reply = call(server, "POST", "/v1/phonemes", key, json={"input": text, **fields})
    assert reply.status_code == 200, reply.text
    return str(reply.json()["spoken"])


def test_the_owners_words_hold_for_everybody(server: str, house: Process, recognize: Callable[..., str]) -> None:
    for _ in range(300):  # files are looked at once a second
        if spoken(server, "In the qzx.") == "In the morning.":
            break
    assert "morning" in recognize(samples(speak(server, "The train leaves in the qzx.")), RATE).split()
    assert "broken.pls is not used" in house.log.read_text()


def test_an_upload_is_kept_used_and_deleted(server: str) -> None:
    made = upload(server, "gate\tdoor\nNguyen\t/wˈɪn/\n", name="mine", language="en").json()
    assert (made["name"], made["count"], made["language"]) == ("mine", 2, "en")
    assert made in call(server, "GET", "/v1/lexicons").json()["data"]
    entries = call(server, "GET", f"/v1/lexicons/{made['id']}").json()["entries"]
    assert entries[1] == {"grapheme": "Nguyen", "phonemes": "wˈɪn", "alias": ""}
    assert spoken(server, "The gate.", lexicons=[made["id"]]) == "The door."
    assert spoken(server, "The gate.") == "The gate."
    assert spoken(server, "The gate.", lexicon={"gate": "window"}, lexicons=[made["id"]]) == "The window."
    assert call(server, "DELETE", f"/v1/lexicons/{made['id']}").json()["deleted"]
    assert call(server, "DELETE", f"/v1/lexicons/{made['id']}").status_code == 404
    assert call(server, "GET", "/v1/lexicons/..%2f..%2fkeys").status_code == 404


def test_an_upload_belongs_to_its_key(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(f'alice = "{ALICE}"\nbob = "{BOB}"\n')
    with serve_stand_ins(tmp_path, NIGHTINGALE_KEYS_FILE=str(tmp_path / "keys.toml")) as process:
        server = process.url
        made = upload(server, "gate\tdoor\n").json()
        assert spoken(server, "The gate.", lexicons=[made["id"]]) == "The door."
        assert call(server, "GET", "/v1/lexicons", BOB).json()["data"] == []
        use = {"json": {"input": "The gate.", "lexicons": [made["id"]]}}
        path = f"/v1/lexicons/{made['id']}"
        for method, where, fields in (("GET", path, {}), ("DELETE", path, {}), ("POST", "/v1/audio/speech", use)):
            assert call(server, method, where, BOB, **fields).status_code == 404
        assert call(server, "DELETE", path).status_code == 200


@pytest.mark.parametrize(
    ("content", "reason"),
    [("a b", "line 1"), ("", "no entry"), ("<lexicon>", "line 1, column"), ("gate\t/❓/", "❓"),
     ("<!DOCTYPE l SYSTEM 'file:///etc/passwd'><lexicon/>", "document type")],
)  # fmt: skip
def test_wrong_uploads_are_refused(server: str, content: str, reason: str) -> None:
    reply = upload(server, content)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_lexicon")
    assert reason in reply.json()["error"]["message"]


def test_words_of_a_request(server: str) -> None:
    said = speak(server, "Open the gate.", lexicon={"gate": "door"}).raise_for_status()
    assert said.content == speak(server, "Open the [gate](/dˈɔɹ/).").content
    ssml = "<speak>Open the <sub alias='wall'>gate</sub> gate.</speak>"
    assert spoken(server, ssml, lexicon={"gate": "door"}) == "Open the wall door."
    wrong = speak(server, "a", lexicon={"gate": "/❓/"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_lexicon")


def test_words_of_a_socket(server: str) -> None:
    start = {"type": "start", "lexicon": {"gate": "door"}, "format": "pcm"}
    texts = [{"type": "text", "text": text} for text in ("Open the ga", "te.")]
    audio, _ = converse(websocket(server), start, *texts, {"type": "end"})
    assert len(audio) == len(speak(server, "Open the door.", response_format="pcm").content)


def test_elevenlabs_dictionaries(server: str, recognize: Callable[..., str]) -> None:
    rules = [
        {"type": "alias", "string_to_replace": "XKZ", "alias": "window"},
        {"type": "phoneme", "string_to_replace": "Gate", "phoneme": "D AO1 R", "alphabet": "cmu-arpabet",
         "case_sensitive": False},
    ]  # fmt: skip
    base = "/v1/pronunciation-dictionaries"
    made = call(server, "POST", f"{base}/add-from-rules", json={"name": "mine", "rules": rules}).json()
    assert made["version_rules_num"] == 2
    assert made in call(server, "GET", base).json()["pronunciation_dictionaries"]
    assert call(server, "GET", f"{base}/{made['id']}").json() == made
    locator = {"pronunciation_dictionary_id": made["id"], "version_id": made["version_id"]}
    body = {"text": "Please open the XKZ and close the gate.", "pronunciation_dictionary_locators": [locator]}
    reply = call(server, "POST", "/v1/text-to-speech/am_michael?output_format=pcm_24000", json=body)
    heard = recognize(np.frombuffer(reply.content, "<i2"), RATE).split()
    assert {"window", "door"} <= set(heard)
    pls = "<lexicon><lexeme><grapheme>gate</grapheme><alias>door</alias></lexeme></lexicon>"
    files = {"file": ("mine.pls", pls)}
    made = call(server, "POST", f"{base}/add-from-file", files=files, data={"name": "file"}).json()
    assert spoken(server, "The gate.", lexicons=[made["id"]]) == "The door."
    missing = call(server, "GET", f"{base}/nothing")
    assert (missing.status_code, missing.json()["detail"]["status"]) == (404, "not_found")
