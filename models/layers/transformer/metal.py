"""A decoding step as eight Metal kernels a layer: the phases of the CUDA kernel, a launch each.

Metal does not promise that all blocks of a grid run at once, so a barrier of the grid could wait for ever. A block has
memory for eight rows: the second dimension of a grid has all rows, and each eight of them read the weights again.

Tests run these bodies on an emulated GPU. No machine with Metal has run them yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from models.backend import mx
from models.layers.kernels import device
from models.layers.kernels.device import LANES, Kernel, gpu, joined
from models.layers.transformer.shape import TransformerShape, matrix
from models.layers.transformer.step import OUTPUTS, StepInput
from models.layers.transformer.weights import TransformerWeights, named, pack

Embed = Callable[[mx.array], mx.array]
"""Ids [B, n] -> token embeddings [B, n, C]."""

_ROWS = 8  # of a block
_MAX_WARPS = 8  # a block: a kernel of many registers may hold no more
_SHARED_BYTES = 32 << 10
_BLOCKS = 128  # of a product
_SEARCH_BLOCKS = 512

# `ALL` is an array of as many rows as there are.
_BEGIN = """
  SHARED_ARRAY(float4, room, (SHARED_FLOATS + 3) / 4);
  SHARED float *shared = (SHARED float *)room;
  const Where at = {THREAD, THREAD % LANES, THREAD / LANES, BLOCK_X, BLOCKS_X};
  const int first = BLOCK_Y * COLUMNS, left = (int)ALL_shape[0] - first, rows = left < COLUMNS ? left : COLUMNS;
  (void)shared, (void)rows, (void)at;
"""

_PRODUCT = """
  GLOBAL const ushort *own = (GLOBAL const ushort *)vectors + layer[0] * LAYER_VECTORS;
  const Matrix all = MATRIX;
  const Matrix of = moved(all, (long)layer[0] * OUTPUTS_OF(KIND) * WIDTH_OF(KIND));
  const Arrays to = {x + first * HIDDEN, STREAM, QUERIES, CACHE, MIXED, INNER_ROWS,
                     rows, first, EACH, PLACE, LENGTH, 0};
  Ahead ahead;
  NORM_LOAD;
  product_load(at, KIND, of, own + BIAS, to, &ahead);
  NORMALIZE;
  product(at, KIND, of, own + BIAS, to, &ahead, shared);
"""

# Of a product: its kind, its bias, its norm, and what it reads or writes beside the stream.
_PRODUCTS = {
    "qkv": ("QKV", "AT_BIAS_QKV", 0, "query"),
    "out": ("MIX", "AT_BIAS_OUT", None, "mixed"),
    "query": ("QUERY", "AT_BIAS_QUERY", 1, "query"),
    "cross": ("MIX", "AT_BIAS_CROSS", None, "mixed"),
    "fc1": ("FEED", "AT_BIAS_FC1", 2, "inner"),
    "fc2": ("FEED_MIX", "AT_BIAS_FC2", None, "inner"),
}

_ATTEND_SELF = """
  const Turn turn = {0, 0, 0};
  const int each = (int)(queries_shape[0] / cache_shape[0]);
  attend(at, first, rows, each, place[0] + 1, (int)cache_shape[2], queries + first * HIDDEN,
         (GLOBAL const ushort *)cache, origin, 0, 1, turn, 0, (GLOBAL ushort *)mixed + first * HIDDEN, shared);
"""
_ATTEND_CROSS = """
  const Turn turn = {0, 0, 0};
  const int count = (int)cache_shape[2], each = (int)(queries_shape[0] / cache_shape[0]);
  attend(at, first, rows, each, count, count, queries + first * HIDDEN, (GLOBAL const ushort *)cache, 0,
         (GLOBAL const ushort *)mask, 1, turn, 0, (GLOBAL ushort *)mixed + first * HIDDEN, shared);
