"""The teacher: flite's audio and phone timings for every line of a corpus, cut into token durations.

    python -m training.teacher build/house/corpus.tsv build/house/shards [--jobs 16] [--part rms:0:5000 ...]

Writes shards `00000.npz`, `00001.npz`, ...: whole utterances at 16 kHz with their token ids and durations. A shard
appears under its name only when it is complete, so training may start while later ones are still being made.
Set the FLITE program with `--flite` where it is not on the path.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
import wave
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.alignment import FRAME_RATE, AlignmentError, align

TEACHER_RATE = 16000
SAMPLES_PER_FRAME = round(TEACHER_RATE / FRAME_RATE)
VOICES = ("rms", "slt")  # the order of the rows of the voice table
MIN_FRAMES, MAX_FRAMES = 16, 1280
MAX_COST = 0.30  # above this the teacher said something else than the phonemes (about one line in 500)
MAX_DURATION = 49
SHARD_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Job:
    """One utterance to make. `part` of the corpus is read in the order of its lines."""

    text: str
    phonemes: str
    voice: str


@dataclass(frozen=True, slots=True)
class Recording:
    """A teacher's utterance: token ids with both boundaries, frames of each, int16 audio at 16 kHz, voice index."""

    ids: npt.NDArray[np.int16]
    durations: npt.NDArray[np.int16]
    audio: npt.NDArray[np.int16]
    voice: int


def parse_phones(output: str) -> list[tuple[str, float]]:
    """flite's `-psdur` line, `name:end name:end ...`, as (name, end in seconds)."""
    pairs = (item.rsplit(":", 1) for item in output.split())
    return [(name, float(end)) for name, end in pairs]


def plain(text: str) -> str:
    """`text` in marks that flite pauses at: it reads no dash and no ellipsis of one character."""
    return re.sub(r"\s*—\s*", ", ", text).replace("…", "...")


def speak(text: str, voice: str, flite: str = "flite") -> tuple[list[tuple[str, float]], npt.NDArray[np.int16]]:
    """The teacher's phones (name, end in seconds) and audio (int16 [samples] at 16 kHz) for `text`.

    Raises RuntimeError when flite fails or gives another sample rate.
    """
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        command = [flite, "-voice", voice, "-psdur", "-t", plain(text), "-o", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"flite failed on {text!r}: {done.stderr.strip()}")
        with wave.open(file.name) as reader:
            if reader.getframerate() != TEACHER_RATE:
                raise RuntimeError(f"flite's voice {voice} speaks at {reader.getframerate()} Hz, not {TEACHER_RATE}")
            audio = np.frombuffer(reader.readframes(reader.getnframes()), np.int16)
    return parse_phones(done.stdout), audio


def record(job: Job, vocabulary: dict[str, int], flite: str) -> Recording | None:
    """Speak and align one line; None where it is too short, too long, or the teacher said something else."""
    phones, audio = speak(job.text, job.voice, flite)
    if not phones:
        return None
    frames = round(phones[-1][1] * FRAME_RATE)
    if not MIN_FRAMES <= frames <= MAX_FRAMES:
        return None
    try:
        alignment = align(job.phonemes, phones, frames)
    except AlignmentError:
        return None
    if alignment.cost > MAX_COST or max(alignment.durations) > MAX_DURATION:
        return None
    samples = frames * SAMPLES_PER_FRAME
    audio = np.pad(audio[:samples], (0, max(0, samples - len(audio))))
    ids = [0, *(vocabulary[symbol] for symbol in job.phonemes), 0]
    return Recording(np.array(ids, np.int16), np.array(alignment.durations, np.int16), audio, VOICES.index(job.voice))


def write_shard(path: Path, recordings: Sequence[Recording]) -> None:
    """Save recordings end to end, with the number of tokens and of samples of each."""
    partial = path.with_suffix(".part.npz")
    np.savez(
        partial,
        ids=np.concatenate([r.ids for r in recordings]),
        durations=np.concatenate([r.durations for r in recordings]),
        audio=np.concatenate([r.audio for r in recordings]),
        tokens=np.array([len(r.ids) for r in recordings]),
        samples=np.array([len(r.audio) for r in recordings]),
        voice=np.array([r.voice for r in recordings], np.int8),
    )
    partial.rename(path)


