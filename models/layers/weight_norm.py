"""Weight normalization, folded when a checkpoint is read (Salimans and Kingma 2016, arXiv:1602.07868)."""

from __future__ import annotations

from collections.abc import Mapping

from models.backend import mx
from models.contract import WeightsError


def short_name(name: str) -> str:
    """Return the name of a weight-norm array in torch's older, shorter form: `.weight_g` and `.weight_v`."""
    name = name.replace("parametrizations.weight.original0", "weight_g")
    return name.replace("parametrizations.weight.original1", "weight_v")


def fold(arrays: Mapping[str, mx.array], source: str) -> dict[str, mx.array]:
    """Replace every `.weight_g` and `.weight_v` by one `.weight`, float32; keep other arrays.

    w = g * v / |v|, with the norm over all axes but the first. Raises WeightsError with the name of an array whose
    other half is missing.
    """
    folded = {}
    for name, array in arrays.items():
        if name.endswith(".weight_g"):
            if name[:-1] + "v" not in arrays:
                raise WeightsError(f"{source}: {name} without its weight_v")
        elif name.endswith(".weight_v"):
            gain = arrays.get(name[:-1] + "g")
            if gain is None:
                raise WeightsError(f"{source}: {name} without its weight_g")
            v = array.astype(mx.float32)
            norm = mx.sqrt(mx.sum(v * v, axis=(1, 2), keepdims=True))
            folded[name[:-2]] = v * (gain.astype(mx.float32) / norm)
        else:
            folded[name] = array
    return folded
