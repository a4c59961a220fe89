"""Put the arrays of a checkpoint into the network, and refuse any that do not fit.

The network has the reference's parameter names. Three layouts are read: the official `.pth` (weight norm not folded,
five state dicts, `module.` prefixes), the MLX community's safetensors (LSTMs as Wx / Wh, some convolutions channels
last), and the network's own parameters as safetensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.checkpoint import check_shapes
from models.contract import WeightsError
from models.kokoro.network import Kokoro
from models.layers import weight_norm

# Arrays that no inference reads.
_DROPPED = re.compile(r"bert\.pooler\..*|bert\.embeddings\.(position_ids|token_type_ids)|decoder\.generator\.stft\..*")
_INSTANCE_NORM = re.compile(r".*\.(?:norm[12]|adain[12]\.\d+)\.norm\.(weight|bias)")
# An array that only files with the names of this project's first versions have.
_FORMER = "bert.attention.qkv.weight"
_COMMUNITY_LSTM = ".Wx_forward"
_RENAMES = (
    (re.compile(r"(text_encoder\.cnn\.\d+\.1)\.gamma"), r"\1.weight"),
    (re.compile(r"(text_encoder\.cnn\.\d+\.1)\.beta"), r"\1.bias"),
    (re.compile(r"(.*)\.Wx_(forward|backward)"), r"\1.weight_ih_\2"),
    (re.compile(r"(.*)\.Wh_(forward|backward)"), r"\1.weight_hh_\2"),
    (re.compile(r"(.*_[ih]h)_forward"), r"\1_l0"),
    (re.compile(r"(.*_[ih]h)_backward"), r"\1_l0_reverse"),
)


def load_weights(network: Kokoro, arrays: Mapping[str, mx.array], source: str) -> None:
    """Put `arrays` into `network`, as float32, and lower it for this device.

    Raises WeightsError naming every array that is missing, extra or misshapen.
    """
    if _FORMER in arrays:
        raise WeightsError(
            f"{source}: its parameters have the names of an earlier version of this program ({_FORMER}); load the "
            "checkpoint that it was made from"
        )
    wanted = {name: array.shape for name, array in dict(tree_flatten(network.parameters())).items()}
    channels_last = any(name.endswith(_COMMUNITY_LSTM) for name in arrays)
    found = {
        name: _fit(array, wanted[name], channels_last=channels_last) if name in wanted else array
        for name, array in sanitize(arrays, source).items()
    }
    check_shapes(found, wanted, source)
    network.update(tree_unflatten([(name, array.astype(mx.float32)) for name, array in found.items()]))
    network.lower()
    network.freeze()
    mx.eval(network.parameters())


def sanitize(arrays: Mapping[str, mx.array], source: str) -> dict[str, mx.array]:
    """Return the arrays of any layout under the network's names, weight norm folded, without those never read."""
    found: dict[str, mx.array] = {}
    for key, array in arrays.items():
        name = weight_norm.short_name(key.replace(".module.", "."))
        if _DROPPED.fullmatch(name):
            continue
        if match := _INSTANCE_NORM.fullmatch(name):
            only = 1 if match[1] == "weight" else 0  # as in the official file: the network has no other affine
            if not bool(mx.all(array == only)):
                raise WeightsError(f"{source}: {name} is not {only} everywhere")
            continue
        for pattern, replacement in _RENAMES:
            if pattern.fullmatch(name):
                name = pattern.sub(replacement, name)
        found[name] = array
    return weight_norm.fold(found, source)


def _fit(array: mx.array, shape: tuple[int, ...], *, channels_last: bool) -> mx.array:
    """Return `array` in `shape`: as it is, a convolution channels last, or without unit axes; as it is if none fits."""
    if array.ndim == 3:
        turned = array.swapaxes(1, 2)
        for candidate in (array, turned) if channels_last else (turned, array):
            if candidate.shape == shape:
                return candidate
        if [n for n in array.shape if n != 1] == [n for n in shape if n != 1]:
            return array.reshape(shape)
    return array
