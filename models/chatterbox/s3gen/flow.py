"""Speech tokens to mel frames by flow matching: Lipman et al. 2023 (arXiv:2210.02747), solved by Euler's method.

Reference: chatterbox 0.1.7, models/s3gen/{flow,flow_matching}.py, after CosyVoice 2 (arXiv:2412.10117). The reference's
recording comes first, as tokens and as mel frames: the flow continues it. One pass computes both parts.

While tokens are still coming, no result of `encode` can be kept (see `encoder`), and of `solve` only the steps' times.
Attention changes all frames when tokens follow. Equal noise for equal frames keeps the change small: the caller draws
the noise, by absolute frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import bucket, cpu_streams, mx, note_shape, on_cpu
from models.chatterbox.config import FRAMES_PER_TOKEN, SPEECH_TOKENS, ChatterboxConfig
from models.chatterbox.s3gen.encoder import UpsampleConformerEncoder
from models.chatterbox.s3gen.estimator import Estimator
from models.contract import ModelRequestError
from models.layers.linear import Linear
from models.layers.mel import Floats

# Numbers of tokens, prompt and speech together, to which a GPU pads.
TOKEN_BUCKETS = (64, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280)
_MIN_NORM = 1e-12  # of a speaker vector, as torch's normalize

Tokens = Sequence[int] | npt.NDArray[np.integer[Any]]


def step_times(steps: int, *, mean_flow: bool) -> Floats:
    """Return the times at which `steps` begin and the last ends, [steps + 1]: 1 - cos(pi t / 2), or evenly spaced."""
    if steps < 1:
        raise ValueError(f"at least one step is needed, not {steps}")
    # In float32 and in the reference's order: linspace counts down from the end in its second half.
    k, size = np.arange(steps + 1), np.float32(1.0 / steps)
    even = np.where(k < (steps + 1) // 2, k.astype(np.float32) * size, 1 - (steps - k).astype(np.float32) * size)
    even = even.astype(np.float32)
    return even if mean_flow else (1 - np.cos(even * np.float32(0.5) * np.float32(math.pi))).astype(np.float32)


class Flow(nn.Module):
    """Tokens to mel. `weights.load_weights` fills it; `encode`, then `solve`.

    On a GPU rows are padded to buckets, since each new shape costs kernels or plans there; the results equal the
    unpadded ones. On the CPU nothing is padded unless `padded` says so.
    """

    def __init__(self, config: ChatterboxConfig, *, padded: bool | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = UpsampleConformerEncoder(config.encoder, SPEECH_TOKENS, config.mels)
        self.spk_embed_affine_layer = Linear(config.speaker.size, config.mels)
        self.estimator = Estimator(config.flow, config.mels)
        self.padded = not on_cpu() if padded is None else padded
        self._encoded, self._conditioned, self._stepped = self._encode, self._condition, self._step
        if not on_cpu():
            self._encoded, self._conditioned = mx.compile(self._encode), mx.compile(self._condition)
            self._stepped = mx.compile(self._step)
        self._shifts: dict[int, tuple[mx.array, Floats]] = {}

    def lower(self, *, bfloat16: bool = False) -> None:
        """Bring the weights into the device's order, once, after loading.

        With `bfloat16` a GPU computes the estimator in it; a CPU that can makes its products in it.
        """
        self.encoder.lower()
        self.estimator.lower(native=on_cpu(), bfloat16=bfloat16)
        if bfloat16 and not on_cpu():
            self.estimator.to_bfloat16()
            self.estimator.fuse()
        self._shifts.clear()

    def encode(self, prompt_tokens: Tokens, tokens: Tokens, *, finalize: bool = True) -> mx.array:
        """Encode prompt_tokens [P] and tokens [N] to mu [1, F, mels] of both, F = 2 (P + N).

        Without `finalize` more tokens will come: the last three are heard, and their frames left out,
        F = 2 (P + N - 3). Raises ModelRequestError if nothing is left, or for an id that is no speech token.
        """
        ids = np.concatenate([np.asarray(prompt_tokens, np.int32).ravel(), np.asarray(tokens, np.int32).ravel()])
        total = len(ids)
        frames = FRAMES_PER_TOKEN * (total - (0 if finalize else self.encoder.lookahead))
        if frames <= FRAMES_PER_TOKEN * len(prompt_tokens):
            raise ModelRequestError("no speech token to speak")
        if ids.min() < 0 or ids.max() >= SPEECH_TOKENS:
            raise ModelRequestError(f"speech tokens are from 0 to {SPEECH_TOKENS - 1}")
        rows = bucket(total, TOKEN_BUCKETS) if self.padded else total
        if not self.padded:
            note_shape("flow", rows)
        self.encoder.reserve(rows)
        count = mx.array([[[total]]]) if self.padded else None
        mu: mx.array = self._encoded(mx.array(np.pad(ids, (0, rows - total))[None]), count)
        return mu[:, :frames]

    def solve(
        self, mu: mx.array, prompt_mel: mx.array, speaker: mx.array, noise: mx.array, steps: int | None = None
    ) -> mx.array:
        """Solve mu [1, F, mels] to the mel after the prompt, [1, F - 2P, mels], in `steps` (None: the model's own).

        `prompt_mel` is [2P, mels], `speaker` [192] as the speaker encoder made it, `noise` [1, F, mels] unit normal.
        """
        *_, mel = self.steps(mu, prompt_mel, speaker, noise, steps)
        return mel[:, prompt_mel.shape[0] :]

    def steps(
        self, mu: mx.array, prompt_mel: mx.array, speaker: mx.array, noise: mx.array, steps: int | None = None
    ) -> Iterator[mx.array]:
        """As `solve`, but yields the state [1, F, mels], prompt included, after each step, already being computed."""
        frames, prompt = mu.shape[1], prompt_mel.shape[0]
        if noise.shape != mu.shape or prompt >= frames:
            raise ValueError(f"noise {noise.shape} and {prompt} frames of prompt do not fit mu {mu.shape}")
        shifts, times = self._times(self.config.flow.steps if steps is None else steps)
        rows = FRAMES_PER_TOKEN * bucket(-(-frames // FRAMES_PER_TOKEN), TOKEN_BUCKETS) if self.padded else frames
        mu, x = _pad(mu, rows), _pad(noise, rows)
        given = self._conditioned(mu, speaker[None], _pad(prompt_mel[None], rows))
        count = mx.array([[[[frames]]]]) if self.padded else None
        for shift, start, end in zip(shifts, times[:-1], times[1:], strict=True):
            x = self._stepped(x, given, shift, mx.array(end - start), count)
            mx.async_eval(x)
            yield x[:, :frames]

    def _times(self, steps: int) -> tuple[mx.array, Floats]:
        """Return the estimator's vectors for the times of `steps`, [steps, blocks, width], and the times."""
        if steps not in self._shifts:
            times = step_times(steps, mean_flow=self.config.flow.mean_flow)
            shifts = self.estimator.times(times[:-1], times[1:])
            mx.eval(shifts)
            self._shifts[steps] = shifts, times
        return self._shifts[steps]

    @property
    def _guided(self) -> bool:
        return self.config.flow.guidance > 0

    def _encode(self, ids: mx.array, count: mx.array | None) -> mx.array:
        return self.encoder(ids, count)

    def _condition(self, mu: mx.array, speaker: mx.array, prompt: mx.array) -> tuple[mx.array, mx.array]:
        """Return `Estimator.condition`; with guidance a second row stands for no condition."""
        speaker = speaker / mx.maximum(mx.linalg.norm(speaker, axis=-1, keepdims=True), _MIN_NORM)
        given = self.estimator.condition(mu, self.spk_embed_affine_layer(speaker), prompt)
        if not self._guided:
            return given
        conv, res = self.estimator.unconditioned(1, mu.shape[1])
        return mx.concatenate([given[0], conv]), mx.concatenate([given[1], res])

    def _step(
        self, x: mx.array, given: tuple[mx.array, mx.array], shift: mx.array, size: mx.array, count: mx.array | None
    ) -> mx.array:
        """Advance x [1, F, mels] by a step of `size`, in float32. `count` [1, 1, 1, 1] is the number of real frames."""
        bias = None
        if count is not None:
            bias = mx.where(mx.arange(x.shape[1]) < count, 0.0, float("-inf")).astype(self.estimator.dtype)
        slope = self._slope(x, given, shift, bias).astype(mx.float32)
        if self._guided:
            rate = self.config.flow.guidance
            slope = (1.0 + rate) * slope[:1] - rate * slope[1:]
        return x + size * slope

    def _slope(self, x: mx.array, given: tuple[mx.array, mx.array], shift: mx.array, bias: mx.array | None) -> mx.array:
        """Return the estimator's result for each row of `given`, [B, F, mels], from the same x [1, F, mels]."""
        batch = given[0].shape[0]
        if not on_cpu() or self.estimator.native:
            return self.estimator(mx.broadcast_to(x, (batch, *x.shape[1:])), given, shift, bias)
        run = partial(self.estimator, x, shifts=shift, bias=bias)
        streams = cpu_streams()
        share = max(1, len(streams) // batch)
        rows = []
        for row in range(batch):
            first = row * share % len(streams)
            one = (given[0][row : row + 1], given[1][row : row + 1])
            rows.append(run(given=one, streams=streams[first : first + share]))
        return rows[0] if batch == 1 else mx.concatenate(rows)


def _pad(x: mx.array, rows: int) -> mx.array:
    """Return x [1, F, C] with zeros up to `rows`."""
    return x if x.shape[1] == rows else mx.pad(x, [(0, 0), (0, rows - x.shape[1]), (0, 0)])
