"""The vocoder's arrays from an official checkpoint (`mel2wav.*` of s3gen.safetensors): renaming and folding, strict."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.chatterbox.s3gen.vocoder import HiFT
from models.checkpoint import check_shapes
from models.layers import weight_norm

PREFIX = "mel2wav."

# Reference name -> ours. The first pattern that matches names the array.
_RENAMES = [
    (re.compile(r"m_source\.l_linear\.(.*)"), r"source.merge.\1"),
    (re.compile(r"conv_(pre|post)\.(.*)"), r"\1.\2"),
    (re.compile(r"f0_predictor\.classifier\.(.*)"), r"f0.out.\1"),
]
_CONDNET = re.compile(r"f0_predictor\.condnet\.(\d+)\.(.*)")
_BLOCK = re.compile(r"(source_)?resblocks\.(\d+)\.(?:convs([12])\.(\d+)\.(.*)|activations([12])\.(\d+)\.alpha)")


def load_weights(network: HiFT, arrays: Mapping[str, mx.array], source: str) -> None:
    """Put the arrays named `mel2wav.*` into `network`, as float32, and lower it for this device; others are ignored.

    Raises WeightsError naming every such array that is missing, extra or misshapen.
    """
    found = convert(arrays, len(network.blocks[0]), source)
    wanted = dict(tree_flatten(network.parameters()))
    check_shapes(found, {name: array.shape for name, array in wanted.items()}, source)
    network.update(tree_unflatten([(name, array.astype(mx.float32)) for name, array in found.items()]))
    network.lower()
    network.freeze()
    mx.eval(network.parameters())


def convert(arrays: Mapping[str, mx.array], kernels: int, source: str) -> dict[str, mx.array]:
    """Rename and fold the `mel2wav.*` of `arrays` into the network's names; `kernels` residual blocks a stage."""
    own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    folded = weight_norm.fold({weight_norm.short_name(name): array for name, array in own.items()}, source)
    # Convolutions come channels first, and go channels last.
    turned = {name: array.swapaxes(1, 2) if array.ndim == 3 else array for name, array in folded.items()}
    return {_rename(name, kernels): array for name, array in turned.items()}


def _rename(name: str, kernels: int) -> str:
    if match := _CONDNET.fullmatch(name):
        # Convolutions and activations take turns in the reference's list.
        index, rest = int(match.group(1)), match.group(2)
        return f"f0.convs.{index // 2}.{rest}" if index % 2 == 0 else name
    if match := _BLOCK.fullmatch(name):
        of_source, block, conv, unit, leaf, activation, at = match.groups()
        place = f"source_blocks.{block}" if of_source else f"blocks.{int(block) // kernels}.{int(block) % kernels}"
        which = "first" if (conv or activation) == "1" else "second"
        return f"{place}.{which}.{unit}.conv.{leaf}" if conv else f"{place}.{which}.{at}.alpha"
    for pattern, replacement in _RENAMES:
        if pattern.fullmatch(name):
            return pattern.sub(replacement, name, count=1)
    return name
