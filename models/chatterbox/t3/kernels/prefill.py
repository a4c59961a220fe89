"""Attention of a prompt as one kernel: `backbone.attend` at place 0, whose operations are eleven launches a layer.

It writes a whole new cache: the array that it is given lends its shape only, so that MLX never fills that one.
"""

from __future__ import annotations

from models.backend import mx
from models.chatterbox.t3 import backbone
from models.chatterbox.t3.backbone import ForwardPass
from models.chatterbox.t3.cache import Layer
from models.layers.kernels.device import LANES, Kernel, joined, launch

MAX_POSITIONS = 1024  # a block reads all places before its own: longer prompts are MLX's
WARPS = 4
_TILE = 16 * WARPS

_BODY = """
  SHARED_ARRAY(ushort, shared, SHARED_HALVES);
  const int count = qkv_shape[1], row = BLOCK_Y / HEADS, head = BLOCK_Y % HEADS, rows = BLOCKS_Y / HEADS;
  const Where at = {THREAD, THREAD % 32, THREAD / 32};
  const int room = BLOCKS_X * TILE;
  const long behind = (long)HEADS * room * HEAD, cached = 2 * rows * behind;
  GLOBAL ushort *to = (GLOBAL ushort *)made;
  const Part of = {(GLOBAL const ushort *)qkv + (long)row * count * 3 * HEADS * HEAD + head * HEAD,
                   to + 2 * row * behind + (long)head * room * HEAD,
                   (GLOBAL const float *)wavelengths, behind, HEADS * HEAD, 3 * HEADS * HEAD, count, ROTARY};
  attend_tile(at, of, BLOCK_X, to + cached + (long)row * count * HEADS * HEAD + head * HEAD, shared);
"""

# The cache [B, 2 * heads, T, 64], and behind it attention [B, n, C]: a further output would cost more than the rest of
# the launch.
KERNEL = Kernel(
    "nightingale_t3_prefill",
    ("qkv", "wavelengths"),
    ("made",),
    _BODY,
    f"#define WARPS {WARPS}\n#define THREADS {WARPS * LANES}\n" + joined(__file__, "prefill.h"),
    bounded=True,
)


def attend(reading: ForwardPass, qkv: mx.array, layer: Layer, heads: int) -> tuple[mx.array, Layer]:
    """Compute `backbone.attend` for an empty cache and `place` 0; by plain operations where the kernel does not fit."""
    (empty, *others), (rows, count, width) = layer, qkv.shape
    room, turns = empty.shape[2], reading.wavelengths
    if others or empty.dtype != mx.bfloat16 or empty.shape[3] != 64 or room % _TILE or count > MAX_POSITIONS:
        return backbone.attend(reading, qkv, layer, heads)
    (made,) = launch(
        KERNEL,
        [qkv, qkv if turns is None else turns],  # without turns the second is not read
        [((empty.size + rows * count * width // 3,), empty.dtype)],
        (room // _TILE, rows * heads, 1),
        {"HEADS": heads, "ROTARY": turns is not None},
        threads=WARPS * LANES,
    )
    return made[empty.size :].reshape(rows, count, width // 3), (made[: empty.size].reshape(empty.shape),)
