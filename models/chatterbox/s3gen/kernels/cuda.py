"""A U-Net block of the flow's estimator in few CUDA kernels: launches, not the chip, bound it on an NVIDIA GPU.

In MLX's operations a transformer block is ten launches and a resnet block fourteen. Here a transformer block is one:
attention to keys and values that the kernel before has written, the rest of the block, and the next block's queries,
keys and values. A resnet block is two, since its second convolution reads its neighbors' first. On Hopper and
newer two blocks of threads in a cluster share the columns of the same rows: each reads half of the weights (`tiles.h`).

`unet_block_ops` is the plain definition, `unet_block_cuda` the kernels, and `unet_block` takes the kernels where they
run. They differ by rounding only: sums between layers stay float32. Matrices are kept as `pieces`, in the order in
which the kernels read them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from models.backend import constant, mx
from models.chatterbox.s3gen.blocks import Pieces, ResnetBlock, TransformerBlock
from models.layers.kernels import agreement
from models.layers.kernels.agreement import relative_difference
from models.layers.kernels.device import Kernel, defines, gpu, joined, launch
from models.layers.kernels.tensor_product import COPIES, MAX_SHARED_BYTES, PRODUCT, RING_BYTES, ROOM, pieces
from models.native import nvidia

HEAD = 64
KEYS = 64  # that attention takes at a time: sequences are multiples of it
TAPS = 3
_FEW_ROWS = 132 * 16  # with more, tiles of 32 rows keep an H100's multiprocessors busy, and halve their reads
_SHARE = 2  # blocks of threads that share a tile, in a cluster; four were slower on an H100
_READ_BYTES = RING_BYTES // 3  # of a read ahead: attention has four of keys and values
PLACES = 16  # MLX keeps arrays of 8 bytes in host memory: reading them there would take microseconds a kernel
_CHECKED = (128, 1088)  # frames, of two rows: tiles of 16 and of 32

Blocks = Sequence[TransformerBlock]
Starts = Sequence[tuple[mx.array, mx.array]]
Plain = Callable[[mx.array, mx.array, mx.array], mx.array]
"""x [B, F, I], the time's vector [C] and a mask [1, 1, 1, F] through the same block, plainly."""
Sizes = tuple[int, int, int]
"""Channels, heads, and channels within the feed-forward."""

_INPUTS = {"block": ("state", "mask", "weights", "mode"), "resnet": ("x", "before", "time", "weights", "mode")}
_GIVEN = {
    "block": "given_of({state}, {mask}, {weights}, rows, mode[0] != 0)",
    "resnet": "half_of({x}, {before}, {time}, {weights}, x_shape[2], before_shape[2])",
}
_ARGUMENTS = {
    "block": "mask_shape[3], mode[0] != 0, mode[1] != 0",
    "resnet": "x_shape[1], x_shape[2], before_shape[2], mode[0] != 0",
}


def header(name: str, sizes: Sizes) -> str:
    """Return the source of the kernel `name` before its body, without the copies' definitions (`COPIES`)."""
    numbers = defines(dict(zip(("CHANNELS", "HEADS", "WIDE"), sizes, strict=True)))
    return numbers + PRODUCT + joined(__file__, "tiles.h", f"{name}.h")


def body(name: str) -> str:
    """Return the kernel's body."""
    given = _GIVEN[name].format(**{each: f"(const ushort*){each}" for each in _INPUTS[name]})
    call = f"{name}<TILES, SHARE>(THREAD, BLOCK_X, {_ARGUMENTS[name]}, of, made((ushort*)state_made, rows), room);"
    return f"{ROOM}\nconst int rows = BLOCKS_X / SHARE * 16 * TILES;\nconst auto of = {given};\n{call}\n"


def shared_bytes(name: str, tiles: int, sizes: Sizes) -> int:
    """Return the bytes of shared memory: reads ahead, the stream, the normalized stream, and the widest rows."""
    channels, heads, wide = sizes
    rows = 16 * tiles
    fixed = rows * 4 * (channels + 4)
    normal = rows * 2 * (channels + 8)
    if name == "resnet":
        return fixed + RING_BYTES + normal + 2 * (rows + TAPS - 1) * (2 * channels + 8)
    inner = heads * HEAD
    widest = rows * 2 * (max(inner, wide) + 8)
    return fixed + max(RING_BYTES + normal + widest, 4 * _READ_BYTES + rows * 2 * (inner + 8))


def available(sizes: Sizes, size: int, dtype: mx.Dtype) -> bool:
    """True if such blocks can run here: MLX on an NVIDIA GPU. One too old (before Ampere) does not build them."""
    return gpu() == "cuda" and fits(sizes, size, dtype)


