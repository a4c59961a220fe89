"""From the official checkpoint's arrays to the network, strictly.

The layout is transformers' M2M100ForConditionalGeneration, as safetensors or pytorch_model.bin, in any float type; the
network has its parameter names.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.checkpoint import check_shapes, raise_problems
from models.nllb.network import Nllb

_PREFIX = "model."
_SHARED = "model.shared.weight"
_TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
# Tables that are computed, which early releases saved all the same.
_COMPUTED = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")


def load_weights(network: Nllb, arrays: Mapping[str, mx.array], source: str, dtype: mx.Dtype = mx.float32) -> None:
    """Put `arrays` into `network`, as `dtype`; `Nllb.lower` evaluates them, a layer at a time.

    Raises WeightsError naming what is missing, extra or misshapen.
    """
    problems = [
        f"{name} differs from {_SHARED}: only tied embeddings are read"
        for name in _TIED
        if _SHARED in arrays
        and name in arrays
        # PyTorch's files have tied weights once.
        and arrays[name] is not arrays[_SHARED]
        and not bool(mx.array_equal(arrays[name], arrays[_SHARED]))
    ]
    found = {name: array for name, array in arrays.items() if name not in (*_TIED, *_COMPUTED)}
    check_shapes(found, shapes(network), source)
    raise_problems(problems, source)
    ready = [(name.removeprefix(_PREFIX), array.astype(dtype)) for name, array in found.items()]
    network.update(tree_unflatten(ready))
    network.freeze()


def shapes(network: Nllb) -> dict[str, tuple[int, ...]]:
    """Return every array of an official checkpoint for `network`, not lowered, and its shape."""
    return {_PREFIX + name: array.shape for name, array in dict(tree_flatten(network.parameters())).items()}
