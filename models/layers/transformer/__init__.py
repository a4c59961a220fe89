"""A Transformer's step of decoding, and a short encoding, as single CUDA kernels, and the step as Metal kernels."""

from __future__ import annotations

from collections.abc import Callable

from models.backend import mx
from models.layers.transformer.cuda import CudaStep
from models.layers.transformer.metal import Embed, MetalStep
from models.layers.transformer.shape import TransformerShape
from models.layers.transformer.step import Step
from models.layers.transformer.weights import TransformerWeights


def kernel_step(
    family: str, shape: TransformerShape, dtype: mx.Dtype, weights: Callable[[], TransformerWeights], embed: Embed
) -> Step | None:
    """Return the step of a lowered decoder by kernels, None where the device has none for it.

    Args:
        family: Of the model, for the kernels' names.
        shape: Of the decoder.
        dtype: Of its activations.
        weights: Returns what the kernels read; a decoder on the CPU has none of that form.
        embed: Of the decoder's tokens.
    """
    if CudaStep.available(shape, dtype):
        return CudaStep(family, weights())
    if MetalStep.available(shape, dtype):
        return MetalStep(family, weights(), embed)
    return None
