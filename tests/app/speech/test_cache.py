"""The cache of spoken sentences: by itself, and in a server on a socket."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.sync.client import connect

from app.config import Settings
from app.engine import catalog as catalogs
from app.speech.cache import Scope, SpeechCache
from models.contract import AudioChunk, Sampling, SpeechRequest

SPEECH = "/v1/audio/speech"
REQUEST = SpeechRequest("Hello.", "hɛlˈO.", "steady")
SCOPE = Scope("1", None, stored=True)
ADA, BOB = "key-of-ada-0123456789", "key-of-bob-0123456789"


def spoken(seed: int = 0, size: int = 1000) -> tuple[AudioChunk, ...]:
    pcm = np.random.default_rng(seed).uniform(-1, 1, size).astype(np.float32)
    return AudioChunk(pcm[:300], (0.25, 0.5), last=False), AudioChunk(pcm[300:], (1.5,))


def same(found: Any, wanted: tuple[AudioChunk, ...]) -> bool:
    return len(found) == len(wanted) and all(
        np.array_equal(a.pcm, b.pcm) and a.phoneme_ends == b.phoneme_ends and a.last == b.last
        for a, b in zip(found, wanted, strict=True)
    )


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[SpeechCache] = []

    def begin(memory: int = 1 << 20, disk: int = 1 << 20) -> SpeechCache:
        made.append(SpeechCache(tmp_path / "kept", memory_bytes=memory, disk_bytes=disk))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def find(cache: SpeechCache, key: str, *, stored: bool = True) -> Any:
    return asyncio.run(cache.find(key, stored=stored))


def written(cache: SpeechCache) -> None:
    """Wait until the thread has written everything."""
    cache._writer.submit(lambda: None).result()


def test_a_key_has_all_that_the_audio_depends_on() -> None:
    others = [
        replace(REQUEST, phonemes="hɛlˈoʊ."),
        replace(REQUEST, voice="silky"),
        replace(REQUEST, speed=1.5),
        replace(REQUEST, seed=1),
        replace(REQUEST, first=False),
        replace(REQUEST, sampling=Sampling(temperature=0.5)),
    ]
    keys = {SCOPE.key(each, reads_text=False) for each in (REQUEST, *others)}
    keys |= {replace(SCOPE, **{part: "2"}).key(REQUEST, reads_text=False) for part in ("revision", "owner")}
    assert len(keys) == 9
    # The text of a model that reads phonemes is only for messages.
    assert SCOPE.key(replace(REQUEST, text="Hullo."), reads_text=False) == SCOPE.key(REQUEST, reads_text=False)
    assert SCOPE.key(replace(REQUEST, text="Hullo."), reads_text=True) != SCOPE.key(REQUEST, reads_text=True)


def test_a_sentence_comes_back_from_memory_and_from_the_disk_of_a_process_before(make: Any) -> None:
    first = make()
    first.keep("a" * 64, spoken(), stored=True)
    found, source = find(first, "a" * 64)
    assert source == "memory"
    assert same(found, spoken())
    with pytest.raises(ValueError, match="read-only"):
        found[0].pcm[0] = 0
    written(first)
    second = make()
    found, source = find(second, "a" * 64)
    assert source == "disk"
    assert same(found, spoken())
    assert find(second, "a" * 64)[1] == "memory"
    assert find(make(), "a" * 64, stored=False) == (None, "miss")


def test_memory_and_disk_are_bounded_and_drop_what_was_used_longest_ago(make: Any, tmp_path: Path) -> None:
    cache = make(memory=10_000, disk=10_000)
    for number in range(4):
        cache.keep(f"{number}", spoken(number), stored=True)
        written(cache)
        if number in (1, 2):
            assert find(cache, "0")[1] == "memory"
    assert [find(cache, str(number), stored=False)[1] for number in range(4)] == ["memory", "miss", "miss", "memory"]
    sizes = [path.stat().st_size for path in (tmp_path / "kept").iterdir()]
    assert sum(sizes) <= 10_000
    assert len(sizes) == 2
    cache.keep("large", spoken(size=5_000), stored=True)
    written(cache)
    assert find(cache, "large") == (None, "miss")


@pytest.mark.parametrize("harm", ["cut", "other", "noise", "empty", "gone"])
def test_a_damaged_file_is_as_good_as_none(make: Any, tmp_path: Path, harm: str) -> None:
    cache = make()
    for key in ("a", "b"):
        cache.keep(key, spoken(), stored=True)
    written(cache)
    path = tmp_path / "kept/a.safetensors"
    again = make()
    data = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {
                "cut": data[:-100],
                "other": (tmp_path / "kept/b.safetensors").read_bytes(),
                "noise": np.random.default_rng(1).bytes(len(data)),
                "empty": b"",
            }[harm]
        )
    assert find(again, "a") == (None, "miss")
    assert not path.exists()
    assert find(again, "b")[1] == "disk"


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    folder.chmod(0o777)
    cache = SpeechCache(folder, memory_bytes=0, disk_bytes=1000)
    assert not cache.enabled
    assert "others can write" in caplog.text
    cache.close()


def test_a_full_disk_leaves_the_sentence_in_memory(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = make()

    def fail(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    cache.keep("a", spoken(), stored=True)
    written(cache)
    assert find(cache, "a")[1] == "memory"
    assert list((tmp_path / "kept").iterdir()) == []


def test_what_was_not_finished_is_removed_at_start(make: Any, tmp_path: Path) -> None:
    written_before = make()
    written(written_before)
    (tmp_path / "kept/abc.1234").write_bytes(b"half")
    make()
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_revision_changes_with_the_files_and_the_options_of_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "models" / catalogs.KOKORO
    folder.mkdir(parents=True)
    for name in ("config.json", "kokoro-v1_0.safetensors", "kokoro-v1_0.pth"):
        (folder / name).write_bytes(b"{}")
    settings = Settings(data_dir=tmp_path)
    before = catalogs.Catalog(settings).revision(catalogs.KOKORO)
    assert catalogs.Catalog(settings).revision(catalogs.KOKORO) == before
    assert catalogs.Catalog(settings.model_copy(update={"speech_batch": 2})).revision(catalogs.KOKORO) != before
    os.utime(folder / "config.json", ns=(1, 1))
    assert catalogs.Catalog(settings).revision(catalogs.KOKORO) != before


# In a server.


def post(server: Any, text: str = "Hello world.", key: str | None = None, **body: object) -> httpx.Response:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    answer = httpx.post(server.url + SPEECH, json={"input": text, **body}, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_request_that_was_answered_before_is_answered_without_the_model(start_server: Any) -> None:
    server = start_server(speech_cache_bytes=1 << 20)
    first, second = post(server), post(server)
    assert [each.headers["x-cache"] for each in (first, second)] == ["miss", "hit"]
    assert first.content == second.content
    assert len(server.tone.begun) == 1
    # Another format and another rate are made of the same audio.
    assert post(server, response_format="flac", sample_rate=16_000).headers["x-cache"] == "hit"
    assert post(server, voice="silky").headers["x-cache"] == "miss"
    off = post(server, cache=False)
    assert "x-cache" not in off.headers
    assert off.content == first.content
    assert len(server.tone.begun) == 3
    metrics = server.metrics()
    assert 'nightingale_cache_hits_total{model="tone",source="memory"} ' in metrics
    assert 'nightingale_cache_misses_total{model="tone"} ' in metrics


def test_without_settings_nothing_is_kept(start_server: Any, tmp_path: Path) -> None:
    server = start_server(data_dir=str(tmp_path))
    assert "x-cache" not in post(server).headers
    assert "x-cache" not in post(server).headers
    assert len(server.tone.begun) == 2
    assert not (tmp_path / "speech-cache").exists()


def test_a_long_text_takes_the_sentences_that_it_shares(start_server: Any) -> None:
    server = start_server(speech_cache_bytes=1 << 22)
    long = "This is the first sentence of them all. Here comes the second one. And this is the third of them."
    first = post(server, long)
    changed = post(server, long.replace("third", "last"))
    assert changed.headers["x-cache"] == "hit"
    assert len(server.tone.begun) == 4
    assert post(server, long).content == first.content
    assert len(server.tone.begun) == 4


def test_a_websocket_takes_them_with_the_same_times(start_server: Any) -> None:
    server = start_server(speech_cache_bytes=1 << 22)

    def speak(**options: object) -> tuple[bytes, list[str]]:
        with connect(server.websocket_url) as client:
            client.send(json.dumps({"type": "start", "timestamps": True, **options}))
            client.send(json.dumps({"type": "text", "text": "Hello dear world. And this is more of it."}))
            client.send(json.dumps({"type": "end"}))
            audio, words = b"", []
            for frame in client:
                if isinstance(frame, bytes):
                    audio += frame
                elif '"chunk"' in frame:
                    words.append(json.dumps(json.loads(frame).get("words")))
            return audio, words

    assert speak() == speak() == speak(cache=False)
    assert len(server.tone.begun) == 4


def test_keys_share_nothing_unless_they_are_told_to(start_server: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text(f'ada = "{ADA}"\nbob = "{BOB}"\n')
    keys.chmod(0o600)
    for shared in (False, True):
        server = start_server(speech_cache_bytes=1 << 20, speech_cache_shared=shared, keys_file=str(keys))
        found = [post(server, key=key).headers["x-cache"] for key in (ADA, ADA, BOB, BOB)]
        assert found == (["miss", "hit", "hit", "hit"] if shared else ["miss", "hit", "miss", "hit"])


def test_a_restart_finds_them_and_an_upgrade_does_not(start_server: Any, tmp_path: Path, wait_until: Any) -> None:
    options = {"data_dir": str(tmp_path), "speech_cache_disk_bytes": 1 << 20}
    first = post(start_server(**options))
    kept = tmp_path / "speech-cache"
    assert wait_until(lambda: list(kept.glob("*.safetensors")))
    assert kept.stat().st_mode & 0o077 == 0
    again = start_server(**options)
    second = post(again)
    assert second.headers["x-cache"] == "hit"
    assert second.content == first.content
    assert again.tone.begun == []
    assert post(start_server(release="2", **options)).headers["x-cache"] == "miss"


def test_a_cloned_voice_leaves_nothing_on_the_disk() -> None:
    scope = Scope("1", None, stored=False)
    assert scope.common() == scope


def test_a_client_who_leaves_in_a_sentence_leaves_nothing_half(start_server: Any, wait_until: Any, leave: Any) -> None:
    server = start_server(speech_cache_bytes=1 << 22)
    text = "Hello dear world, this is a long sentence."
    leave(server.url + SPEECH, {"input": text, "voice": "gated"}, lambda: server.tone.begun)
    assert wait_until(lambda: "nightingale_active_streams 0.0" in server.metrics())
    server.tone.gate.set()
    assert post(server, text, voice="gated").headers["x-cache"] == "miss"
    assert post(server, text, voice="gated").headers["x-cache"] == "hit"


def test_sentences_of_a_file_are_spoken_at_start_for_all_keys(
    start_server: Any, tmp_path: Path, wait_until: Any
) -> None:
    phrases, keys = tmp_path / "phrases.txt", tmp_path / "keys.toml"
    phrases.write_text("The door is open.\n\n...\nThe kettle has boiled. Tea is ready.\n")
    keys.write_text(f'ada = "{ADA}"\n')
    keys.chmod(0o600)
    server = start_server(speech_cache_bytes=1 << 22, speech_cache_phrases=str(phrases), keys_file=str(keys))
    assert wait_until(lambda: len(server.tone.computed) == 3)
    assert post(server, "The door is open.", key=ADA).headers["x-cache"] == "hit"
    assert post(server, "The kettle has boiled. Tea is ready.", key=ADA).headers["x-cache"] == "hit"
    assert len(server.tone.begun) == 3


def test_a_file_of_sentences_that_is_not_there_is_logged(
    start_server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, wait_until: Any
) -> None:
    start_server(speech_cache_bytes=1000, speech_cache_phrases=str(tmp_path / "none.txt"))
    assert wait_until(lambda: "none.txt cannot be kept" in caplog.text)
