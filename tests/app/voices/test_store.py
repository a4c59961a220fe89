"""Cloned voices on a real disk: restarts, half-written files, deletion, a disk that is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from app.errors import StorageError, StorageFullError, TooManyVoicesError
from app.voices.store import SAMPLE_RATE, StoredVoice, VoiceStore, is_voice_id
from models.contract import Conditioning

PCM = (0.25 * np.sin(np.arange(2 * SAMPLE_RATE) / 20)).astype(np.float32)
MADE = Conditioning({"speaker": np.arange(4, dtype=np.float32), "tokens": np.arange(3, dtype=np.int32)})


def store(folder: Path, most: int = 10) -> VoiceStore:
    return VoiceStore(folder / "voices", max_voices=most)


@pytest.fixture
def subject(tmp_path: Path) -> VoiceStore:
    return store(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "voices").iterdir() if path.name != ".lock")


def test_a_voice_survives_a_restart(tmp_path: Path) -> None:
    added = store(tmp_path).add("Ada, 12 ✓", PCM, language="en-gb", gender="female")
    assert is_voice_id(added.id)
    again = store(tmp_path)
    again.sweep()
    assert again.get(added.id) == added
    assert again.voices() == [added]
    assert (added.name, added.seconds, added.language, added.gender) == ("Ada, 12 ✓", 2.0, "en-gb", "female")
    assert np.array_equal(again.recording(added.id), PCM)
    assert oct((tmp_path / "voices").stat().st_mode & 0o777) == "0o700"


def test_conditioning_is_kept_per_model(subject: VoiceStore, tmp_path: Path) -> None:
    voice = subject.add("a", PCM).id
    assert subject.conditioning(voice, "chatterbox") is None
    subject.keep_conditioning(voice, "chatterbox", MADE)
    kept = store(tmp_path).conditioning(voice, "chatterbox")
    assert {name: array.tolist() for name, array in kept.arrays.items()} == {
        "speaker": [0, 1, 2, 3],
        "tokens": [0, 1, 2],
    }
    assert kept.arrays["tokens"].dtype == np.int32
    assert store(tmp_path).conditioning(voice, "chatterbox-turbo") is None


def test_a_file_of_another_model_under_this_ones_name_is_not_believed(subject: VoiceStore, tmp_path: Path) -> None:
    voice = subject.add("a", PCM).id
    subject.keep_conditioning(voice, "chatterbox", MADE)
    folder = tmp_path / "voices"
    (folder / f"{voice}.chatterbox.safetensors").rename(folder / f"{voice}.chatterbox-turbo.safetensors")
    assert subject.conditioning(voice, "chatterbox-turbo") is None
    assert names(tmp_path) == [f"{voice}.safetensors"]


def test_voices_share_names_but_not_ids(subject: VoiceStore) -> None:
    first, second = subject.add("same", PCM), subject.add("same", PCM)
    assert first.id != second.id
    assert [voice.name for voice in subject.voices()] == ["same", "same"]


def test_removal_takes_all_that_was_made_of_it(subject: VoiceStore, tmp_path: Path) -> None:
    kept, gone = subject.add("kept", PCM).id, subject.add("gone", PCM).id
    for voice in (kept, gone):
        subject.keep_conditioning(voice, "chatterbox", MADE)
    assert subject.remove(gone)
    assert not subject.remove(gone)
    assert subject.get(gone) is None
    assert subject.recording(gone) is None
    assert names(tmp_path) == [f"{kept}.chatterbox.safetensors", f"{kept}.safetensors"]
    subject.keep_conditioning(gone, "chatterbox", MADE)  # computed while it was deleted
    assert len(names(tmp_path)) == 2


def test_another_process_may_add_and_remove(tmp_path: Path) -> None:
    ours, theirs = store(tmp_path), store(tmp_path)
    voice = theirs.add("theirs", PCM)
    assert ours.voices() == [voice]
    theirs.remove(voice.id)
    assert ours.get(voice.id) is None
    assert ours.voices() == []


def test_what_another_process_changed_is_read_again(subject: VoiceStore, tmp_path: Path) -> None:
    voice = subject.add("before", PCM)
    path = tmp_path / "voices" / f"{voice.id}.safetensors"
    assert subject.get(voice.id).name == "before"
    with safe_open(str(path), framework="numpy") as file:
        header = file.metadata()
    save_file(load_file(path), tmp_path / "new", header | {"name": "after"})
    (tmp_path / "new").replace(path)
    assert subject.get(voice.id).name == "after"


def test_a_file_that_is_not_named_by_an_id_is_no_voice(subject: VoiceStore, tmp_path: Path) -> None:
    voice = subject.add("a", PCM)
    folder = tmp_path / "voices"
    (folder / "voice_copy.safetensors").write_bytes((folder / f"{voice.id}.safetensors").read_bytes())
    assert subject.voices() == [voice]


def test_a_voice_deleted_while_its_conditioning_is_written(
    subject: VoiceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = subject.add("a", PCM)
    put = Path.replace

    def deleted(self: Path, target: Path) -> Path:
        store(tmp_path).remove(voice.id)
        return put(self, target)

    monkeypatch.setattr(Path, "replace", deleted)
    subject.keep_conditioning(voice.id, "chatterbox", MADE)
    assert names(tmp_path) == []


def test_there_is_a_limit(tmp_path: Path) -> None:
    subject = store(tmp_path, most=2)
    voices = [subject.add("x", PCM).id for _ in range(2)]
    with pytest.raises(TooManyVoicesError, match="2 voices"):
        subject.add("x", PCM)
    subject.remove(voices[0])
    subject.add("x", PCM)


ID = "voice_" + "0" * 24


@pytest.mark.parametrize(
    "name",
    ["", "voice_", "voice_../../etc/passwd", f"../{ID}", ID[:-1], ID.upper(), "voice_" + "g" * 24, f"{ID}/..",
     f"{ID}\n", "voice_" + "０" * 24],
)  # fmt: skip
def test_no_other_text_becomes_a_path(subject: VoiceStore, tmp_path: Path, name: str) -> None:
    subject.add("a", PCM)
    (tmp_path / "passwd.safetensors").touch()
    assert not is_voice_id(name)
    assert subject.get(name) is None
    assert subject.recording(name) is None
    assert subject.conditioning(name, "chatterbox") is None
    assert not subject.remove(name)
    subject.keep_conditioning(name, "chatterbox", MADE)
    subject.forget_conditioning(name, "chatterbox")
    assert len(names(tmp_path)) == 1
    assert (tmp_path / "passwd.safetensors").exists()


@pytest.mark.parametrize("model", ["../x", "", ".x", "a/b", "A", "x" * 65])
def test_nor_does_a_model(subject: VoiceStore, tmp_path: Path, model: str) -> None:
    voice = subject.add("a", PCM).id
    subject.keep_conditioning(voice, model, MADE)
    assert subject.conditioning(voice, model) is None
    assert names(tmp_path) == [f"{voice}.safetensors"]


def test_what_an_interruption_left_is_swept_and_said(subject: VoiceStore, tmp_path: Path, caplog: Any) -> None:
    voice = subject.add("whole", PCM).id
    subject.keep_conditioning(voice, "chatterbox", MADE)
    folder = tmp_path / "voices"
    orphan = f"voice_{'0' * 24}.chatterbox.safetensors"
    partial = f"voice_{'1' * 24}.safetensors.abcd.partial"
    (folder / partial).write_bytes(b"half")
    save_file({"x": np.zeros(1)}, folder / orphan)
    (folder / "notes.txt").write_text("a person's")
    store(tmp_path).sweep()
    assert names(tmp_path) == ["notes.txt", f"{voice}.chatterbox.safetensors", f"{voice}.safetensors"]
    assert orphan in caplog.text
    assert partial in caplog.text


@pytest.mark.parametrize("keep", [0, 4, 8, 40, 600, 20_000])
def test_a_truncated_recording_is_no_voice_and_is_left_alone(
    subject: VoiceStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, keep: int
) -> None:
    whole, damaged = subject.add("whole", PCM), subject.add("damaged", PCM)
    path = tmp_path / "voices" / f"{damaged.id}.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    again = store(tmp_path)
    again.sweep()
    assert again.voices() == [whole]
    assert again.get(damaged.id) is None
    assert again.recording(damaged.id) is None
    assert path.exists()
    assert damaged.id in caplog.text


def test_a_file_that_says_nothing_of_consent_is_no_voice(subject: VoiceStore, tmp_path: Path) -> None:
    voice = subject.add("a", PCM).id
    path = tmp_path / "voices" / f"{voice}.safetensors"
    save_file(load_file(path), path, {"format": "nightingale-voice-1", "name": "a", "created": "1", "seconds": "2.0"})
    assert store(tmp_path).get(voice) is None


@pytest.mark.parametrize("keep", [0, 9, 100])
def test_a_damaged_conditioning_is_made_again(subject: VoiceStore, tmp_path: Path, keep: int) -> None:
    voice = subject.add("a", PCM).id
    subject.keep_conditioning(voice, "chatterbox", MADE)
    path = tmp_path / "voices" / f"{voice}.chatterbox.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert subject.conditioning(voice, "chatterbox") is None
    assert not path.exists()


def test_nobody_sweeps_while_another_writes(subject: VoiceStore, tmp_path: Path, monkeypatch: Any) -> None:
    writing, swept = threading.Event(), threading.Event()
    sync = os.fsync

    def slow(descriptor: int) -> None:
        writing.set()
        assert swept.wait(60)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    added: list[StoredVoice] = []
    thread = threading.Thread(target=lambda: added.append(subject.add("slow", PCM)))
    thread.start()
    assert writing.wait(60)
    store(tmp_path).sweep()
    swept.set()
    thread.join(60)
    assert store(tmp_path).voices() == added


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing_behind(
    subject: VoiceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    voice = subject.add("before", PCM)

    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(*((os, "fsync", full) if call == "fsync" else (Path, "replace", full)))
    for attempt in (lambda: subject.add("after", PCM), lambda: subject.keep_conditioning(voice.id, "chatterbox", MADE)):
        with pytest.raises(StorageFullError, match=os.strerror(number)) as caught:
            attempt()
        assert (caught.value.status, caught.value.code) == (507, "storage_full")
    monkeypatch.undo()
    assert names(tmp_path) == [f"{voice.id}.safetensors"]
    subject.add("after", PCM)


def test_a_file_system_that_takes_no_more_bytes(tmp_path: Path) -> None:
    """By the kernel itself: a process that may write no file beyond 100 kB."""
    program = f"""
import resource, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, {str(Path.cwd())!r})
from app.errors import StorageFullError
from app.voices.store import VoiceStore
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store = VoiceStore(Path({str(tmp_path / "voices")!r}), max_voices=9)
try:
    store.add("x", np.zeros(48_000, np.float32))
except StorageFullError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert names(tmp_path) == []


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "voices").write_text("a file in the directory's place")
    with pytest.raises(StorageError) as caught:
        store(tmp_path).add("x", PCM)
    assert caught.value.status == 500
