"""Files of keys, as values."""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import Any

import pytest

from app.config import SettingsError
from app.engine.admission import Client
from app.server.middleware import key_file
from app.server.middleware.key_file import KeyFile, Quotas, parse_keys
from tests.app.server.middleware.keys import ADA, BOB, FILE, HASHED


def test_keys_may_be_plain_or_hashed_and_have_quotas_of_their_own() -> None:
    keys = parse_keys(FILE, Quotas(characters_per_minute=1000, streams=8))
    assert keys.find(ADA) == Client("ada", 1000, 8)
    assert keys.find(BOB) == Client("bob", 60, 1)
    for wrong in ("", ADA[:-1], ADA + "x", HASHED, HASHED.removeprefix("sha256:"), "\udcff", "é" * 20):
        assert keys.find(wrong) is None
    assert ADA not in repr(keys)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('ada = "short"', "at least 16"),
        ('ada = "a key with spaces in it"', "without spaces"),
        ('ada = "sha256:12"', "64 hexadecimal"),
        ("ada = 12", "valid string"),
        (f'[ada]\nkey = "{ADA}"\nspeed = 1', "speed: Extra inputs"),
        (f'[ada]\nkey = "{ADA}"\nstreams = -1', "streams: Input should be greater"),
        ("[ada]\nstreams = 1", "key: Field required"),
        (f'ada = "{ADA}"\nbob = "{ADA}"', "the same key"),
        (f'"a/b" = "{ADA}"', "the name"),
        ("ada", "Expected '='"),
    ],
)
def test_a_wrong_file_is_said_without_its_keys(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        parse_keys(text)
    assert ADA not in str(caught.value)


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((len(one), len(two)))
        return one == two

    keys = parse_keys(FILE)
    # Whatever finds a key must not know the answer from `==`.
    monkeypatch.setattr(hmac, "compare_digest", compare)
    for key in (ADA, BOB, "wrong"):
        compared.clear()
        keys.find(key)
        assert compared == [(32, 32), (32, 32)]
    monkeypatch.setattr(hmac, "compare_digest", lambda one, two: False)
    assert keys.find(ADA) is None


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(key_file, "POLL_SECONDS", 0.0)
    path = tmp_path / "keys.toml"
    path.write_text(f'ada = "{ADA}"')
    file = KeyFile(path)
    assert file.keys().find(ADA)
    assert not file.keys().find(BOB)
    path.write_text(f'bob = "{HASHED}"')
    assert not file.keys().find(ADA)
    assert file.keys().find(BOB)
    # What cannot be used changes nothing, and is said once.
    path.write_text(f'ada = "{ADA}')
    for _ in range(3):
        assert file.keys().find(BOB)
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    path.unlink()
    assert file.keys().find(BOB)
    # The last key is taken away.
    path.write_text("")
    assert not file.keys().find(BOB)


def test_the_file_is_not_looked_at_for_every_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_file, "POLL_SECONDS", 3_600.0)
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    file = KeyFile(path)
    path.unlink()
    path.write_text("")
    assert file.keys().find(ADA)


@pytest.mark.parametrize("text", ["", "ada = 1", None])
def test_a_file_without_keys_ends_the_start(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "keys.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=r"keys\.toml") as caught:
        KeyFile(path)
    assert "\n" not in str(caught.value)
