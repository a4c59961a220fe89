"""A step of T3's Llama as five or six Metal kernels a layer, the same phases as the CUDA kernel's. Not of GPT-2.

Metal does not promise that all blocks of a grid run at once, so that a barrier of the grid could wait for ever: here
each phase is a launch. Tests check the arithmetic and the order of the launches on a CPU, where fibers run these
bodies, and clang checks their types. No machine with Metal has compiled or run them: `choose_step` compares them with
`T3.advance` first, and `loadtest/t3_kernels.py` measures both.

The kernels write the caches in place, for the reasons in cuda.py. MLX launches in order, and each phase reads results
of one before.
"""

from __future__ import annotations

from dataclasses import replace

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3 import cache as caches
from models.chatterbox.t3.cache import Cache
from models.chatterbox.t3.kernels.source import HEAD, constants, fits, splits
from models.chatterbox.t3.kernels.source import PHASES as SOURCES
from models.chatterbox.t3.kernels.weights import pack
from models.chatterbox.t3.network import T3
from models.layers.kernels.device import LANES, Kernel, gpu, joined, launch

_SHARED_BYTES = 32 << 10  # of a threadgroup
_WARPS = 8  # a block: a kernel of many registers may hold no more
_BLOCKS = 128  # between which attention's heads and rows are shared out


# Their bodies are in the words of phases.h; what precedes a body depends on the network.
PROJECT = Kernel(
    "project",
    ("qkv", "x", "gains", "rope", "place", "layer", "cache"),
    ("words",),
    """
  GLOBAL const Chunk *weight = (GLOBAL const Chunk *)qkv + (long)layer * 3 * HIDDEN * ROW;
  gain_load(at, gains + layer * 2 * HIDDEN, gain);
  project(at, w, &of_pair, weight, NONE, x, gain, rope + place[0] * HEAD, place[0],
          (int)cache_shape[2], 0, words, (GLOBAL ushort *)cache, shared);
""",
)
ATTEND = Kernel(
    "attend",
    ("words", "place", "cache"),
    ("parts", "weights"),
    """
  GLOBAL const ushort *kept = (GLOBAL const ushort *)cache;
  attend_load(at, kept, place[0], (int)cache_shape[2], w);
  attend(at, w, words, 0, 0, 0, kept, place[0], (int)cache_shape[2], (GLOBAL ushort *)parts, weights, shared);
""",
)
OUT = Kernel(
    "out",
    ("out", "parts", "weights", "x", "layer"),
    ("y",),
    """
  GLOBAL const Chunk *weight = (GLOBAL const Chunk *)out + (long)layer * HIDDEN * ROW;
  mix_load(at, weight, NONE, HIDDEN, HIDDEN, 0, 0, PAIR, w, &bias);
  stash_attended(at, (GLOBAL const ushort *)parts, weights, shared);
  mix(at, w, bias, weight, NONE, HIDDEN, HIDDEN, x, y, shared);
""",
)
GATE = Kernel(
    "gate",
    ("gate_up", "x", "gains", "layer"),
    ("inner",),
    """
  GLOBAL const Chunk *weight = (GLOBAL const Chunk *)gate_up + (long)layer * 2 * INNER * ROW;
  gain_load(at, gains + (layer * 2 + 1) * HIDDEN, gain);
  gate(at, w, &of_pair, weight, NONE, x, gain, (GLOBAL ushort *)inner, shared);
""",
)
DOWN = Kernel(
    "down",
    ("down", "inner", "x", "layer", "piece"),
    ("y",),
    """
  GLOBAL const Chunk *weight = (GLOBAL const Chunk *)down + ((long)layer * HIDDEN * INNER + piece * WIDE) / CHUNK;
  mix_inner(at, w, 0.0f, weight, NONE, (GLOBAL const ushort *)inner + piece * WIDE, x, y, shared);
""",
)
LOGITS = Kernel(
    "logits",
    ("head", "x", "gains"),
    ("logits",),
    """
  gain_load(at, gains + LAYERS * 2 * HIDDEN, gain);
  logits_of(at, w, &of_pair, (GLOBAL const Chunk *)head, NONE, x, gain, 0.0f, logits, shared);
""",
)
PHASES = (PROJECT, ATTEND, OUT, GATE, DOWN, LOGITS)

# Llama has no terms.
_BEGIN = """
  SHARED_ARRAY(float4, room, (SHARED_FLOATS + 3) / 4);
  SHARED float *shared = (SHARED float *)room;
  const Where at = {THREAD, THREAD % LANES, THREAD / LANES, BLOCK_X, BLOCKS_X};
  uint4 w[MAX_READS];
  Terms of_pair;
  float4 gain[ROW_READS];
  float bias;
  GLOBAL const float *NONE = 0;
  (void)w, (void)of_pair, (void)gain, (void)bias, (void)NONE;
"""