def fits(sizes: Sizes, size: int, dtype: mx.Dtype) -> bool:
    """True if the kernels are written for blocks of these `sizes`; `size` is that of a head."""
    whole = size == HEAD and sizes[0] % 64 == 0 and sizes[2] % 64 == 0 and dtype == mx.bfloat16
    return whole and _even(sizes[1]) and max(shared_bytes(name, 2, sizes) for name in _INPUTS) <= MAX_SHARED_BYTES


def fits_rows(frames: int) -> bool:
    """True if the kernels can compute sequences of so many `frames`."""
    return frames % KEYS == 0


@cache
def _kernel(name: str, sizes: Sizes, tiles: int, share: int) -> Kernel:
    return Kernel(
        name=f"nightingale_flow_{name}",
        inputs=_INPUTS[name],
        outputs=("state_made",),
        body=body(name),
        header=COPIES + header(name, sizes),
        bounded=True,
        shared_bytes=shared_bytes(name, tiles, sizes),
        cluster=share,
    )


def _launch(
    name: str, inputs: Mapping[str, mx.array], numbers: int, blocks: int, sizes: Sizes, tiles: int, share: int
) -> mx.array:
    """Run the kernel `name` with `blocks` of THREADS, clusters of `share`; it makes so many `numbers`."""
    kernel, template = _kernel(name, sizes, tiles, share), {"TILES": tiles, "SHARE": share}
    (made,) = launch(kernel, list(inputs.values()), [((numbers,), mx.bfloat16)], (blocks, 1, 1), template)
    return made


@cache
def _mode(first: bool, second: bool = False) -> mx.array:
    return constant(mx.array([int(first), int(second)] + [0] * (PLACES - 2), dtype=mx.int32))


