"""Train the ear (PyTorch).

    python -m training.ear.train build/ear build/ear/run --teacher FOLDER [--seconds 1200] [--init models/ear]

Teachers say the lines on the training device: `--first` hours before the first step, then more of them, by other
speakers, until FRESH of the schedule is over. Writes `weights.npz` (the moving average, float16), `checkpoint.pt` (to
resume from) and `train.log`. A run that finds its checkpoint goes on from it.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from training.ear.augment import Augmentation
from training.ear.data import BUCKET, MAX_SAMPLES, MAX_SECONDS, Batch, Corpus, batches
from training.ear.features import HOP, RATE, log_mel, masked, resampled, warped
from training.ear.greedy import begin_tokens
from training.ear.initial import read_initial
from training.ear.kokoro import speech
from training.ear.lines import TOKENS, read_lines
from training.ear.network import Ear, Sizes, frame_mask
from training.layers import Fused

WARMUP_STEPS = 500
DECAY = 0.9995  # of the moving average
EASY_SECONDS = 4.0
CTC, INTER, SMOOTHING = 0.3, 0.3, 0.1  # weight of CTC, share of the middle block in it, of the labels
CLEAN, CLEAN_STRENGTH = 0.15, 1 / 2  # last share of the schedule, and its share of the strength
FRESH = 0.6  # share of the schedule in which new speech arrives
SPEAKING = 0.3  # most of the time that teachers may take, half of it before the first step
NAMES = ("loss", "ctc", "inter", "decoder", "skipped")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the ear.")
    parser.add_argument("ear", type=Path, help="folder of tokenizer.json and lines.tsv.gz")
    parser.add_argument("run", type=Path)
    parser.add_argument("--teacher", type=Path, nargs="+", required=True, help="folders of Kokoro's or the house's")
    parser.add_argument("--hours", type=float, default=60.0, help="of speech in all")
    parser.add_argument("--first", type=float, default=25.0, help="hours of speech before the first step")
    parser.add_argument("--steps", type=int, default=40_000, help="steps of the whole schedule")
    parser.add_argument("--seconds", type=float, help="shorten the schedule to end within this time of this process")
    parser.add_argument("--init", type=Path, help="begin with these weights: weights*.npz, their folder, or models/ear")
    parser.add_argument("--rate", type=float, help="peak learning rate (1.2e-3; with --init 6e-4)")
    parser.add_argument("--batch", type=float, help="seconds of audio in a batch (300; with --init 600)")
    parser.add_argument("--easy", type=float, help="share of the schedule of short, clear utterances (0.15; 0)")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--strength", type=float, default=1.0, help="share in [0, 1] of the usual distortions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", type=json.loads, default={}, help='JSON, such as {"n_audio_layer": 4}')
    parser.add_argument("--compile", action="store_true", help="the teachers' norms: half a minute, then faster speech")
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--save-every", type=float, default=120.0, help="seconds")
    options = parser.parse_args(argv)
    for name, fresh, begun in (("rate", 1.2e-3, 6e-4), ("batch", 300.0, 600.0), ("easy", 0.15, 0.0)):
        if getattr(options, name) is None:
            setattr(options, name, begun if options.init else fresh)
    if not 0 <= options.strength <= 1 or not 0 <= options.dropout < 1:
        parser.error("--strength is in [0, 1], --dropout in [0, 1)")
    return options


def learning_rate(peak: float, progress: float, step: int) -> float:
    """Cosine from `peak` to nearly 0 over `progress` in [0, 1], after a linear warm-up by steps."""
    return peak * max(0.01, 0.5 * (1 + math.cos(math.pi * progress))) * min(1.0, (step + 1) / WARMUP_STEPS)


def difficulty(easy: float, progress: float) -> float:
    """Return 0 in the share `easy` of the schedule, then up to 1 in as long: alignment is learned on clear speech."""
    return min(1.0, max(0.0, progress / easy - 1)) if easy else 1.0


def strength_of(full: float, progress: float) -> float:
    """Return the strength of the distortions: `full`, and half of it near the end, since the ear hears a server."""
    return full * (CLEAN_STRENGTH if progress >= 1 - CLEAN else 1.0)


def longest_utterance(hard: float) -> float:
    """Return the most seconds of an utterance at a difficulty in [0, 1]."""
    return EASY_SECONDS + (MAX_SECONDS - EASY_SECONDS) * hard


class Trainer:
    """Network, its moving average and the optimizer."""

    def __init__(
        self, tokenizer: Tokenizer, sizes: Sizes, device: torch.device, seed: int, dropout: float = 0.1
    ) -> None:
        torch.manual_seed(seed)
        self.device, self.steps, self.progress = device, 0, 0.0
        self.network = Ear(sizes, TOKENS, dropout).to(device)
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self._augment, self._rng = Augmentation(device, seed), random.Random(seed)
        self._begin = begin_tokens(tokenizer)
        self._end = tokenizer.token_to_id("<|endoftext|>")
        decayed = [p for p in self.network.parameters() if p.ndim > 1]
        others = [p for p in self.network.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=device.type == "cuda")

    def begin(self, path: Path) -> None:
        """Begin with the weights of a run or of the product, which may have fewer blocks.

        Raises RuntimeError where their widths are others.
        """
        initial = {name: torch.from_numpy(array) for name, array in read_initial(path).items()}
        initial.setdefault("encoder.positional_embedding", self.network.encoder.positional_embedding)
        for name, drawn in self.network.state_dict().items():
            if ".blocks." in name:  # one that the weights lack begins as none: what it adds is zero
                silent = name.endswith((".out.weight", ".out.bias", ".mlp.2.weight", ".mlp.2.bias"))
                initial.setdefault(name, torch.zeros_like(drawn) if silent else drawn)
        for network in (self.network, self.average):
            network.load_state_dict(initial)

    def inputs(self, batch: Batch, hard: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features [B, MELS, T] of the distorted batch; on the host, the encoder's frames [B]."""
        low = max(0.85, batch.audio.shape[1] / MAX_SAMPLES)
        drawn = low + (1.15 - low) * self._rng.random()
        factor = max(low, 1 + (drawn - 1) * hard)
        audio = resampled(batch.audio, factor)
        audio = F.pad(audio, (0, -audio.shape[1] % BUCKET))
        samples = (batch.samples / factor).astype(np.int64)
        audio = self._augment(audio, hard)
        # Half the batches end with each utterance, and the others in what the room and the noise leave.
        if self._rng.random() < 0.5:
            samples = np.full_like(samples, audio.shape[1])
        else:
            ends = torch.from_numpy(samples).to(self.device)
            audio = audio * (torch.arange(audio.shape[1], device=self.device) < ends[:, None])
        mel = log_mel(audio)
        if self._rng.random() < 0.7 * hard:
            mel = warped(mel, self._augment.rng)
        if self._rng.random() < hard:
            mel = masked(mel, self._augment.rng)
        return mel, torch.from_numpy((samples // (2 * HOP)).clip(min=1))

    def losses(self, mel: torch.Tensor, frames: torch.Tensor, batch: Batch) -> list[torch.Tensor]:
        """Return the losses, the first of NAMES."""
        network = self.network
        mask = frame_mask(frames.to(self.device), mel.shape[2] // 2)
        lengths = torch.from_numpy(batch.lengths)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            states, middle = network.encoder(mel, mask)
            begin = torch.tensor(self._begin, device=self.device).expand(len(frames), -1)
            logits = network.decoder(torch.cat([begin, batch.tokens.clamp(min=0)], 1), states, mask)
            heads = [network.ctc(each) for each in (states, middle)]
        wanted = F.pad(batch.tokens, (0, 1), value=-1)
        wanted[torch.arange(len(frames), device=self.device), lengths.to(self.device)] = self._end
        read = logits[:, len(self._begin) - 1 :].float()
        decoder = F.cross_entropy(read.flatten(0, 1), wanted.flatten(), ignore_index=-1, label_smoothing=SMOOTHING)
        # Lengths on the host: the loss would wait for the device to read them.
        ctc, inter = (
            F.ctc_loss(
                head.float().log_softmax(-1).transpose(0, 1), batch.tokens.clamp(min=0), frames, lengths,
                blank=network.labels, zero_infinity=True,
            )
            for head in heads
        )  # fmt: skip
        total = (1 - CTC) * decoder + CTC * ((1 - INTER) * ctc + INTER * inter)
        return [total, ctc, inter, decoder]

    def step(self, batch: Batch, rate: float, hard: float = 1.0) -> torch.Tensor:
        """Learn from a batch at a difficulty in [0, 1]; return the values of NAMES."""
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with torch.no_grad():
            mel, frames = self.inputs(batch, hard)
        losses = self.losses(mel, frames, batch)
        self.optimizer.zero_grad(set_to_none=True)
        losses[0].backward()  # type: ignore[no-untyped-call]
        parameters = list(self.network.parameters())
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for parameter in parameters:  # a gradient that is not finite makes all of them so: the step learns nothing
            if parameter.grad is not None:
                parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        self.optimizer.step()
        self.steps += 1
        decay = min(DECAY, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.network.parameters()), 1 - decay)
        return torch.stack([*(loss.detach().nan_to_num(0.0, 0.0, 0.0) for loss in losses), (~norm.isfinite()).float()])

    def state(self) -> dict[str, object]:
        """Return all that a later process needs to go on."""
        parts = {"network": self.network, "average": self.average, "optimizer": self.optimizer}
        numbers = {"steps": self.steps, "progress": self.progress}
        return {name: part.state_dict() for name, part in parts.items()} | numbers

    def resume(self, state: dict[str, object]) -> None:
        """Go on from `state`."""
        for name, part in (("network", self.network), ("average", self.average), ("optimizer", self.optimizer)):
            part.load_state_dict(state[name])  # type: ignore[arg-type]
        self.steps, self.progress = int(state["steps"]), float(state["progress"])  # type: ignore[call-overload, arg-type]


class Listening:
    """Fills the corpus up to what the schedule wants, in a bounded share of the time."""

    def __init__(self, corpus: Corpus, options: argparse.Namespace, first_step: int) -> None:
        lines = read_lines(options.ear / "lines.tsv.gz")
        self._corpus, self._options, self._spent = corpus, options, 0.0
        self._spoken = speech(options.teacher, lines, torch.device(options.device), options.seed + first_step)

    def fill(self, progress: float) -> None:
        """Add speech until there are hours enough for the progress of the schedule, or its time is spent."""
        first, total, share = self._options.first, self._options.hours, min(1.0, progress / FRESH)
        seconds = self._options.seconds or math.inf
        while self._corpus.hours < first + (total - first) * share:
            if len(self._corpus) and self._spent > SPEAKING * seconds * (1 + share) / 2:
                break
            started = time.monotonic()
            self._corpus.add(*next(self._spoken))
            self._spent += time.monotonic() - started


def save(run: Path, trainer: Trainer) -> None:
    """Write the checkpoint and the moving average's weights, each replaced at once."""
    partial = run / "checkpoint.part"
    torch.save(trainer.state(), partial)
    partial.replace(run / "checkpoint.pt")
    arrays = {name: tensor.cpu().half().numpy() for name, tensor in trainer.average.state_dict().items()}
    partial = run / "weights.part.npz"
    np.savez(partial, **arrays)
    partial.replace(run / "weights.npz")
    (run / "sizes.json").write_text(json.dumps(asdict(trainer.network.sizes)), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    """Train until the schedule is over."""
    options = parse(argv)
    options.run.mkdir(parents=True, exist_ok=True)
    with (options.run / "train.log").open("a", encoding="utf-8") as log:

        def say(text: str) -> None:
            print(text, flush=True)
            print(text, file=log, flush=True)

        run(options, say)


def run(options: argparse.Namespace, say: object) -> None:
    """Train step by step until the schedule is over."""
    assert callable(say)
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans each new shape anew
    if options.compile:
        Fused.compile()
    tokenizer = Tokenizer.from_file(str(options.ear / "tokenizer.json"))
    trainer = Trainer(
        tokenizer, Sizes(tokenizer.get_vocab_size(), **options.sizes), device, options.seed, options.dropout
    )
    checkpoint = options.run / "checkpoint.pt"
    if checkpoint.exists():
        trainer.resume(torch.load(checkpoint, map_location=device, weights_only=True))
        say(f"resumed at step {trainer.steps}")
    elif options.init:
        trainer.begin(options.init)
        say(f"began with {options.init}")
    started = time.monotonic()
    corpus = Corpus(tokenizer, device)
    listening = Listening(corpus, options, trainer.steps)
    listening.fill(0.0)
    say(f"{corpus.hours:.1f} h of speech in {time.monotonic() - started:.0f} s")
    count = sum(p.numel() for p in trainer.network.parameters())
    say(f"{count / 1e6:.2f} M parameters, {len(corpus)} utterances, {corpus.hours:.1f} h, {device}")
    sums, since, heard = torch.zeros(len(NAMES), device=device), 0, 0.0
    saved = time.monotonic()
    before = trainer.progress

    def hard() -> float:
        return difficulty(options.easy, trainer.progress)

    def distortion() -> float:
        return hard() * strength_of(options.strength, trainer.progress)

    drawn = batches(corpus, options.batch, options.seed, trainer.steps, lambda: longest_utterance(hard()))
    for rows in drawn:
        elapsed = time.monotonic() - started
        timed = before + (1 - before) * elapsed / options.seconds if options.seconds else 0.0
        trainer.progress = max(trainer.steps / options.steps, timed)
        if trainer.progress >= 1:
            break
        listening.fill(trainer.progress)
        batch = corpus.batch(rows)
        sums += trainer.step(batch, learning_rate(options.rate, trainer.progress, trainer.steps), distortion())
        since, heard = since + 1, heard + batch.audio.numel() / RATE / 3600
        if trainer.steps % options.log_every == 0:
            means = (sums / since).tolist()
            losses = " ".join(f"{name} {value:.4g}" for name, value in zip(NAMES, means, strict=True))
            spent = f"step {trainer.steps} at {elapsed:.0f} s, {trainer.progress:.1%}, {heard:.1f} h"
            say(f"{spent} of {corpus.hours:.1f} h: {losses}")
            if means[-1] > 0.5:
                raise SystemExit(f"most gradients are not finite at step {trainer.steps}")
            sums.zero_()
            since = 0
        if time.monotonic() - saved > options.save_every:
            saved = time.monotonic()
            save(options.run, trainer)
    save(options.run, trainer)
    say(f"done at step {trainer.steps} after {time.monotonic() - started:.0f} s, {heard:.1f} h of audio seen")


if __name__ == "__main__":
    main()
