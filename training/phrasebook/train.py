"""Train the phrase book (PyTorch, on a CPU).

    python -m training.phrasebook.train build/phrasebook/tokenizer.json build/phrasebook/run [--steps 4000]

Writes `weights.npz` (float16), `checkpoint.pt` (to resume from), `curves.csv` and `train.log`. A run that finds its
checkpoint goes on from it and sees what it would have seen: sentences are drawn from the seed and the step.
"""

from __future__ import annotations

import argparse
import copy
import csv
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from training.phrasebook.grammar import Pair, sentences
from training.phrasebook.lexicon import TARGETS
from training.phrasebook.network import END, PAD, Config, Phrasebook
from training.phrasebook.tokens import CODES, for_targets

WARMUP_STEPS = 300
LOWEST_RATE = 0.01  # of the peak
BLOCK = 16  # batches that are drawn, sorted by length and shuffled together
# How much more often templates with many combinations are drawn: at first, to learn words; then, to learn templates.
POWERS = (0.35, 0.1)
CHECKED = 40  # held-out sentences translated for the log
LOG_EVERY = 50


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the phrase book.")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("run", type=Path, help="folder of the run's log, curves, checkpoint and weights")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--stop", type=int, help="end at this step of the schedule, to go on later")
    parser.add_argument("--batch", type=int, default=40, help="English sentences a step, each into three languages")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--bfloat16", action="store_true", help="products in bfloat16, where the processor is fast at it"
    )
    parser.add_argument("--save-every", type=int, default=25, help="blocks of steps between checkpoints")
    return parser.parse_args(argv)


def learning_rate(peak: float, progress: float, step: int) -> float:
    """Cosine from `peak` to nearly 0 over `progress` in [0, 1], after a linear warm-up by steps."""
    cosine = max(LOWEST_RATE, 0.5 * (1 + math.cos(math.pi * progress)))
    return peak * cosine * min(1.0, (step + 1) / WARMUP_STEPS)


class Encoder:
    """Sentences to padded ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.sources, self.targets = tokenizer, for_targets(tokenizer)
        self.codes = {language: tokenizer.token_to_id(code) for language, code in CODES.items()}

    def source(self, pairs: Sequence[Pair]) -> Tensor:
        """[sentences, length]: language, pieces, end."""
        rows = [encoding.ids for encoding in self.sources.encode_batch([pair.texts["en"] for pair in pairs])]
        return pad(rows)

    def target(self, pairs: Sequence[Pair]) -> Tensor:
        """[languages x sentences, length]: end, language, pieces, end."""
        rows = []
        for language in TARGETS:
            found = self.targets.encode_batch([pair.texts[language] for pair in pairs], add_special_tokens=False)
            rows += [[END, self.codes[language], *encoding.ids, END] for encoding in found]
        return pad(rows)


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def block(
    encoder: Encoder, seed: int, index: int, batch: int, power: float = POWERS[0]
) -> Iterator[tuple[Tensor, Tensor]]:
    """`BLOCK` batches (source, target), each of sentences of like length, in random order."""
    pairs = list(islice(sentences(seed * 1_000_003 + index, held_out=False, power=power), BLOCK * batch))
    pairs.sort(key=lambda pair: len(pair.texts["en"]))
    order = np.random.default_rng([seed, index]).permutation(BLOCK)
    for start in order * batch:
        chosen = pairs[start : start + batch]
        yield encoder.source(chosen), encoder.target(chosen)


class CrossEntropy(torch.autograd.Function):
    """Mean cross entropy of logits [tokens, vocabulary] against ids [tokens]: one exponential for loss and gradient."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, logits: Tensor, wanted: Tensor) -> Tensor:
        share = logits.float() - logits.amax(1, keepdim=True)
        index = wanted[:, None]
        right = share.gather(1, index)
        sums = share.exp_().sum(1, keepdim=True)
        ctx.save_for_backward(share.div_(sums), index)
        ctx.dtype = logits.dtype
        return (sums.log() - right).mean()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, above: Tensor) -> tuple[Tensor, None]:
        share, index = ctx.saved_tensors
        share.scatter_add_(1, index, torch.full_like(index, -1, dtype=share.dtype))
        return share.mul_(above / len(index)).to(ctx.dtype), None


