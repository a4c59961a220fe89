"""S3Gen's estimator of the flow: a U-Net over mel frames whose convolutions are causal and whose attention is not.

Reference: chatterbox 0.1.7, models/s3gen/{decoder,matcha/decoder,matcha/transformer}.py, after Matcha-TTS (Mehta et al.
2023, arXiv:2309.03199). Nothing is sampled down or up: one block, twelve, and one that also reads the first's output.

Two things are taken out of the steps. The first block's convolutions see noise | mu | speaker | prompt side by side, of
which only the noise changes from step to step: the rest is convolved once (`condition`). What a step's time adds to
each block comes for all steps and blocks from one product (`times`). Without guidance's condition the rest is zero, so
that its convolution is the bias: no zeros are kept, or convolved.

On the CPU the rows of a sequence are cut into pieces, one a lane: each lane then runs whole layers on its piece, takes
two rows from the piece before for a convolution, and meets the others only at attention's keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import mx
from models.chatterbox.config import FlowConfig
from models.chatterbox.s3gen.blocks import KERNEL, CausalConv, Pieces, ResnetBlock, TransformerBlock, cut, each
from models.chatterbox.s3gen.kernels import cuda as kernels
from models.layers.activation import mish, silu
from models.layers.conv import Conv1d
from models.layers.linear import Linear
from models.layers.norm import layer_norm
from models.layers.position import sinusoids_at

TIME_SCALE = 1000.0  # times in [0, 1] become positions
LEAST_PIECE = 32  # rows worth a stream of their own


class Stage(nn.Module):
    """One resnet block and its transformer blocks; `fused`: by these kernels, where the sequence fits."""

    def __init__(self, inputs: int, config: FlowConfig) -> None:
        super().__init__()
        self.resnet = ResnetBlock(inputs, config)
        self.blocks = [TransformerBlock(config) for _ in range(config.blocks)]
        self.fused: kernels.Prepared | None = None

    def __call__(
        self,
        xs: Pieces,
        shift: mx.array,
        bias: mx.array | None,
        streams: Sequence[mx.Stream],
        starts: Sequence[tuple[mx.array, mx.array]] | None = None,
    ) -> Pieces:
        if self.fused is not None and bias is not None and len(xs) == 1 and kernels.fits_rows(xs[0].shape[1]):
            if self.fused.resnet:
                return [kernels.run(self.fused, xs[0], shift, bias)]
            return [kernels.attend(self.fused, self.resnet(xs, shift, streams, starts)[0], bias)]
        xs = self.resnet(xs, shift, streams, starts)
        for block in self.blocks:
            xs = block(xs, bias, streams)
        return xs


class Estimator(nn.Module):
    """The derivative of the mel at a time, [B, F, mels], from the mel so far and what conditions it.

    `given` is the first block's view of mu | speaker | prompt (its `conv1` and, as taps of one, its linear map);
    `shifts` [blocks * width, 4 * width] holds every block's map of the time.
    """

    def __init__(self, config: FlowConfig, mels: int) -> None:
        super().__init__()
        width = config.width
        self.mels, self.width = mels, width
        self.time1 = Linear(4 * mels, 4 * width)
        self.time2 = Linear(4 * width, 4 * width)
        if config.mean_flow:
            self.time_mixer = mx.zeros((4 * width, 8 * width))
        self.given = Conv1d(3 * mels, width, KERNEL, bias=False)
        self.given_res = mx.zeros((width, 3 * mels))
        self.shifts = Linear(4 * width, (config.middle + 2) * width)
        self.down = Stage(mels, config)
        self.down_conv = CausalConv(width, width)
        self.middle = [Stage(width, config) for _ in range(config.middle)]
        self.up = Stage(2 * width, config)
        self.up_conv = CausalConv(width, width)
        self.final_conv = CausalConv(width, width)
        self.final_norm = nn.LayerNorm(width)
        self.projection = Linear(width, mels)

    @property
    def dtype(self) -> mx.Dtype:
        """Type that it computes in."""
        return self.final_norm.weight.dtype

    def lower(self) -> None:
        """Bring every convolution into the device's order, once, after loading. Products stay: lanes share rows."""
        for _, module in self.named_modules():
            if isinstance(module, Conv1d):
                module.lower()

    def to_bfloat16(self) -> None:
        """Compute in bfloat16; the times' vectors are made in float32 all the same."""
        keep = {name: self[name] for name in ("time1", "time2", "time_mixer", "shifts") if name in self}
        kept = {name: part if isinstance(part, mx.array) else part.parameters() for name, part in keep.items()}
        self.set_dtype(mx.bfloat16)
        self.update(kept)
        for _, module in self.named_modules():
            if isinstance(module, Conv1d):
                module.relower()

    def fuse(self) -> None:
        """Have every stage computed by its kernels, where that can be and agrees with the plain one."""
        stage = self.middle[0]
        block = stage.blocks[0]
        if not kernels.available(kernels.sizes_of(block), block.out.shape[1] // block.heads, self.dtype):
            return

        def plain(x: mx.array, shift: mx.array, mask: mx.array) -> mx.array:
            return stage([x], shift, mask, [mx.default_stream(mx.default_device())])[0]

        first = kernels.prepare(stage.resnet, stage.blocks)
        if kernels.checked(first, plain, self.width):
            stage.fused = first
            # The first resnet block's input is no multiple of a tensor core's.
            self.down.fused = kernels.prepare(None, self.down.blocks)
            for other in (*self.middle[1:], self.up):
                other.fused = kernels.prepare(other.resnet, other.blocks)

    def times(self, starts: npt.NDArray[np.float32], ends: npt.NDArray[np.float32] | None = None) -> mx.array:
        """What each step's time adds to each block: [S, blocks, width], from times [S] in [0, 1].

        A mean flow is told where a step ends, too (arXiv:2505.13447; the mixer: arXiv:2510.07979).
        """
        embedded = self._embed_times(starts)
        if "time_mixer" in self:
            if ends is None:
                raise ValueError("a mean flow needs the steps' ends")
            embedded = mx.concatenate([embedded, self._embed_times(ends)], axis=-1) @ self.time_mixer.T
        shifts = self.shifts(mish(embedded))
        return shifts.reshape(len(starts), -1, self.width).astype(self.dtype)

    def _embed_times(self, times: npt.NDArray[np.float32]) -> mx.array:
        positions = np.float32(TIME_SCALE) * times.astype(np.float32)
        return self.time2(silu(self.time1(mx.array(sinusoids_at(positions, 4 * self.mels))), mx.array(0.0)))

    def condition(self, mu: mx.array, speaker: mx.array, prompt: mx.array) -> tuple[mx.array, mx.array]:
        """What mu [B, F, mels], speaker [B, mels] and prompt [B, F, mels] (zeros after it) give the first block.

        -> the start of its convolution and of its linear map, biases in them, each [B, F, width].
        """
        wide = mx.broadcast_to(speaker[:, None], mu.shape)
        x = mx.concatenate([mu, wide, prompt], axis=-1).astype(self.dtype)
        resnet = self.down.resnet
        return self.given.valid(x, KERNEL - 1, 0, resnet.conv1.bias), x @ self.given_res.T + resnet.res_bias

    def unconditioned(self, batch: int, frames: int) -> tuple[mx.array, mx.array]:
        """`condition` of zeros."""
        shape, resnet = (batch, frames, self.width), self.down.resnet
        return mx.broadcast_to(resnet.conv1.bias, shape), mx.broadcast_to(resnet.res_bias, shape)

    def __call__(
        self,
        x: mx.array,
        given: tuple[mx.array, mx.array],
        shifts: mx.array,
        bias: mx.array | None = None,
        streams: Sequence[mx.Stream] | None = None,
    ) -> mx.array:
        """x [B, F, mels] with `given` by `condition` and shifts [blocks, width] of one step's time -> [B, F, mels].

        `bias` [B, 1, 1, F] is minus infinity on padded frames, or None: they then change nothing, as every
        convolution is causal. Work is shared among `streams`; without, it runs where the caller runs.
        """
        streams = streams if streams is not None else [mx.default_stream(mx.default_device())]
        count = max(1, min(len(streams), x.shape[1] // LEAST_PIECE))
        streams = streams[:count]
        xs = cut(x.astype(self.dtype), count)
        starts = list(zip(cut(given[0], count), cut(given[1], count), strict=True))
        xs = skip = self.down(xs, shifts[0], bias, streams, starts)
        xs = self.down_conv(xs, streams)
        for stage, shift in zip(self.middle, shifts[1:-1], strict=True):
            xs = stage(xs, shift, bias, streams)
        xs = each(streams, lambda a, b: mx.concatenate([a, b], axis=-1), xs, skip)
        xs = self.up_conv(self.up(xs, shifts[-1], bias, streams), streams)
        xs = each(streams, self._finish, self.final_conv(xs, streams))
        return xs[0] if count == 1 else mx.concatenate(xs, axis=1)

    def _finish(self, y: mx.array) -> mx.array:
        return self.projection(mish(layer_norm(y, self.final_norm.weight, self.final_norm.bias)))
