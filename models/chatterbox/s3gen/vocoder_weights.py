"""Loading of the official checkpoints' `mel2wav.*` arrays into the vocoder, strict."""

from __future__ import annotations

from collections.abc import Mapping

from models.backend import mx
from models.chatterbox.s3gen.vocoder import HiFT
from models.chatterbox.weights import channels_last, load_arrays, sources
from models.layers import weight_norm

PREFIX = "mel2wav."

# In the reference's list convolutions and activations take turns.
_RENAMES = ((r"condnet\.(\d+)", lambda match: f"condnet.{2 * int(match[1])}"),)
_RULES = (channels_last(r".*\.weight"),)


def load_weights(network: HiFT, arrays: Mapping[str, mx.array], source: str) -> None:
    """Put the arrays named `mel2wav.*` into `network`, as float32, and lower it for this device; others are ignored.

    Raises WeightsError naming every such array that is missing, extra or misshapen.
    """
    load_arrays(network, sanitize(arrays, source), sources(network, _RULES, _RENAMES), source)
    network.lower()
    mx.eval(network.parameters())


def sanitize(arrays: Mapping[str, mx.array], source: str) -> dict[str, mx.array]:
    """Return the `mel2wav.*` of `arrays` without that prefix, weight normalization folded."""
    own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    return weight_norm.fold({weight_norm.short_name(name): array for name, array in own.items()}, source)