def kernel(phase: Kernel, config: T3Config, rows: int) -> Kernel:
    """Return the kernel of a phase, with the definitions of rows.h; nothing is loaded ahead."""
    sizes = constants(config, rows, _BLOCKS, warps=_WARPS, pieces=pieces(config, rows), ahead=(0, 0, 0, 0))
    room = f'static_assert(4 * SHARED_FLOATS <= {_SHARED_BYTES}, "");\n'
    header, name = sizes + joined(__file__, *SOURCES) + room, f"nightingale_t3_{phase.name}_{rows}"
    return replace(phase, name=name, body=_BEGIN + phase.body, header=header, in_place=True)


def pieces(config: T3Config, rows: int) -> int:
    """Return the number of parts of the inner row, so that shared memory holds one of each row, and its sums."""
    count = 1
    while 4 * rows * (config.inner // count) + 4 * 5 * _WARPS * rows + 8 * HEAD > _SHARED_BYTES:
        count *= 2
    return count


class T3MetalStep:
    """`T3.advance` for one token, a kernel a phase; a `step` for `Decoder`. Make it only if `available`."""

    def __init__(self, network: T3, positions: int = 8192) -> None:
        """Prepare for caches of at most `positions` rows. Raises ValueError for a GPT-2."""
        if network.config.backbone != "llama":
            raise ValueError("the phases are Llama's: no biases are passed to them")
        self.config, self.positions = network.config, positions
        self._weights = pack(network, positions)
        self._numbers = [mx.array(number, dtype=mx.int32) for number in range(max(2, network.config.layers))]
        mx.eval(self._numbers)
        self._kernels = {(phase.name, rows): kernel(phase, self.config, rows) for phase in PHASES for rows in (1, 2)}

    @staticmethod
    def available(network: T3) -> bool:
        """True if this step can replace `network.advance`."""
        return (
            gpu() == "metal"
            and network.dtype == mx.bfloat16
            and network.bits == 0
            and network.config.backbone == "llama"
            and all(
                fits(network.config, rows) and network.config.inner % (1024 * pieces(network.config, rows)) == 0
                for rows in (1, 2)
            )
        )

    def _launch(
        self, phase: Kernel, rows: int, blocks: int, inputs: list[mx.array], shapes: list[tuple[int, ...]]
    ) -> list[mx.array]:
        outputs = [(shape, mx.float32) for shape in shapes]
        return launch(self._kernels[phase.name, rows], inputs, outputs, (blocks, 1, 1), threads=_WARPS * LANES)

    def __call__(self, tokens: mx.array, place: mx.array, cache: Cache) -> tuple[mx.array, Cache]:
        """As CudaStep's. A place beyond the last row is the caller's error, and is not checked."""
        config, of, launch = self.config, self._weights, self._launch
        rows, hidden = caches.rows(cache), config.hidden
        if tokens.shape != (1,) or caches.capacity(cache) > self.positions:
            raise ValueError(f"one token, and bfloat16 caches of at most {self.positions} rows, are expected")
        x = of.speech[tokens].astype(mx.float32) + mx.take(of.learned, place[1:], axis=0).astype(mx.float32)
        x = mx.contiguous(mx.broadcast_to(x, (rows, hidden)))
        heads = rows * config.heads * splits(config, rows, _BLOCKS)
        for layer, (kept,) in enumerate(cache):
            at = self._numbers[layer]
            (words,) = launch(
                PROJECT,
                rows,
                _blocks(3 * hidden // 2, _WARPS),
                [of.qkv, x, of.gains, of.rope, place, at, kept],
                [(rows, 4 * hidden)],
            )
            parts, weights = launch(ATTEND, rows, heads, [words, place, kept], [(heads, HEAD // 2), (heads, 2)])
            mixing = _blocks(hidden // 2, _WARPS // 4)
            (x,) = launch(OUT, rows, mixing, [of.out, parts, weights, x, at], [(rows, hidden)])
            (inner,) = launch(
                GATE, rows, _blocks(config.inner, _WARPS), [of.gate_up, x, of.gains, at], [(rows, config.inner // 2)]
            )
            for piece in range(pieces(config, rows)):
                (x,) = launch(DOWN, rows, mixing, [of.down, inner, x, at, self._numbers[piece]], [(rows, hidden)])
        (logits,) = launch(
            LOGITS,
            rows,
            _blocks(-(-config.speech_vocabulary // 2), _WARPS),
            [of.head, x, of.gains],
            [(rows, 1, config.speech_vocabulary)],
        )
        return logits, cache


def _blocks(tasks: int, each: int) -> int:
    return -(-tasks // each)
