"""The real Perth: what is marked piece by piece is found by its own detector, as when it marks a whole."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.audio.watermark import MarkedStream, load_perth
from app.cli.local import open_speech
from app.config import load_settings
from app.speech.options import SpeechOptions
from models.timeline import Timeline

pytestmark = pytest.mark.parity

# torchaudio's wheel links CUDA; this makes the parts importable that Perth uses.
_PACKAGES = Path(__file__).parents[2] / "models" / "chatterbox" / "reference_packages.py"
OURS = 24_000
# Perth's detector says 0 to 1, and its authors round: what is marked must be beyond doubt, what is not as well.
SURE = 0.95


@pytest.fixture(scope="module")
def marker() -> Iterator[object]:
    spec = importlib.util.spec_from_file_location("reference_packages", _PACKAGES)
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault("reference_packages", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return load_perth()


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """Some seconds of the house voice."""

    async def speak() -> np.ndarray:
        settings = load_settings(None, {"NIGHTINGALE_DATA_DIR": str(tmp_path_factory.mktemp("data"))})
        async with open_speech(settings, "house") as speech:
            text = "When the bridge was closed, the people of both villages took the ferry instead. They liked it."
            parts = [pcm async for pcm in speech.speak(text, SpeechOptions(model="house"), Timeline())]
        return np.concatenate(parts)

    return asyncio.run(speak())


def detect(pcm: np.ndarray) -> float:
    """Return the confidence of Perth's own detector that `pcm` is marked, 0 to 1."""
    # Beside the package's __init__, which hides what it cannot import.
    perth = importlib.import_module("perth.perth_net.perth_net_implicit.perth_watermarker")
    return float(perth.PerthImplicitWatermarker().get_watermark(pcm, OURS, round=False))


def stream(marker: object, pcm: np.ndarray, sizes: list[float]) -> np.ndarray:
    marked = MarkedStream(marker, OURS)
    cuts = np.cumsum([round(size * OURS) for size in sizes])
    return np.concatenate([marked.push(piece) for piece in np.split(pcm, cuts[cuts < pcm.size])])


@pytest.mark.parametrize(
    "sizes", [[], [0.4, *[1.0] * 9], [0.3] * 30, [0.16] * 60], ids=["whole", "chunks", "short", "tiny"]
)
def test_marked_streams_are_found(marker: object, spoken: np.ndarray, sizes: list[float]) -> None:
    marked = stream(marker, spoken, sizes)
    assert marked.size == spoken.size
    assert detect(spoken) < 1 - SURE
    assert detect(marked) > SURE
    # The sound stays what it was, as far as it does when Perth marks a whole.
    power = 10 * np.log10((spoken**2).sum() / ((marked - spoken) ** 2).sum())
    assert power > 10


# Half a second is short for the detector: it is less sure of those of a whole that Perth marked, too.
@pytest.mark.parametrize(("seconds", "sure"), [(0.5, 0.9), (1.0, SURE), (2.0, SURE)])
def test_a_part_of_a_stream_is_enough(marker: object, spoken: np.ndarray, seconds: float, sure: float) -> None:
    marked = stream(marker, spoken, [0.4, *[1.0] * 9])
    size = round(seconds * OURS)
    assert detect(marked[:size]) > sure
    assert detect(marked[-2 * size : -size]) > sure


def test_seams_are_as_smooth_as_the_sound(marker: object, spoken: np.ndarray) -> None:
    sizes = [0.4, *[1.0] * 9]
    marked = stream(marker, spoken, sizes)
    whole = stream(marker, spoken, [])
    for cut in np.cumsum([round(size * OURS) for size in sizes]):
        if cut + 50 < spoken.size:
            step = abs((marked - spoken)[cut] - (marked - spoken)[cut - 1])
            assert step < np.abs(np.diff(whole - spoken)).max()
            assert step < 1e-3


def test_sixteen_bits_and_another_rate_do_not_take_it_away(marker: object, spoken: np.ndarray) -> None:
    import soxr

    marked = np.rint(stream(marker, spoken, [0.4, *[1.0] * 9]) * 32_767) / 32_767
    narrow = soxr.resample(marked.astype(np.float32), OURS, 16_000)
    assert detect(soxr.resample(narrow, 16_000, OURS)) > SURE