"""
_NORMALIZE_LAST = """
  norm_load(at, (GLOBAL const ushort *)vectors + LAYERS * LAYER_VECTORS, &ahead);
  normalize(at, x + first * HIDDEN, rows, &ahead, shared);
"""
_SEARCH = f"""
  const Matrix of = MATRIX;
  Ahead ahead;
  search_start(at, of, (int)banned_shape[0], &ahead);
{_NORMALIZE_LAST}
  search(at, rows, (int)banned_shape[0], of, (GLOBAL const ushort *)banned, &ahead,
         best + first * at.blocks * 2, shared);
"""
_CHOOSE = """
  choose(at, rows, (int)best_shape[1], best + first * (int)best_shape[1] * 2, entries, 0, tokens + first);
"""
_OUTPUT = f"""
  Ahead ahead;
{_NORMALIZE_LAST}
  for (int row = at.block; row < rows; row += at.blocks)
    for (int i = at.index; i < HIDDEN; i += THREADS)
      ((GLOBAL ushort *)hidden)[(first + row) * HIDDEN + i] = ((SHARED const ushort *)shared)[row * STRIDE + i];
"""


class MetalStep:
    """A `Step` (`choice`) by a kernel a phase. Make it only if `available`."""

    def __init__(self, family: str, given: TransformerWeights, embed: Embed) -> None:
        """Prepare for a lowered decoder of a `family`, and its embeddings."""
        self.family, self.shape, self._embed, self._bits = family, given.shape, embed, given.shape.bits
        self._weights, self._warps = pack(given), given.shape.warps(_MAX_WARPS)
        self._layers = [mx.array([layer]) for layer in range(self.shape.layers)]
        mx.eval(self._layers)
        self._header = self.shape.constants(1, self._warps) + joined(__file__, "products.h", "attention.h")
        head = tuple(name.replace("table", "head") for name in self._weights if name.startswith("table"))
        self._kernels = {name: self._product(name) for name in _PRODUCTS}
        self._kernels |= {
            "self": self._kernel("self", ("queries", "place", "cache", "origin"), "mixed", _ATTEND_SELF),
            "attend": self._kernel("attend", ("queries", "cache", "mask"), "mixed", _ATTEND_CROSS),
            "search": self._kernel(
                "search",
                ("x", "vectors", "banned", *head),
                "best",
                _SEARCH.replace("MATRIX", matrix("head", self._bits)),
            ),
            "choose": self._kernel("choose", ("best", "entries"), "tokens", _CHOOSE),
            "output": self._kernel("output", ("x", "vectors"), "hidden", _OUTPUT),
        }

    @staticmethod
    def available(given: TransformerShape, dtype: mx.Dtype) -> bool:
        """Return whether this step can replace the plain one."""
        return gpu() == "metal" and dtype == mx.bfloat16 and fits_metal(given)

    def _kernel(self, name: str, inputs: tuple[str, ...], output: str, body: str) -> Kernel:
        return Kernel(
            name=f"nightingale_{self.family}_{name}",
            inputs=inputs,
            outputs=(output,),
            body=_BEGIN.replace("ALL", inputs[0]) + body,
            header=self._header,
            in_place=True,
        )

    def _product(self, name: str) -> Kernel:
        kind, bias, norm, beside = _PRODUCTS[name]
        of, output = tuple(each for each in self._weights if each == name or each.startswith(f"{name}_")), beside
        inputs: tuple[str, ...] = ("x", *of, "vectors", "layer")
        words = {"KIND": kind, "BIAS": bias, "MATRIX": matrix(name, self._bits), "EACH": "1"}
        words |= dict.fromkeys(("STREAM", "QUERIES", "CACHE", "MIXED", "INNER_ROWS", "PLACE", "LENGTH"), "0")
        words |= dict.fromkeys(("NORM_LOAD", "NORMALIZE"), "(void)0")
        if beside == "query":
            words["QUERIES"], output = "queries + first * HIDDEN", "queries"
        elif beside == "mixed":
            words["MIXED"] = "(GLOBAL ushort *)mixed + first * HIDDEN"
        else:
            words["INNER_ROWS"] = "(GLOBAL ushort *)inner + first * INNER"
        if norm is None:
            words["STREAM"], inputs, output = "y + first * HIDDEN", (*inputs, beside), "y"
        else:
            words["NORMALIZE"] = "normalize(at, to.x, rows, &ahead, shared)"
            words["NORM_LOAD"] = f"norm_load(at, own + {2 * norm} * HIDDEN, &ahead)"
        if kind == "QKV":
            inputs = (*inputs, "place", "cache")
            words |= {"PLACE": "place[0]", "LENGTH": "(int)cache_shape[2]", "CACHE": "(GLOBAL ushort *)cache"}
            words["EACH"] = "(int)(x_shape[0] / cache_shape[0])"
        body = _PRODUCT
        for word, text in words.items():
            body = body.replace(word, text)
        return self._kernel(f"product_{name}", inputs, output, body)

    def _run(
        self, name: str, inputs: Sequence[mx.array], shape: tuple[int, ...], dtype: mx.Dtype, blocks: int, rows: int
    ) -> mx.array:
        grid = (blocks, -(-rows // _ROWS), 1)
        (made,) = device.launch(self._kernels[name], inputs, [(shape, dtype)], grid, threads=self._warps * LANES)
        return made

    def _multiply(self, name: str, x: mx.array, layer: int, *more: mx.array) -> mx.array:
        """Return what the product `name` makes of the stream x [B, C]."""
        of = [array for each, array in self._weights.items() if each == name or each.startswith(f"{name}_")]
        width = self.shape.inner if name == "fc1" else x.shape[1]
        dtype = mx.bfloat16 if name == "fc1" else mx.float32
        inputs = [x, *of, self._weights["vectors"], self._layers[layer], *more]
        return self._run(name, inputs, (x.shape[0], width), dtype, _BLOCKS, x.shape[0])

    def __call__(self, *given: *StepInput) -> tuple[mx.array, mx.array]:
        """Compute a `Step`. A place beyond the last is the caller's error, and is not checked."""
        ids, place, past, memory, mask, origin, head, ending = given
        rows, count, shape = ids.size, ids.shape[1], (ids.size, self.shape.width)
        heads = self.shape.heads * min(rows, _ROWS)
        positions = mx.take(self._weights["positions"], place + mx.arange(count), axis=0)
        x = (self._embed(ids).astype(mx.float32) + positions.astype(mx.float32)).reshape(shape)
        for layer, (kept, read) in enumerate(zip(past, memory, strict=True)):
            queries = self._multiply("qkv", x, layer, place, kept)
            mixed = self._run("self", [queries, place, kept, origin], shape, mx.bfloat16, heads, rows)
            x = self._multiply("out", x, layer, mixed)
            queries = self._multiply("query", x, layer)
            mixed = self._run("attend", [queries, read, mask], shape, mx.bfloat16, heads, rows)
            x = self._multiply("cross", x, layer, mixed)
            x = self._multiply("fc2", x, layer, self._multiply("fc1", x, layer))
        vectors = self._weights["vectors"]
        if ending == OUTPUTS:
            x = self._run("output", [x, vectors], shape, mx.bfloat16, _ROWS, rows)
        else:
            inputs = [x, vectors, head.banned.astype(mx.bfloat16), *named("head", head.part).values()]
            x = self._run("search", inputs, (rows, _SEARCH_BLOCKS, 2), mx.float32, _SEARCH_BLOCKS, rows)
            x = self._run("choose", [x, head.entries], (rows,), mx.int32, 1, rows)
        return x.reshape(*ids.shape, *x.shape[1:]), place + count


def fits_metal(given: TransformerShape) -> bool:
    """Return whether these kernels are for these sizes: a block has 32 KB."""
    return given.fits() and given.shared_bytes(1, given.warps(_MAX_WARPS)) <= _SHARED_BYTES