def share(heads: int) -> int:
    """Return the number of blocks of threads that share a tile's columns and heads: one before Hopper."""
    return _SHARE if nvidia.clusters() and heads % _SHARE == 0 and _even(heads // _SHARE) else 1


def _even(heads: int) -> bool:
    """True if a block's eight warps share these heads, or these the warps, without a rest."""
    return heads in (1, 2, 4) or heads % 8 == 0


def tiles(rows: int, share: int) -> int:
    """Return the number of tiles, of 16 rows each, that a cluster of `share` blocks of threads takes."""
    return 1 if rows * share <= _FEW_ROWS else 2


def sizes_of(block: TransformerBlock) -> Sizes:
    """Return the sizes of a U-Net block with such transformer blocks."""
    wide, channels = block.fc1.weight.shape
    return channels, block.heads, wide


@dataclass(frozen=True, slots=True, eq=False)
class UNetWeights:
    """Weights of a U-Net block's launches.

    Two for the resnet block, or none if it is computed otherwise, and one more than there are transformer blocks.
    """

    sizes: Sizes
    resnet: Sequence[mx.array]
    blocks: Sequence[mx.array]


def prepare(resnet: ResnetBlock | None, blocks: Blocks) -> UNetWeights:
    """Bring a U-Net block's arrays into the kernels' order: copies, evaluated."""
    ahead = [[block.norm1.weight, block.norm1.bias, pieces(block.to_qkv.weight)] for block in blocks]
    own = [
        [
            pieces(block.to_out.weight), block.to_out.bias, block.norm3.weight, block.norm3.bias,
            pieces(block.fc1.weight), block.fc1.bias, pieces(block.fc2.weight), block.fc2.bias,
        ]
        for block in blocks
    ]  # fmt: skip
    launches = [_joined(*before, *after) for before, after in zip([[], *own], [*ahead, []], strict=True)]
    halves = []
    if resnet is not None:
        res = pieces(resnet.res_conv.weight), resnet.res_conv.bias
        for each in (resnet.block1, resnet.block2):
            conv = pieces(each.conv.weight), each.conv.bias, each.norm.weight, each.norm.bias
            halves.append(_joined(*conv, *res, *ahead[0]))
    mx.eval(halves, launches)
    return UNetWeights(sizes_of(blocks[0]), halves, launches)


def _joined(*arrays: mx.array) -> mx.array:
    return mx.concatenate([array.reshape(-1) for array in arrays])


class _Run:
    """The launches for sequences of a shape [B, F, ..]. Each makes the state: stream, queries, keys and values."""

    def __init__(self, prepared: UNetWeights, batch: int, frames: int) -> None:
        self._sizes = channels, heads, _ = prepared.sizes
        self._share = share(heads)
        self._tiles = tiles(batch * frames, self._share)
        self._blocks = batch * frames // (16 * self._tiles) * self._share
        self._shape = (batch, frames, channels)
        self._numbers = batch * frames * (channels + 3 * heads * HEAD)

    def __call__(self, name: str, *inputs: mx.array) -> mx.array:
        """Return the state. What was not asked for is undefined in it."""
        given = dict(zip(_INPUTS[name], inputs, strict=True))
        return _launch(name, given, self._numbers, self._blocks, self._sizes, self._tiles, self._share)

    def stream(self, state: mx.array) -> mx.array:
        """Return the stream of a state, [B, F, C]."""
        return state[: math.prod(self._shape)].reshape(self._shape)


def attend(prepared: UNetWeights, x: mx.array, mask: mx.array, state: mx.array | None = None) -> mx.array:
    """Pass x [B, F, C] bfloat16 through the transformer blocks; `mask` [1, 1, 1, F] is added to the logits.

    `state` is the first block's, if `convolve` has made it of x.
    """
    run = _Run(prepared, *x.shape[:2])
    last = len(prepared.blocks) - 1
    if state is None:
        state = run("block", x, mask, prepared.blocks[0], _mode(False, True))
    for number, weights in enumerate(prepared.blocks[1:], 1):
        state = run("block", state, mask, weights, _mode(True, number < last))
    return run.stream(state)


def convolve(prepared: UNetWeights, x: mx.array, shift: mx.array) -> mx.array:
    """Pass x [B, F, I] bfloat16 through the resnet block, I at most 2C and a multiple of 64; `shift` [C] is the time's.

    Returns the state: [B, F, C], and the first transformer block's queries, keys and values.
    """
    run = _Run(prepared, *x.shape[:2])
    first, second = prepared.resnet
    between = run.stream(run("resnet", x, x, shift, first, _mode(False)))
    return run("resnet", between, x, shift, second, _mode(True))


def unet_block_cuda(prepared: UNetWeights, x: mx.array, shift: mx.array, mask: mx.array) -> mx.array:
    """Compute a whole U-Net block by kernels: x [B, F, I] -> [B, F, C]."""
    return attend(prepared, x, mask, convolve(prepared, x, shift))


def unet_block_ops(
    resnet: ResnetBlock,
    transformers: Blocks,
    xs: Pieces,
    shift: mx.array,
    bias: mx.array | None,
    streams: Sequence[mx.Stream],
    starts: Starts | None = None,
) -> Pieces:
    """Compute a U-Net block in MLX's operations: the definition that the kernels must agree with.

    Args:
        resnet: the block's first part.
        transformers: its second.
        xs: pieces of [B, F, I], one a stream.
        shift: [C], of the step's time.
        bias: [B, 1, 1, F], added to attention's logits, or None.
        streams: where the pieces are computed.
        starts: replace the resnet block's biases, as `Estimator.condition` makes them.

    Returns:
        Pieces of [B, F, C].
    """
    xs = resnet(xs, shift, streams, starts)
    for block in transformers:
        xs = block(xs, bias, streams)
    return xs


def unet_block(
    prepared: UNetWeights | None,
    resnet: ResnetBlock,
    transformers: Blocks,
    xs: Pieces,
    shift: mx.array,
    bias: mx.array | None,
    streams: Sequence[mx.Stream],
    starts: Starts | None = None,
) -> Pieces:
    """Compute a U-Net block by kernels if they are `prepared` and fit the sequence, else as `unet_block_ops`."""
    if prepared is None or bias is None or len(xs) > 1 or not fits_rows(xs[0].shape[1]):
        return unet_block_ops(resnet, transformers, xs, shift, bias, streams, starts)
    if prepared.resnet:
        return [unet_block_cuda(prepared, xs[0], shift, bias)]
    return [attend(prepared, resnet(xs, shift, streams, starts)[0], bias)]


def difference(prepared: UNetWeights, plain: Plain, inputs: int, frames: int) -> float:
    """Return the norm of the kernels' difference from `plain` on random rows [2, frames, inputs], over `plain`'s."""
    channels = prepared.sizes[0]
    x = mx.random.normal((2, frames, inputs), key=mx.random.key(0)).astype(mx.bfloat16)
    shift = mx.random.normal((channels,), key=mx.random.key(1)).astype(mx.bfloat16)
    mask = mx.where(mx.arange(frames) < frames - 5, 0.0, float("-inf")).astype(mx.bfloat16)[None, None, None]
    real = slice(0, frames - 5)
    return relative_difference(unet_block_cuda(prepared, x, shift, mask)[:, real], plain(x, shift, mask)[:, real])


def agree(prepared: UNetWeights, plain: Plain, inputs: int) -> bool:
    """True if the kernels build here and agree with `plain` on rows [.., inputs]. A warning tells if not."""
    return agreement.agree(
        "the flow's kernels", lambda: [difference(prepared, plain, inputs, frames) for frames in _CHECKED]
    )
