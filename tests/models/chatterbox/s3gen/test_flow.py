"""The flow: fewer steps, padding, and the path that a GPU takes. `make parity` has its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadtest.s3gen_steps import random_weights
from models.backend import mx
from models.chatterbox.s3gen import flow as flow_module
from models.chatterbox.s3gen import relative_attention
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.weights import load_flow
from models.contract import WeightsError
from models.layers import attention, conv, linear
from models.native import kernels
from tests.models.chatterbox.s3gen import flow_builder
from tests.models.chatterbox.s3gen.flow_builder import FRAMES, PROMPT, SPOKEN, distance, flow, normal, tokens, voice

CLOSE = 1e-5


def _mel(own: Flow, steps: int | None = None, seed: int = 7) -> mx.array:
    return own.solve(own.encode(tokens(PROMPT), tokens(SPOKEN, 2)), *voice(), normal(seed, 1, FRAMES, 8), steps)


def test_the_prompt_is_left_out_and_the_last_state_kept() -> None:
    own = flow()
    mu, noise = own.encode(tokens(PROMPT), tokens(SPOKEN, 2)), normal(7, 1, FRAMES, 8)
    states = list(own.steps(mu, *voice(), noise))
    assert [state.shape for state in states] == [(1, FRAMES, 8)] * 4
    assert all(state.dtype == mx.float32 for state in states)
    mel = own.solve(mu, *voice(), noise)
    assert mel.shape == (1, 2 * SPOKEN, 8)
    assert np.array_equal(np.array(mel), np.array(states[-1][:, 2 * PROMPT :]))


def test_fewer_steps_come_close() -> None:
    """Euler's error falls with the number of steps; the variant's own number is the default."""
    own = flow()
    fine = _mel(own, 64)
    errors = [distance(_mel(own, steps), fine) for steps in (2, 4, 16)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1
    assert np.array_equal(np.array(_mel(own)), np.array(_mel(own, 4)))


@pytest.mark.parametrize("variant", flow_builder.VARIANTS)
def test_padding_changes_nothing(variant: str) -> None:
    assert distance(_mel(flow(variant, padded=True)), _mel(flow(variant, padded=False))) < CLOSE


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("variant", flow_builder.VARIANTS)
def test_the_path_of_a_gpu(variant: str, bfloat16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets, compiled stages, both rows of guidance in one batch, MLX's own convolution and attention.

    The estimator may compute in bfloat16, near the plain flow and not equal to it; the state stays float32.
    """
    wanted = np.array(_mel(flow(variant)))
    for part in (flow_module, relative_attention, attention, conv, linear):
        monkeypatch.setattr(part, "on_cpu", lambda: False)
    own = flow_builder.loaded(flow_builder.VARIANTS[variant], bfloat16=bfloat16)
    found = _mel(own)
    assert own.padded
    assert (own.estimator.dtype, found.dtype) == (mx.bfloat16 if bfloat16 else mx.float32, mx.float32)
    assert (1e-5 < distance(found, wanted) < 0.05) if bfloat16 else distance(found, wanted) < CLOSE


@pytest.mark.parametrize("variant", flow_builder.VARIANTS)
def test_bfloat16_on_a_cpu_is_of_products_alone(variant: str) -> None:
    own = flow_builder.loaded(flow_builder.VARIANTS[variant], bfloat16=True)
    assert (own.estimator.dtype, own.estimator.native) == (mx.float32, kernels.available())
    found = distance(_mel(own), _mel(flow(variant)))
    assert (0 < found < 0.05) if kernels.has_bfloat16() else found == 0


def test_what_does_not_fit_is_refused() -> None:
    own, mu = flow(), normal(1, 1, FRAMES, 8)
    with pytest.raises(ValueError, match="do not fit"):
        own.solve(mu, *voice(), normal(2, 1, FRAMES + 1, 8))
    with pytest.raises(ValueError, match="do not fit"):
        own.solve(mu[:, : 2 * PROMPT], *voice(), normal(2, 1, 2 * PROMPT, 8))


def test_guidance_of_zero_costs_no_second_row() -> None:
    own = flow_builder.loaded(replace(flow_builder.SMALL, flow=replace(flow_builder.SMALL.flow, guidance=0.0)))
    given = own._condition(normal(1, 1, FRAMES, 8), normal(2, 1, 12), normal(3, 1, FRAMES, 8))
    assert given[0].shape[0] == 1


MIXER = "flow.decoder.estimator.time_embed_mixer.weight"


def test_the_other_variants_weights_are_refused() -> None:
    with pytest.raises(WeightsError, match=f"unexpected {MIXER}"):
        load_flow(Flow(flow_builder.SMALL), random_weights(flow_builder.SMALL_TURBO), "file")
    with pytest.raises(WeightsError, match=f"missing {MIXER}"):
        load_flow(Flow(flow_builder.SMALL_TURBO), random_weights(flow_builder.SMALL), "file")
