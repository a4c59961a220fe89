"""Voice agents' frameworks run their own services against a real server process, and a recognizer hears what comes.

The files here need packages whose pins disagree with this project's: `make agents` runs each by name in an environment
of its own, with the server from the usual one. A run that does not name them passes them over.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tests.processes import total

collect_ignore_glob = ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    """The frameworks import audioop, which Python 3.13 has no more, and parts of packages that are on their way out."""
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")


TEXT = "The weather is fine today, and the train leaves in the morning. Please open the window and close the door."


@pytest.fixture(scope="session")
def text() -> str:
    """Two sentences that the recognizer knows the words of."""
    return TEXT


@pytest.fixture(scope="session")
def tokens() -> list[str]:
    """The same as a language model writes it: the space comes with the word after it."""
    return re.findall(r"\s*\w+|\W", TEXT)


@pytest.fixture(scope="session")
def voice(spoken: np.ndarray) -> np.ndarray:
    """Speech as int16 [samples] at 16 kHz."""
    return (spoken * 32_767).astype(np.int16)


@pytest.fixture(scope="session")
def cancelled(house_server: str) -> Callable[[str], float]:
    """`cancelled(surface)`: how many streams of it the server has broken off so far."""
    sample = 'nightingale_requests_total(?=.*surface="{}").*outcome="cancelled"'
    return lambda surface: total(house_server, sample.format(surface))