def read_shard(path: Path) -> list[Recording]:
    """The recordings of one shard."""
    with np.load(path) as data:
        token_ends, sample_ends = np.cumsum(data["tokens"])[:-1], np.cumsum(data["samples"])[:-1]
        parts = zip(
            np.split(data["ids"], token_ends),
            np.split(data["durations"], token_ends),
            np.split(data["audio"], sample_ends),
            data["voice"].tolist(),
            strict=True,
        )
        return [Recording(*part) for part in parts]


def shards_in(folder: Path) -> list[Path]:
    """Complete shards, in order."""
    return sorted(path for path in folder.glob("*.npz") if not path.name.endswith(".part.npz"))


def read_corpus(path: Path) -> list[tuple[str, str]]:
    """(text, phonemes) of every line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(text, phonemes) for _, text, phonemes in (line.split("\t") for line in lines)]


def jobs_for(lines: Sequence[tuple[str, str]], parts: Iterable[str]) -> list[Job]:
    """Jobs of `voice:start:stop` parts, interleaved so that every shard holds every voice.

    Raises ValueError for a part that is not of this form or names another voice.
    """
    groups = []
    for part in parts:
        voice, *limits = part.split(":")
        if voice not in VOICES or len(limits) != 2:
            raise ValueError(f"part {part!r} must be voice:start:stop with a voice of {', '.join(VOICES)}")
        start, stop = (int(limit) for limit in limits)
        groups.append([Job(text, phonemes, voice) for text, phonemes in lines[start:stop]])
    longest = max(map(len, groups), default=0)
    return [group[i] for i in range(longest) for group in groups if i < len(group)]


class _Worker:
    """Callable for a process pool: a job in, a recording out."""

    def __init__(self, vocabulary: dict[str, int], flite: str) -> None:
        self.vocabulary, self.flite = vocabulary, flite

    def __call__(self, job: Job) -> Recording | None:
        return record(job, self.vocabulary, self.flite)


def batched(items: Iterable[Recording], size: int) -> Iterator[list[Recording]]:
    """Lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def main(argv: Sequence[str] | None = None) -> None:
    """Make the shards that the arguments ask for."""
    parser = argparse.ArgumentParser(description="Make the teacher's audio and its alignment.")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("shards", type=Path, help="folder to write to; numbering goes on after what is there")
    parser.add_argument("--config", type=Path, default=Path("models/house/config.json"), help="for the vocabulary")
    parser.add_argument(
        "--part", action="append", help="voice:start:stop, lines of the corpus; default: all, per voice"
    )
    parser.add_argument("--flite", default="flite")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    vocabulary = json.loads(options.config.read_text(encoding="utf-8"))["vocab"]
    lines = read_corpus(options.corpus)
    jobs = jobs_for(lines, options.part or [f"{voice}:0:{len(lines)}" for voice in VOICES])
    options.shards.mkdir(parents=True, exist_ok=True)
    first = len(shards_in(options.shards))
    started, kept, samples = time.monotonic(), 0, 0
    with Pool(options.jobs) as pool:
        # Ordered results: the shards depend on the corpus alone, not on which process was faster.
        made = pool.imap(_Worker(vocabulary, options.flite), jobs, chunksize=8)
        for number, recordings in enumerate(batched((r for r in made if r is not None), SHARD_SIZE), first):
            write_shard(options.shards / f"{number:05d}.npz", recordings)
            kept += len(recordings)
            samples += sum(len(r.audio) for r in recordings)
    hours, seconds = samples / TEACHER_RATE / 3600, time.monotonic() - started
    print(f"{kept} utterances, {len(jobs) - kept} rejected, {hours:.2f} h of audio in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
