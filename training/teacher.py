"""The teacher: Kokoro-82M in PyTorch speaks the corpus on the training device, many utterances at once.

Kokoro is the architecture of `training.model` at other widths, so its official weights load into that class. It speaks
without the noise of its source: the same phonemes then always give the same samples, and a student can learn them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from training.model import HouseVoice, read_config
from training.voices import VOICES

# Lengths of utterances are multiples of so many frames, so that a batch needs no padding in time; the longer, the
# coarser, so that a GPU sees few shapes.
GRIDS = ((160, 16), (320, 32), (10_000, 64))  # up to so many frames, grid
SHORT = GRIDS[0][0]
MIN_FRAMES, MAX_FRAMES = 32, 640
MIN_TOKENS, MAX_TOKENS = 3, 512
AT_ONCE = 2048  # lines whose durations are computed before utterances of one length are gathered
MAX_BATCH_FRAMES = 4800
_ROWS = 64  # of a batch of tokens


@dataclass(frozen=True, slots=True)
class Line:
    """Token ids with both boundaries, and the number of the voice that speaks them."""

    ids: npt.NDArray[np.int64]
    voice: int


@dataclass(frozen=True, slots=True)
class Utterances:
    """Utterances of one length.

    `durations` are what the teacher predicts for each token in frames of 25 ms, `fitted` those that the audio has;
    `audio` is [batch, 600 frames] at 24 kHz, `f0` (Hz) and `energy` (the predictor's) are [batch, 2 frames].
    """

    lines: list[Line]
    durations: list[list[int]]
    fitted: list[list[int]]
    audio: Tensor
    f0: Tensor
    energy: Tensor


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield `items` in parts of `size`, the last one shorter."""
    return (items[at : at + size] for at in range(0, len(items), size))


def grid_of(frames: int) -> int:
    """Return the grid of utterances of about so many frames."""
    return next(grid for end, grid in GRIDS if frames <= end)


def fitted_to_grid(durations: Sequence[int]) -> list[int]:
    """Return durations whose sum is on the grid.

    Up to SHORT frames the closing silence is made longer, or a little shorter: the two last tokens give up at most 7
    frames and keep at least one each. Longer utterances are stretched or shortened as a whole, by a tenth at most.
    """
    fitted, total = list(durations), sum(durations)
    grid = grid_of(total)
    if total > SHORT:
        wanted = round(total / grid) * grid
        ends = np.round(np.cumsum(durations) * (wanted / total)).astype(int)
        stretched = np.diff(ends, prepend=0).clip(1)
        for _ in range(stretched.sum() - wanted):  # what tokens of less than a frame got
            stretched[stretched.argmax()] -= 1
        return list(map(int, stretched))
    over = total % grid
    if over and over <= 7 and fitted[-1] + fitted[-2] - over >= 3:
        cut = min(over, fitted[-1] - 1)
        fitted[-1] -= cut
        fitted[-2] -= over - cut
    elif over:
        fitted[-1] += grid - over
    return fitted


def most_tokens(frames: int) -> int:
    """Return how many tokens a batch of utterances of so many frames has; few have more, and they are left out."""
    return min(frames, 16 + frames // 2)


def is_used(tokens: int, frames: int) -> bool:
    """Say whether an utterance is used."""
    on_grid = frames % grid_of(frames) == 0
    return on_grid and MIN_FRAMES <= frames <= MAX_FRAMES and tokens <= most_tokens(frames)


def padded(rows: Sequence[npt.NDArray[np.int64]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids [batch, tokens] with zeros behind, their lengths [batch], and where padding is [batch, tokens]."""
    ids = pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True).to(device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, lengths, torch.arange(ids.shape[1], device=device)[None] >= lengths[:, None]


class Prosody:
    """Durations, F0 and energy as `network` predicts them: the teacher, or a student with its table of voices."""

    def __init__(self, network: HouseVoice) -> None:
        self.network = network

    def style(self, line: Line) -> Tensor:
        """Return both halves of the style of a line, [2 style]."""
        row: Tensor = self.network.voices.weight[line.voice]
        return row

    def predictor_style(self, lines: Sequence[Line]) -> Tensor:
        """Return [batch, style]."""
        return torch.stack([self.style(line) for line in lines])[:, self.network.style_dim :]

    def tokens(self, lines: Sequence[Line]) -> tuple[list[Tensor], list[list[int]]]:
        """Return the features [tokens, channels] and the durations of every line."""
        device = self.network.voices.weight.device
        features: list[Tensor] = []
        durations: list[list[int]] = []
        for part in chunks(lines, _ROWS):
            ids, lengths, padding = padded([line.ids for line in part], device)
            made, logits = self.network.tokens(ids, lengths, padding, self.predictor_style(part))
            frames = torch.round(torch.sigmoid(logits).sum(-1)).clamp(min=1).long().tolist()
            for row, line in enumerate(part):
                features.append(made[row, : len(line.ids)])
                durations.append(frames[row][: len(line.ids)])
        return features, durations


class Teacher(Prosody):
    """Kokoro-82M from a folder in the official layout with safetensors, as `make real` builds it."""

    def __init__(self, folder: Path, device: torch.device, voices: Sequence[str] = VOICES) -> None:
        """Load weights and voices.

        Raises:
            FileNotFoundError: The folder lacks a file.
            ValueError: The weights are not Kokoro's, or a voice is not there.
        """
        config = read_config(folder)
        self.vocabulary: dict[str, int] = config["vocab"]
        network = HouseVoice(config, voices=1)
        state = load_file(folder / "kokoro-v1_0.safetensors")
        lacking = {name for name, _ in network.named_parameters()} - state.keys() - {"voices.weight"}
        if lacking or (more := state.keys() - network.state_dict().keys()):
            raise ValueError(f"{folder} does not hold Kokoro's weights: {sorted(lacking or more)[0]}")
        network.load_state_dict(state, strict=False)
        network.decoder.generator.noise = 0.0
        super().__init__(network.to(device).eval().requires_grad_(False))
        rows = load_file(folder / "voices.safetensors")
        if unknown := [name for name in voices if name not in rows]:
            raise ValueError(f"{folder} has no voice {unknown[0]}")
        self._rows = [rows[name][:, 0].to(device) for name in voices]

    def style(self, line: Line) -> Tensor:
        """Return the row of the voice that belongs to so many phonemes."""
        return self._rows[line.voice][len(line.ids) - 3]

    @torch.no_grad()
    def speak(self, lines: Sequence[Line], prosody: Prosody | None = None) -> Iterator[Utterances]:
        """Yield the utterances of all lines whose length is accepted, with the prosody of another network if given."""
        source = prosody or self
        accepted = [line for line in lines if MIN_TOKENS <= len(line.ids) <= MAX_TOKENS]
        for part in chunks(accepted, AT_ONCE):
            chosen = sorted(part, key=lambda line: len(line.ids))
            features, durations = source.tokens(chosen)
            fitted = [fitted_to_grid(each) for each in durations]
            groups: dict[int, list[int]] = defaultdict(list)
            for number, each in enumerate(fitted):
                if is_used(len(each), sum(each)):
                    groups[sum(each)].append(number)
            for frames, members in groups.items():
                for numbers in chunks(members, max(1, MAX_BATCH_FRAMES // frames)):
                    of_these = [chosen[n] for n in numbers]
                    made = self._speak(of_these, source, [features[n] for n in numbers], [fitted[n] for n in numbers])
                    yield Utterances(of_these, [durations[n] for n in numbers], [fitted[n] for n in numbers], *made)

    def _speak(
        self, lines: list[Line], source: Prosody, features: list[Tensor], durations: list[list[int]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        network, device = self.network, features[0].device
        index = torch.stack([torch.arange(len(each)).repeat_interleave(torch.tensor(each)) for each in durations])
        index = index.to(device)
        spread = index[:, :, None].expand(-1, -1, features[0].shape[1])
        frames = pad_sequence(features, batch_first=True).gather(1, spread)
        f0, energy = source.network.predictor.f0_and_energy(frames, source.predictor_style(lines))
        ids, lengths, padding = padded([line.ids for line in lines], device)
        text = network.text_encoder(ids, lengths, padding)
        text = text.gather(2, index[:, None].expand(-1, text.shape[1], -1))
        style = torch.stack([self.style(line) for line in lines])[:, : network.style_dim]
        return network.decoder(text, f0, energy, style), f0, energy