def loss_of(network: Phrasebook, source: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy of every token after the language code. The encoder runs once for all languages."""
    memory, seen = network.encode(source)
    repeat = target.shape[0] // source.shape[0]
    states = network.decode(target[:, :-1], memory.repeat(repeat, 1, 1), seen.repeat(repeat, 1, 1, 1))
    wanted = target[:, 1:].clone()
    wanted[:, 0] = PAD  # the language is given, not predicted
    told = wanted != PAD
    return CrossEntropy.apply(network.logits(states[told]), wanted[told])


class Exact:
    """Gradients of a network, computed in its own precision."""

    def __init__(self, network: Phrasebook) -> None:
        self.network = network

    def gradients(self, source: Tensor, target: Tensor) -> Tensor:
        """The loss; its gradients are left with the network's parameters."""
        self.network.zero_grad(set_to_none=True)
        loss = loss_of(self.network, source, target)
        loss.backward()
        return loss


class Fast(Exact):
    """Gradients of a copy of the network in bfloat16, about twice as fast on a processor with a matrix unit."""

    def __init__(self, network: Phrasebook) -> None:
        super().__init__(network)
        self.copy = copy.deepcopy(network).bfloat16()
        self.pairs = list(zip(network.parameters(), self.copy.parameters(), strict=True))

    def gradients(self, source: Tensor, target: Tensor) -> Tensor:
        with torch.no_grad():
            for exact, rounded in self.pairs:
                rounded.copy_(exact)
                rounded.grad = None
        loss = loss_of(self.copy, source, target)
        loss.backward()
        for exact, rounded in self.pairs:
            exact.grad = None if rounded.grad is None else rounded.grad.float()
        return loss


def exactly_right(network: Phrasebook, encoder: Encoder, pairs: Sequence[Pair]) -> dict[str, float]:
    """Share of `pairs` whose greedy translation is the grammar's, by language."""
    source = encoder.source(pairs)
    shares = {}
    for language in TARGETS:
        codes = torch.full((len(pairs),), encoder.codes[language])
        texts = encoder.targets.decode_batch(network.translate(source, codes))
        shares[language] = float(
            np.mean([text == pair.texts[language] for text, pair in zip(texts, pairs, strict=True)])
        )
    return shares


def write_weights(path: Path, network: Phrasebook) -> None:
    partial = path.with_suffix(".part.npz")
    np.savez(partial, **{name: p.detach().half().numpy() for name, p in network.named_parameters()})
    partial.replace(path)


def save(run: Path, network: Phrasebook, optimizer: torch.optim.Optimizer, blocks: int) -> None:
    partial = run / "checkpoint.part"
    state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "blocks": blocks}
    torch.save(state | {"config": asdict(network.config)}, partial)
    partial.replace(run / "checkpoint.pt")
    write_weights(run / "weights.npz", network)


def main(argv: Sequence[str] | None = None) -> None:
    """Train until the schedule is over."""
    options = parse(argv)
    options.run.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    encoder = Encoder(tokenizer)
    network = Phrasebook(Config(vocab_size=tokenizer.get_vocab_size()))
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.0, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    first = 0
    if (options.run / "checkpoint.pt").exists():
        state = torch.load(options.run / "checkpoint.pt", weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["blocks"]
    fast = Fast(network) if options.bfloat16 else Exact(network)
    checked = list(islice(sentences(options.seed, held_out=True), CHECKED))
    with (options.run / "train.log").open("a") as text, (options.run / "curves.csv").open("a", newline="") as table:
        rows = csv.writer(table)

        def say(line: str) -> None:
            print(line, flush=True)
            print(line, file=text, flush=True)

        count = sum(p.numel() for p in network.parameters())
        say(f"{count / 1e6:.2f} M parameters, torch {torch.__version__}, {torch.get_num_threads()} threads, {options}")
        if first:
            say(f"resumed at step {first * BLOCK}")
        else:
            rows.writerow(["step", "seconds", "rate", "loss", *TARGETS])
        started, losses = time.monotonic(), []
        blocks = math.ceil(options.steps / BLOCK)
        stop = blocks if options.stop is None else min(blocks, options.stop // BLOCK)
        for index in range(first, stop):
            power = POWERS[index >= blocks // 2]
            for place, (source, target) in enumerate(block(encoder, options.seed, index, options.batch, power)):
                step = index * BLOCK + place
                rate = learning_rate(options.rate, step / (blocks * BLOCK), step)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                loss = fast.gradients(source, target)
                torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
                if (step + 1) % LOG_EVERY == 0:
                    say(
                        f"step {step + 1} at {time.monotonic() - started:.0f} s, rate {rate:.1e}: {np.mean(losses):.4f}"
                    )
                    losses.clear()
            if (index + 1) % options.save_every == 0 or index + 1 == stop:
                save(options.run, network, optimizer, index + 1)
                shares = exactly_right(network, encoder, checked)
                seconds = time.monotonic() - started
                say(f"held out, exactly right after step {(index + 1) * BLOCK}: " + str(shares))
                rows.writerow(
                    [(index + 1) * BLOCK, f"{seconds:.0f}", f"{rate:.2e}", f"{loss.item():.5f}", *shares.values()]
                )
                table.flush()


if __name__ == "__main__":
    main()
