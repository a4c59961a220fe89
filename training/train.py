"""Train the house voice (PyTorch).

    python -m training.train build/house/corpus.tsv build/house/run [--seconds 1500] [--init init.npz]

The teacher speaks the corpus first, which is the same from the same seed; nothing of its audio is written to disk.
Writes `weights.npz` (the moving average, float16), `discriminators.npz`, `checkpoint.pt` (to resume from),
`curves.csv` and `train.log`.
A run that finds its checkpoint goes on from it.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

from training.data import Batch, Corpus, Feeder
from training.layers import Fused
from training.teacher import Line, Prosody, Teacher, Utterances
from training.trainer import NAMES, Trainer, load_parameters
from training.voices import READERS, VOICES

VOICE_TABLE = "voices.weight"
WARMUP_STEPS = 200
LOWEST_RATE = 0.02  # of the peak


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the house voice.")
    parser.add_argument("corpus", type=Path, help="language, text and phonemes of each line, as training.corpus writes")
    parser.add_argument("run", type=Path, help="folder of the run's log, curves, checkpoint and weights")
    parser.add_argument("--teacher", type=Path, default=Path("build/real/models/kokoro-82m"))
    parser.add_argument("--teach-seconds", type=float, default=120.0, help="let the teacher speak for so long")
    parser.add_argument("--own-start", type=float, default=0.7, help="share of the schedule before own prosody")
    parser.add_argument("--own-seconds", type=float, default=40.0, help="let it speak so long with the prosody learned")
    parser.add_argument("--config", type=Path, default=Path("models/house/config.json"))
    parser.add_argument("--init", type=Path, help="begin from the weights.npz of another run instead of from noise")
    parser.add_argument("--discriminators", type=Path, help="begin with the discriminators.npz of another run")
    parser.add_argument(
        "--discriminators-first", type=float, default=0.0, help="share of the schedule in which only they learn"
    )
    parser.add_argument("--steps", type=int, default=4500, help="steps of the whole schedule")
    parser.add_argument("--seconds", type=float, help="shorten the schedule to end within this time of this process")
    parser.add_argument("--rate", type=float, default=6e-4, help="peak learning rate")
    parser.add_argument("--frames", type=int, default=2400, help="frames of audio in a batch (40 a second)")
    parser.add_argument("--adversarial-start", type=float, default=0.08, help="share of the schedule before it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true", help="do not compile the norms (needs a compiler)")
    parser.add_argument("--no-graphs", action="store_true", help="launch every kernel of a step by itself")
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--save-every", type=int, default=1000)
    return parser.parse_args(argv)


def learning_rate(peak: float, progress: float, step: int) -> float:
    """Cosine from `peak` to nearly 0 over `progress` in [0, 1], after a linear warm-up by steps."""
    cosine = max(LOWEST_RATE, 0.5 * (1 + math.cos(math.pi * progress)))
    return peak * cosine * min(1.0, (step + 1) / WARMUP_STEPS)


def adversarial_weight(progress: float, start: float) -> float:
    """0 before `start`, then from 0.05 up to 1 over 4 % of the schedule."""
    return min(1.0, (progress - start) / 0.04 + 0.05) if progress >= start else 0.0


def write_weights(path: Path, network: torch.nn.Module) -> None:
    """The parameters of a network under its names, which are the reference's, float16, replaced at once."""
    arrays = {name: p.detach().half().cpu().numpy() for name, p in network.named_parameters()}
    partial = path.with_suffix(".part.npz")
    np.savez(partial, **arrays)
    partial.replace(path)


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The arrays that `write_weights` (or `training.export --unpack`) wrote, as float32 tensors."""
    with np.load(path) as data:
        return {name: torch.from_numpy(data[name].astype(np.float32)) for name in data.files}


class Log:
    """`train.log` and `curves.csv`, appended to and echoed."""

    def __init__(self, run: Path) -> None:
        self._text = (run / "train.log").open("a", encoding="utf-8")
        curves = run / "curves.csv"
        fresh = not curves.exists()
        self._file = curves.open("a", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file)
        if fresh:
            self._rows.writerow(["step", "seconds", "progress", "rate", "hours", *NAMES])

    def close(self) -> None:
        self._text.close()
        self._file.close()

    def say(self, text: str) -> None:
        for out in (None, self._text):
            print(text, file=out, flush=True)

    def row(self, *, step: int, seconds: float, progress: float, rate: float, hours: float, means: list[float]) -> None:
        self._rows.writerow([step, f"{seconds:.1f}", f"{progress:.4f}", f"{rate:.3e}", f"{hours:.3f}"]
                            + [f"{value:.5g}" for value in means])  # fmt: skip
        self._file.flush()
        losses = " ".join(f"{name} {value:.4g}" for name, value in zip(NAMES, means, strict=True))
        self.say(f"step {step} at {seconds:.0f} s, {progress:.1%}, rate {rate:.1e}: {losses}")


def read_lines(path: Path, vocabulary: dict[str, int], seed: int) -> list[Line]:
    """Return every line of a corpus by every voice that reads its language, shuffled."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        language, _, phonemes = text.split("\t")
        ids = np.array([0, *(vocabulary[symbol] for symbol in phonemes), 0])
        lines.extend(Line(ids, VOICES.index(voice)) for voice in READERS[language])
    random.Random(seed).shuffle(lines)
    return lines


