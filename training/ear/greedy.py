"""Word error rates of a run by speaker, in PyTorch: greedy text of the CTC head and of the decoder.

    python -m training.ear.greedy build/ear build/ear/run TEACHER [--voices af_heart bf_emma ...] [--device cuda]

A quick look at a run on the machine that trains. `evaluate.py` judges the product's files in the product.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from training.ear.data import Corpus, single
from training.ear.features import HOP, log_mel
from training.ear.kokoro import FAVORITES, Narrator
from training.ear.lines import TOKENS, read_lines
from training.ear.network import Ear, Sizes, frame_mask
from training.measure import word_errors, words_of

BATCH = 64
MAX_TOKENS = 150


def load(run: Path, device: torch.device) -> Ear:
    """Return the network of a run with the weights of its moving average."""
    sizes = Sizes(**json.loads((run / "sizes.json").read_text(encoding="utf-8")))
    network = Ear(sizes, TOKENS)
    with np.load(run / "weights.npz") as arrays:
        network.load_state_dict({name: torch.from_numpy(arrays[name].astype(np.float32)) for name in arrays.files})
    return network.to(device).eval()


def ctc_tokens(logits: torch.Tensor, frames: Sequence[int], blank: int) -> list[list[int]]:
    """Return the tokens of the best path of each row: repeats are one, blanks are none."""
    best = logits.argmax(-1).cpu().tolist()
    return [
        [token for token, _ in groupby(row[:count]) if token != blank] for row, count in zip(best, frames, strict=True)
    ]


def begin_tokens(tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that the decoder begins with."""
    return [tokenizer.token_to_id(f"<|{name}|>") for name in ("startoftranscript", "en", "transcribe", "notimestamps")]


def decoder_tokens(
    network: Ear, states: torch.Tensor, mask: torch.Tensor, begin: Sequence[int], end: int
) -> list[list[int]]:
    """Return the tokens of each row, the likeliest at each step."""
    tokens = torch.tensor(begin, device=states.device).expand(len(states), -1)
    over = torch.zeros(len(states), dtype=torch.bool, device=states.device)
    for _ in range(MAX_TOKENS):
        chosen = network.decoder(tokens, states, mask)[:, -1].argmax(-1)
        over |= chosen == end
        tokens = torch.cat([tokens, chosen.where(~over, end)[:, None]], 1)
        if bool(over.all()):
            break
    return [[token for token in row[len(begin) :] if token != end] for row in tokens.cpu().tolist()]


@torch.inference_mode()
def heard(network: Ear, corpus: Corpus, tokenizer: Tokenizer, device: torch.device) -> list[tuple[str, str]]:
    """Return the text of the CTC head and of the decoder for each utterance."""
    found: dict[int, tuple[str, str]] = {}
    order = np.argsort(corpus.samples).tolist()
    for first in range(0, len(order), BATCH):
        chosen = order[first : first + BATCH]
        batch = corpus.batch(single(chosen))
        frames = (batch.samples // (2 * HOP)).clip(min=1)
        mel = log_mel(batch.audio)
        mask = frame_mask(torch.from_numpy(frames).to(device), mel.shape[2] // 2)
        states, _ = network.encoder(mel, mask)
        drafts = ctc_tokens(network.ctc(states), frames.tolist(), network.labels)
        begin, end = begin_tokens(tokenizer), tokenizer.token_to_id("<|endoftext|>")
        texts = decoder_tokens(network, states, mask, begin, end)
        for number, draft, text in zip(chosen, drafts, texts, strict=True):
            found[number] = tokenizer.decode(draft), tokenizer.decode(text)
    return [found[number] for number in range(len(order))]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the rates of a run."""
    parser = argparse.ArgumentParser(description="Print the word error rates of a run of the ear.")
    parser.add_argument("ear", type=Path, help="folder of tokenizer.json and held_out.tsv.gz")
    parser.add_argument("run", type=Path)
    parser.add_argument("teacher", type=Path, help="folder of the network that says the held-out sentences")
    parser.add_argument("--voices", nargs="*", default=FAVORITES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--show", type=int, default=5, help="utterances to print")
    options = parser.parse_args(argv)
    device = torch.device(options.device)
    tokenizer = Tokenizer.from_file(str(options.ear / "tokenizer.json"))
    corpus = Corpus(tokenizer, device)
    narrator, lines = Narrator(options.teacher, device, seed=1), read_lines(options.ear / "held_out.tsv.gz")
    for voice in options.voices:
        corpus.add(*narrator.speak(lines, [voice] * len(lines)))
    texts = heard(load(options.run, device), corpus, tokenizer, device)
    for speaker in [*sorted(set(corpus.speakers)), ""]:
        chosen = [i for i, name in enumerate(corpus.speakers) if speaker in ("", name)]
        words = sum(len(words_of(corpus.texts[i])) for i in chosen)
        rates = [sum(word_errors(words_of(corpus.texts[i]), words_of(texts[i][k])) for i in chosen) for k in (0, 1)]
        same = sum(corpus.texts[i] == texts[i][1].strip() for i in chosen) / len(chosen)
        shares = f"ctc {rates[0] / words:.2%}, decoder {rates[1] / words:.2%}"
        print(f"{speaker or 'all'}: {len(chosen)} utterances, {words} words: {shares}, {same:.1%} exact", flush=True)
    for i in range(0, len(texts), max(1, len(texts) // max(1, options.show))):
        draft, text = (each[:120] for each in texts[i])
        print(f"{corpus.speakers[i]}: {corpus.texts[i]!r} -> ctc {draft!r}, decoder {text!r}", flush=True)


if __name__ == "__main__":
    main()
