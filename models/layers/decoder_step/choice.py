"""The kernels of a decoding step that the device there is can run."""

from __future__ import annotations

from collections.abc import Callable

from models.backend import mx
from models.layers.decoder_step.cuda import CudaStep
from models.layers.decoder_step.metal import Embed, MetalStep
from models.layers.decoder_step.shape import DecoderShape
from models.layers.decoder_step.step import Step
from models.layers.decoder_step.weights import DecoderWeights


def kernel_step(
    family: str, shape: DecoderShape, dtype: mx.Dtype, weights: Callable[[], DecoderWeights], embed: Embed
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
