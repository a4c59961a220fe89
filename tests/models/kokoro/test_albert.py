"""PL-BERT's attention against PyTorch's values (tests/golden/make_layers.py)."""

from __future__ import annotations

import pytest

from tests.golden.layer_cases import ATTENTION
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden


@pytest.mark.parametrize("extra", [0, 6])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_equals_torch(name: str, extra: int) -> None:
    """Padded keys count for nothing, however many."""
    assert checks.attention(ATTENTION[name], golden("attention", name), extra) < TOLERANCE
