"""S3Gen's estimator of the flow: a U-Net over mel frames whose convolutions are causal and whose attention is not.

Reference: chatterbox 0.1.7, models/s3gen/{decoder,matcha/decoder,matcha/transformer}.py, after Matcha-TTS (Mehta et al.
2023, arXiv:2309.03199). Nothing is sampled down or up: one block, twelve, and one that also reads the first's output.

Two computations are done once instead of in every step. The first block's convolutions see noise | mu | speaker |
prompt side by side, of which only the noise changes from step to step: the rest is convolved once (`condition`). One
product makes the vectors that all steps' times add to all blocks (`times`). In guidance's row without a condition the
rest is zero and its convolution the bias: no zeros are kept, or convolved.

On the CPU a native kernel computes each block (`models.native.unet`). Where there is none, a sequence is cut into
pieces, one a stream. Each stream runs whole layers on its piece. It takes two rows from the piece before for a
convolution, and meets the others only at attention's keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mlx import nn

from models.backend import mx
from models.chatterbox.config import FlowConfig
from models.chatterbox.s3gen.blocks import (
    KERNEL,
    CausalBlock,
    CausalConv,
    Pieces,
    ResnetBlock,
    TransformerBlock,
    cut,
    each,
)
from models.chatterbox.s3gen.kernels import cuda as kernels
from models.layers.activation import mish, silu
from models.layers.attention import sinusoids_at
from models.layers.conv import Conv1d
from models.layers.linear import Linear
from models.native import unet

TIME_SCALE = 1000.0  # times in [0, 1] become positions
MIN_PIECE = 32  # rows worth a stream of their own


class TimeMlp(nn.Module):
    """Two linear layers with SiLU between them, of a time's sinusoids."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_1 = Linear(inputs, outputs)
        self.linear_2 = Linear(outputs, outputs)

    def __call__(self, x: mx.array) -> mx.array:
        return self.linear_2(silu(self.linear_1(x), mx.array(0.0)))


class UNetBlock(nn.Module):
    """A resnet block and its transformer blocks.

    `fused` holds their arrays for the kernels of a GPU, after `Estimator.fuse`; `packed` for those of a CPU.
    """

    def __init__(self, inputs: int, config: FlowConfig) -> None:
        super().__init__()
        self.resnet = ResnetBlock(inputs, config)
        self.transformers = [TransformerBlock(config) for _ in range(config.blocks)]
        self.fused: kernels.UNetWeights | None = None
        self.packed: unet.PackedUNet | None = None

    def lower(self, *, native: bool, bfloat16: bool) -> None:
        """Pack all weights for the native kernel, which frees the loaded ones, or bring the convolutions in order."""
        self.packed = unet.pack(self.resnet, self.transformers, bfloat16=bfloat16) if native else None
        for _, module in self.named_modules():
            if self.packed is not None and isinstance(module, (Conv1d, nn.Linear)):
                module.weight = mx.zeros((0,))
            elif isinstance(module, Conv1d):
                module.lower()

    def __call__(
        self,
        xs: Pieces,
        shift: mx.array,
        bias: mx.array | None,
        streams: Sequence[mx.Stream],
        starts: Sequence[tuple[mx.array, mx.array]] | None = None,
    ) -> Pieces:
        """As `kernels.unet_block_ops`."""
        if self.packed is not None:
            (x,) = xs
            return [unet.unet_block(self.packed, x, shift, bias, starts[0] if starts else None)]
        return kernels.unet_block(self.fused, self.resnet, self.transformers, xs, shift, bias, streams, starts)


