"""Uploaded lexicons on disk: what a key may have, and what is read when."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.errors import InvalidRequestError, QuotaExceededError, StorageFullError
from app.lexicons import store as module
from app.lexicons.service import LexiconService
from app.lexicons.store import LexiconStore
from app.text.lexicon import Lexicon, LexiconEntry


def lexicon(entries: int = 1, alias: str = "door") -> Lexicon:
    return Lexicon([LexiconEntry(f"word{number}", alias=alias) for number in range(entries)], "en")


def test_one_key_leaves_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LexiconStore(tmp_path, most=12)
    for _ in range(3):
        store.add("one", lexicon(), "bob")
    with pytest.raises(QuotaExceededError, match="3 lexicons already"):
        store.add("one more", lexicon(), "bob")
    monkeypatch.setattr(module, "MAX_KEY_BYTES", 1_000)
    with pytest.raises(QuotaExceededError, match="1000 bytes"):
        store.add("long", lexicon(40), "alice")
    store.add("short", lexicon(), "alice")
    monkeypatch.setattr(module, "MAX_ALL_BYTES", sum(each.size for each in store.lexicons()) + 10)
    with pytest.raises(StorageFullError):
        store.add("short", lexicon(), "carol")


def test_a_long_alias_of_many_words_is_refused(tmp_path: Path) -> None:
    """Half a megabyte of PLS, whose one alias is for 20,000 words, would take ten on disk and more in memory."""
    with pytest.raises(InvalidRequestError, match=r"take 1\d{7} bytes; at most 4194304"):
        LexiconStore(tmp_path, most=10).add("large", lexicon(20_000, "x" * 490), None)
    assert list(tmp_path.rglob("lexicon_*")) == []


def test_a_list_reads_no_entries_and_memory_is_bounded_by_bytes(tmp_path: Path, monkeypatch: Any) -> None:
    store = LexiconStore(tmp_path, most=100)
    kept = [store.add(f"number {number}", lexicon(50), "bob") for number in range(8)]
    monkeypatch.setattr(module, "_CACHED_BYTES", 3 * kept[0].size)
    other = LexiconStore(tmp_path, most=100)
    assert sorted(each.id for each in other.lexicons()) == sorted(each.id for each in kept)
    assert other._cached == {}
    for each in kept:
        read = other.read(each)
        assert read is not None and (len(read.entries), read.language) == (50, "en")
    assert list(other._cached) == [each.id for each in kept[-3:]]
    (path,) = tmp_path.rglob(f"{kept[0].id}.json")
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + b"damaged")
    assert len(other.lexicons()) == 8 and other.read(kept[0]) is None


async def test_no_more_than_two_lexicons_are_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Semaphore(2)

    def read(data: object, language: str | None) -> Lexicon:
        assert free.acquire(blocking=False)
        time.sleep(0.02)
        free.release()
        return lexicon()

    monkeypatch.setattr("app.lexicons.service.read_lexicon", read)
    monkeypatch.setattr("app.lexicons.service._own", read)
    service = LexiconService(Settings.model_validate({"data_dir": tmp_path}))
    own = {"a": "b"}
    await asyncio.gather(
        *(service.add("one", b"x") for _ in range(4)), *(service.resolve((), own, None) for _ in range(4))
    )