def within(seconds: float, spoken: Iterator[Utterances]) -> Iterator[Utterances]:
    """Yield what is spoken until the time is over."""
    end = time.monotonic() + seconds
    for each in spoken:
        yield each
        if time.monotonic() > end:
            return


def prepare(options: argparse.Namespace, log: Log) -> Trainer:
    """Seed everything, build, and load the checkpoint or the initial weights."""
    device = torch.device(options.device)
    random.seed(options.seed)
    np.random.seed(options.seed)  # libraries' own draws, if any
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    if not options.no_compile:
        Fused.compile()
    config = json.loads(options.config.read_text(encoding="utf-8"))
    on_gpu = device.type == "cuda"
    if on_gpu:  # a graph can be recorded on any stream but the first, and gradients keep the stream they began on
        torch.cuda.set_stream(torch.cuda.Stream())
        torch.cuda.set_per_process_memory_fraction(0.8)  # Fourier transforms take memory of their own
    trainer = Trainer(config, device, amp=on_gpu, graphs=on_gpu and not options.no_graphs)
    checkpoint = options.run / "checkpoint.pt"
    if checkpoint.exists():
        trainer.resume(torch.load(checkpoint, map_location=device, weights_only=True))
        log.say(f"resumed at step {trainer.steps}")
    elif options.init:
        trainer.load_weights(read_weights(options.init))
        log.say(f"began from {options.init.name}")
    if options.discriminators and not checkpoint.exists():
        load_parameters(trainer.judges, read_weights(options.discriminators))
        log.say(f"began with {options.discriminators.name}")
    count = sum(p.numel() for p in trainer.network.parameters())
    log.say(f"{count / 1e6:.2f} M parameters, {len(VOICES)} voices, {device}, torch {torch.__version__}")
    return trainer


class Lessons:
    """What the teacher speaks: first with its own prosody, later also with the network's."""

    def __init__(self, options: argparse.Namespace, trainer: Trainer, log: Log) -> None:
        self._options, self._trainer, self._log = options, trainer, log
        self.teacher = Teacher(options.teacher, trainer.device)
        self._lines = read_lines(options.corpus, self.teacher.vocabulary, options.seed)
        self._corpus = Corpus(trainer.device)
        self._say(self._corpus, None, options.teach_seconds)
        self.feeder = self._feeder([self._corpus])
        self.own = False

    def _feeder(self, corpora: list[Corpus]) -> Iterator[Batch]:
        options = self._options
        return iter(Feeder(corpora, seed=options.seed, first=self._trainer.steps, frames=options.frames))

    def _say(self, corpus: Corpus, prosody: Prosody | None, seconds: float) -> None:
        started = time.monotonic()
        corpus.add(
            within(seconds, self.teacher.speak(self._lines, prosody)), None if prosody is None else self._corpus.gains
        )
        self._log.say(f"{corpus.summary()}; in {time.monotonic() - started:.1f} s")

    def add_own_prosody(self) -> None:
        """Let every second batch have the durations, F0 and energy that the network predicts: it is used with them."""
        self.own = True
        own = Corpus(self._trainer.device, learns_prosody=False)
        self._lines.reverse()
        self._say(own, Prosody(self._trainer.average), self._options.own_seconds)
        self.feeder = self._feeder([self._corpus, own])


def save(options: argparse.Namespace, trainer: Trainer) -> None:
    partial = options.run / "checkpoint.part"
    torch.save(trainer.state(), partial)
    partial.replace(options.run / "checkpoint.pt")
    write_weights(options.run / "weights.npz", trainer.average)
    write_weights(options.run / "discriminators.npz", trainer.judges)


def main(argv: Sequence[str] | None = None) -> None:
    """Train until the schedule is over."""
    options = parse(argv)
    options.run.mkdir(parents=True, exist_ok=True)
    with closing(Log(options.run)) as log:
        run(options, log)


def run(options: argparse.Namespace, log: Log) -> None:
    """Train step by step until the schedule is over."""
    started = time.monotonic()
    trainer = prepare(options, log)
    lessons = Lessons(options, trainer, log)
    sums, count, heard = torch.zeros(len(NAMES), device=trainer.device), 0, 0.0
    gc.collect()
    gc.freeze()
    begun = time.monotonic()
    while True:
        elapsed = time.monotonic() - started
        progress = trainer.steps / options.steps
        if options.seconds:
            progress = max(progress, (time.monotonic() - begun) / (options.seconds - (begun - started)))
        if progress >= 1:
            break
        if progress >= options.own_start and not lessons.own:
            lessons.add_own_prosody()
        batch = next(lessons.feeder)
        rate = learning_rate(options.rate, progress, trainer.steps)
        adversarial = adversarial_weight(progress, options.adversarial_start)
        network_learns = progress >= options.discriminators_first
        sums += trainer.step(batch, rate=rate, adversarial=adversarial, network_learns=network_learns)
        count, heard = count + 1, heard + batch.seconds / 3600
        if trainer.steps % options.log_every == 0:
            means = (sums / count).tolist()
            log.row(step=trainer.steps, seconds=elapsed, progress=progress, rate=rate, hours=heard, means=means)
            if not all(map(math.isfinite, means)):
                raise SystemExit(f"a loss is not finite at step {trainer.steps}")
            sums.zero_()
            count = 0
        if trainer.steps % options.save_every == 0:
            save(options, trainer)
    save(options, trainer)
    log.say(f"done at step {trainer.steps} after {time.monotonic() - started:.0f} s, {heard:.1f} h of audio seen")


if __name__ == "__main__":
    main()
