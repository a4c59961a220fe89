"""Tests that need PyTorch, which only the environment of `make parity` has: elsewhere they are passed over."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("torch") else ["*parity*", "test_network.py", "test_teacher.py"]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Networks this small are faster without others, most of all on a machine with other work."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