class Estimator(nn.Module):
    """The derivative of the mel at a time, [B, F, mels], from the mel so far and what conditions it.

    `given_conv` and `given_res` are the parts of the first block's convolution and linear map that see mu | speaker |
    prompt. `shifts` joins every block's map of the time, [blocks * width, 4 * width].
    """

    def __init__(self, config: FlowConfig, mels: int) -> None:
        super().__init__()
        width = config.width
        self.mels, self.width = mels, width
        self.time_mlp = TimeMlp(4 * mels, 4 * width)
        if config.mean_flow:
            self.time_embed_mixer = nn.Linear(8 * width, 4 * width, bias=False)
        self.given_conv = Conv1d(3 * mels, width, KERNEL, bias=False)
        self.given_res = nn.Linear(3 * mels, width, bias=False)
        self.shifts = Linear(4 * width, (config.middle + 2) * width)
        self.down_block = UNetBlock(mels, config)
        self.down_conv = CausalConv(width, width)
        self.mid_blocks = [UNetBlock(width, config) for _ in range(config.middle)]
        self.up_block = UNetBlock(2 * width, config)
        self.up_conv = CausalConv(width, width)
        self.final_block = CausalBlock(width, width)
        self.final_proj = Linear(width, mels)

    @property
    def dtype(self) -> mx.Dtype:
        """Type of the activations."""
        return self.final_block.norm.weight.dtype

    def lower(self, *, native: bool, bfloat16: bool = False) -> None:
        """Bring every convolution into the device's order, once, after loading. Products stay: streams share rows.

        With `native`, native kernels compute the blocks where they can; `bfloat16` is of their products.
        """
        for block in (self.down_block, *self.mid_blocks, self.up_block):
            block.lower(native=native, bfloat16=bfloat16)
        for conv in (self.given_conv, self.down_conv, self.up_conv, self.final_block.conv):
            conv.bfloat16 = bfloat16 and native
            conv.lower()

    @property
    def native(self) -> bool:
        """Return whether native kernels compute the blocks, and share all cores for each."""
        return self.mid_blocks[0].packed is not None

    def to_bfloat16(self) -> None:
        """Compute in bfloat16; the times' vectors are made in float32 all the same."""
        keep = {name: self[name] for name in ("time_mlp", "time_embed_mixer", "shifts") if name in self}
        kept = {name: part.parameters() for name, part in keep.items()}
        self.set_dtype(mx.bfloat16)
        self.update(kept)
        for _, module in self.named_modules():
            if isinstance(module, Conv1d):
                module.relower()

    def fuse(self) -> None:
        """Have the kernels compute every block, where they run and agree with the plain operations."""
        tested = self.mid_blocks[0]
        block = tested.transformers[0]
        if not kernels.available(kernels.sizes_of(block), block.to_out.weight.shape[1] // block.heads, self.dtype):
            return

        def plain(x: mx.array, shift: mx.array, mask: mx.array) -> mx.array:
            return tested([x], shift, mask, [mx.default_stream(mx.default_device())])[0]

        first = kernels.prepare(tested.resnet, tested.transformers)
        if kernels.agree(first, plain, self.width):
            tested.fused = first
            # The first resnet block's input is no multiple of a tensor core's.
            self.down_block.fused = kernels.prepare(None, self.down_block.transformers)
            for other in (*self.mid_blocks[1:], self.up_block):
                other.fused = kernels.prepare(other.resnet, other.transformers)

    def times(self, starts: npt.NDArray[np.float32], ends: npt.NDArray[np.float32] | None = None) -> mx.array:
        """Return the vectors that each step's time adds to each block, [S, blocks, width], from times [S] in [0, 1].

        A mean flow is told where a step ends, too (arXiv:2505.13447; the mixer: arXiv:2510.07979).
        """
        embedded = self._embed_times(starts)
        if "time_embed_mixer" in self:
            if ends is None:
                raise ValueError("a mean flow needs the steps' ends")
            embedded = mx.concatenate([embedded, self._embed_times(ends)], axis=-1) @ self.time_embed_mixer.weight.T
        shifts = self.shifts(mish(embedded))
        return shifts.reshape(len(starts), -1, self.width).astype(self.dtype)

    def _embed_times(self, times: npt.NDArray[np.float32]) -> mx.array:
        positions = np.float32(TIME_SCALE) * times.astype(np.float32)
        return self.time_mlp(mx.array(sinusoids_at(positions, 4 * self.mels)))

    def condition(self, mu: mx.array, speaker: mx.array, prompt: mx.array) -> tuple[mx.array, mx.array]:
        """Convolve mu [B, F, mels], speaker [B, mels] and prompt [B, F, mels] (zeros after it) for the first block.

        Returns the starts of its convolution and of its linear map, biases in them, each [B, F, width].
        """
        wide = mx.broadcast_to(speaker[:, None], mu.shape)
        x = mx.concatenate([mu, wide, prompt], axis=-1).astype(self.dtype)
        resnet = self.down_block.resnet
        conv = self.given_conv.valid(x, KERNEL - 1, 0, resnet.block1.conv.bias)
        return conv, x @ self.given_res.weight.T + resnet.res_conv.bias

    def unconditioned(self, batch: int, frames: int) -> tuple[mx.array, mx.array]:
        """Return `condition` of zeros."""
        shape, resnet = (batch, frames, self.width), self.down_block.resnet
        return mx.broadcast_to(resnet.block1.conv.bias, shape), mx.broadcast_to(resnet.res_conv.bias, shape)

    def __call__(
        self,
        x: mx.array,
        given: tuple[mx.array, mx.array],
        shifts: mx.array,
        bias: mx.array | None = None,
        streams: Sequence[mx.Stream] | None = None,
    ) -> mx.array:
        """Return the derivative at x [B, F, mels], with `given` of `condition` and one step's shifts [blocks, width].

        `bias` [B, 1, 1, F] is minus infinity on padded frames, or None. Padded frames change no other, since every
        convolution is causal. `streams` share the work; without them it runs on the caller's stream.
        """
        streams = streams if streams is not None else [mx.default_stream(mx.default_device())]
        count = max(1, min(len(streams), x.shape[1] // MIN_PIECE))
        streams = streams[:count]
        xs = cut(x.astype(self.dtype), count)
        starts = list(zip(cut(given[0], count), cut(given[1], count), strict=True))
        xs = skip = self.down_block(xs, shifts[0], bias, streams, starts)
        xs = self.down_conv.pieces(xs, streams)
        for block, shift in zip(self.mid_blocks, shifts[1:-1], strict=True):
            xs = block(xs, shift, bias, streams)
        xs = each(streams, lambda a, b: mx.concatenate([a, b], axis=-1), xs, skip)
        xs = self.up_conv.pieces(self.up_block(xs, shifts[-1], bias, streams), streams)
        xs = each(streams, self.final_proj, self.final_block(xs, streams))
        return xs[0] if count == 1 else mx.concatenate(xs, axis=1)
