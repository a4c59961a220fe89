"""What every family of models must do: load strictly, refuse, warm, stream in order, be cancelled, fail cleanly."""

from __future__ import annotations

import json
import math
import operator
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlx.utils import tree_flatten

from models.backend import mx, on_cpu
from models.contract import (
    Cancelled,
    InputTooLongError,
    ModelError,
    ModelRequestError,
    Recognizer,
    SpeechRequest,
    Translator,
    UnknownLanguageError,
    UnknownVoiceError,
    WarmupStep,
    WeightsError,
)
from models.timeline import Timeline
from tests.models.families import FAMILIES, PARTS, VARIANTS, outcome, speak

# Arrays that are stored in halves, turned or renamed have messages of their own: the families' tests know them.
OTHERWISE = re.compile(
    r"weight_[gv]$|original[01]$|_l\d(_reverse)?$|\.pooler\.|noise_convs|\.mlp\.|num_batches_tracked$"
    r"|\.alpha\d\.|encoder\.conv\d\.weight$"
)


def never() -> bool:
    return False


class Loaded:
    """Arrays of a part, the names by which its messages call them, and what they make of its parameters."""

    def __init__(self, name: str) -> None:
        self.part = PARTS[name]
        self.arrays = self.part.arrays()
        self.names = [name for name in sorted(self.arrays) if not OTHERWISE.search(name)]

    def __call__(self, arrays: dict[str, mx.array]) -> dict[str, np.ndarray]:
        network = self.part.make()
        self.part.load(network, arrays, "arrays")
        return {name: np.array(array) for name, array in tree_flatten(network.parameters())}

    def shown(self, name: str) -> str:
        return re.escape(name.removeprefix(self.part.prefix))


@pytest.fixture(params=PARTS)
def load(request: pytest.FixtureRequest) -> Loaded:
    return Loaded(request.param)


def shape_of(*size: int) -> str:
    return re.escape(str(size))


def test_every_parameter_comes_from_the_file(load: Loaded) -> None:
    """None stays as it was made: random weights speak gibberish. All are float32, whatever the file has."""
    one, other = load(load.arrays), load({name: array * 1.25 + 0.01 for name, array in load.arrays.items()})
    assert one.keys() == other.keys()
    assert {array.dtype for array in one.values()} == {np.dtype(np.float32)}
    # Native kernels keep some in an order of their own, and leave nothing.
    same = [name for name in one if one[name].size and np.array_equal(one[name], other[name])]
    assert [name for name in same if not re.search(load.part.zero, name)] == []
    for kind in (mx.float16, mx.bfloat16):
        small = load({name: a.astype(kind) for name, a in load.arrays.items()})
        assert {array.dtype for array in small.values()} == {np.dtype(np.float32)}


def test_each_missing_or_misshapen_array_is_named(load: Loaded) -> None:
    assert len(load.names) > 3
    for name in load.names[:: max(1, len(load.names) // 15)]:
        shape = load.arrays[name].shape
        with pytest.raises(WeightsError, match=f"^arrays: .*missing .*{load.shown(name)} {shape_of(*shape)}"):
            load({key: array for key, array in load.arrays.items() if key != name})
        wrong = (*shape[:-1], shape[-1] + 1) if shape else (2,)
        with pytest.raises(
            WeightsError, match=f"{load.shown(name)} has shape {shape_of(*wrong)}, not {shape_of(*shape)}"
        ):
            load({**load.arrays, name: mx.zeros(wrong)})


def test_extra_arrays_and_whole_numbers_are_named_all_at_once(load: Loaded) -> None:
    gone, whole, prefix = load.names[0], load.names[-1], load.part.prefix
    changed = load.arrays | {
        f"{prefix}optimizer.step": mx.zeros((2, 2)),
        whole: mx.zeros(load.arrays[whole].shape, dtype=mx.int32),
    }
    del changed[gone]
    with pytest.raises(WeightsError) as caught:
        load(changed)
    message = str(caught.value)
    assert re.search(f"missing ({re.escape(prefix)})?{load.shown(gone)}", message)
    assert re.search(rf"unexpected ({re.escape(prefix)})?optimizer\.step \(2, 2\)", message)
    assert re.search(f"{load.shown(whole)} is .*int32, not a float type", message)
    with pytest.raises(WeightsError, match=r"; and \d+ more"):
        load({whole: load.arrays[whole]})


class Models:
    """Checkpoints and models of the families, each written and loaded once."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.family = FAMILIES | VARIANTS
        self.spec = cache(lambda name: self.family[name].write(factory.mktemp(name)))
        self.model = cache(lambda name: self.family[name].load(self.spec(name)))

    def run(self, name: str, request: Any, timeline: Timeline | None = None) -> list[Any]:
        """Every item that the model yields for a request."""
        return list(self.family[name].run(self.model(name), request, timeline or Timeline(), never))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory)


EACH = pytest.mark.parametrize("name", FAMILIES)
# The other orders of computation take longer.
EACH_ORDER = pytest.mark.parametrize(
    "name", [*FAMILIES, *(pytest.param(each, marks=pytest.mark.slow) for each in VARIANTS)]
)


@EACH
def test_files_that_are_absent_are_named(models: Models, name: str, tmp_path: Path) -> None:
    spec = models.spec(name)
    for role, path in spec.files.items():
        absent = tmp_path / Path(path).name
        with pytest.raises(WeightsError, match=re.escape(absent.name)):
            models.family[name].load(replace(spec, files={**spec.files, role: str(absent)}))


@EACH
@pytest.mark.parametrize("text", ["", "[]", "{", "3", '"text"', "\xff"])
def test_a_damaged_configuration_is_named(models: Models, name: str, text: str, tmp_path: Path) -> None:
    spec, path = models.spec(name), tmp_path / "config.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(WeightsError, match=r"config\.json"):
        models.family[name].load(replace(spec, files={**spec.files, "config": str(path)}))


@EACH
def test_a_number_that_is_none_is_refused_with_its_array(models: Models, name: str, tmp_path: Path) -> None:
    spec = models.spec(name)
    for role, path in spec.files.items():
        if path.endswith(".safetensors"):
            arrays = mx.load(path)
            assert isinstance(arrays, dict)
            victim = max(arrays)
            numbers = np.array(arrays[victim].astype(mx.float32))
            numbers.reshape(-1)[-1] = np.nan
            mx.save_safetensors(str(tmp_path / "changed.safetensors"), {**arrays, victim: mx.array(numbers)})
            with pytest.raises(WeightsError, match=f"{re.escape(victim)} holds NaN or infinity"):
                models.family[name].load(
                    replace(spec, files={**spec.files, role: str(tmp_path / "changed.safetensors")})
                )


WRONG_SPEEDS = (0.0, -1.0, 0.2499, 4.0001, math.inf, math.nan)
WRONG_PARTS = (((5, 3),), ((0, 9000), (5000, 9500)), ((0, 10**6),), ((-1, 5),))
LONG = " ".join(["the cat"] * 32)
SPEECH: list[tuple[dict[str, Any], type[ModelError], str]] = [
    ({"voice": "nobody"}, UnknownVoiceError, "nobody"),
    ({"voice": ""}, UnknownVoiceError, "not a name or a blend|Unknown voice ''"),
]
KOKORO = [
    *SPEECH,
    *(({"speed": speed}, ModelRequestError, r"speed must be between 0\.25 and 4\.0, not") for speed in WRONG_SPEEDS),
    ({"phonemes": ""}, ModelRequestError, "nothing to speak"),
    ({"phonemes": "☃☃"}, ModelRequestError, "nothing to speak"),
    ({"phonemes": "a" * 511}, InputTooLongError, "511 phonemes in one utterance; at most 510"),
]
HOUSE = [
    *KOKORO,
    ({"voice": "am_michael("}, UnknownVoiceError, "not a name or a blend"),
    ({"voice": "am_michael+nobody"}, UnknownVoiceError, "nobody"),
]
CHATTERBOX = [
    *SPEECH,
    ({"speed": 1.5}, ModelRequestError, "speed 1 only"),
    ({"text": " \n "}, ModelRequestError, "read aloud"),
]
NLLB = [
    ({"source": "eng"}, UnknownLanguageError, "'eng' is not among"),
    ({"target": "xxx_Yyyy"}, UnknownLanguageError, "'xxx_Yyyy'"),
    ({"beams": 0}, ModelRequestError, "between 1 and 8"),
    ({"beams": 9}, ModelRequestError, "between 1 and 8"),
    ({"beams": 2, "alternatives": 2}, ModelRequestError, "fewer than the 2 beams"),
    ({"alternatives": -1}, ModelRequestError, "fewer than"),
    ({"beams": 2, "draft": (5,)}, ModelRequestError, "beams=1"),
]
WHISPER = [
    ({"language": "xx"}, UnknownLanguageError, "xx"),
    ({"beams": 9}, ModelRequestError, "beams"),
    ({"beams": 0}, ModelRequestError, "beams"),
    ({"temperature": -0.1}, ModelRequestError, "temperature"),
    ({"temperature": 1.5}, ModelRequestError, "temperature"),
    ({"pcm": np.zeros((2, 9), np.float32)}, ModelRequestError, "mono"),
    ({"draft": (1, 2), "beams": 2}, ModelRequestError, "draft"),
    ({"prefix": (1,), "beams": 2}, ModelRequestError, "prefix"),
    ({"prefix": (1,), "temperature": 0.5}, ModelRequestError, "prefix"),
    ({"prefix": tuple(range(40))}, ModelRequestError, "prefix"),
    ({"prefix": (50257,)}, ModelRequestError, "prefix"),
    ({"prefix": (-1,)}, ModelRequestError, "prefix"),
    ({"prefix": (), "pcm": np.ones(40_000, np.float32)}, InputTooLongError, "prefix"),
    *(({"parts": parts}, ModelRequestError, "parts of a recording") for parts in WRONG_PARTS),
    *(({"voices": voices}, ModelRequestError, "voices of a recording") for voices in WRONG_PARTS),
    ({"parts": ((0, 9),), "draft": (1, 2)}, ModelRequestError, "not for parts"),
    ({"parts": ((0, 9),), "prefix": (1, 2)}, ModelRequestError, "not for parts"),
]
REFUSED = {
    "kokoro": KOKORO,
    "house": HOUSE,
    "chatterbox": CHATTERBOX,
    "chatterbox-turbo": CHATTERBOX,
    "nllb": [*NLLB, ({"text": LONG}, InputTooLongError, "66 tokens in one sentence; at most 64")],
    "m2m100": [*NLLB[2:], ({"target": "xxx_Yyyy"}, UnknownLanguageError, "100 FLORES-200 codes; nearest")],
    "whisper": WHISPER,
    "ear": WHISPER,
}


@pytest.mark.parametrize(
    ("name", "change", "error", "message"), [(name, *row) for name, rows in REFUSED.items() for row in rows]
)
def test_a_bad_request_is_refused_before_the_first_item(
    models: Models, name: str, change: dict[str, Any], error: type[ModelError], message: str
) -> None:
    """By `check`, where a family has one, and by the first item of a stream, beside good requests of a batch."""
    model, good = models.model(name), models.family[name].requests[0]
    batch = isinstance(good, list)
    bad = replace(good[0] if batch else good, **change)
    if isinstance(model, Translator | Recognizer):
        with pytest.raises(error, match=message):
            model.check(bad)
    elif "voice" in change:
        with pytest.raises(error, match=message):
            model.check_voice(bad.voice)
    if isinstance(bad, SpeechRequest):
        bad = replace(bad, first=True)
    call = models.family[name].run if batch or not isinstance(bad, SpeechRequest) else speak
    with pytest.raises(error, match=message):
        next(call(model, [*good, bad] if batch else bad, Timeline(), never))


@EACH_ORDER
def test_items_come_in_order_with_pauses_and_the_time_of_each_stage(
    models: Models, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal requests give equal results, other ones do not; the time that a caller takes belongs to no stage."""
    family, model, clock, taken = models.family[name], models.model(name), time.perf_counter, 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + taken)
    results = []
    for request in family.requests:
        timeline, items, start = Timeline(), [], clock()
        for item in family.run(model, request, timeline, never):
            items.append(item)
            taken += 10_000
        elapsed = clock() - start
        assert items.count(None) >= family.pauses
        chunks = [item for item in items if item is not None]
        assert chunks
        if isinstance(request, SpeechRequest):
            assert [chunk.last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
            pcm = np.concatenate([chunk.pcm for chunk in chunks])
            assert pcm.dtype == np.float32 and pcm.ndim == 1
            assert np.isfinite(pcm).all()
            assert np.abs(pcm).max() > 1e-3
        assert set(timeline.stages) == family.stages
        assert min(timeline.stages.values()) > 0
        assert sum(timeline.stages.values()) <= elapsed
        results.append(outcome(items))
        assert outcome(models.run(name, request)) == results[-1]
    assert all(results[at] != results[at - 1] for at in range(1, len(results)))
    if family.drawn is not None:
        seeds = [outcome(models.run(name, replace(family.drawn, seed=seed))) for seed in (7, 7, 8)]
        assert seeds[0] == seeds[1] != seeds[2]


@EACH_ORDER
def test_requests_that_take_turns_get_what_they_get_alone(models: Models, name: str) -> None:
    """The worker goes on with another request wherever a model yields: nothing is shared but the weights."""
    family, model = models.family[name], models.model(name)
    alone = [outcome(models.run(name, request)) for request in family.requests]
    left = {at: family.run(model, request, Timeline(), never) for at, request in enumerate(family.requests)}
    items: dict[int, list[Any]] = {at: [] for at in left}
    while left:
        for at, stream in list(left.items()):
            try:
                items[at].append(next(stream))
            except StopIteration:
                del left[at]
    assert [outcome(items[at]) for at in items] == alone


@EACH_ORDER
def test_it_ends_wherever_it_is_cancelled(models: Models, name: str) -> None:
    """Cancelled is raised at once, nothing is asked or computed after it, and the next request is served."""
    for request in models.family[name].requests[:: len(models.family[name].requests) - 1]:
        _cancel(models, name, request)


def _cancel(models: Models, name: str, request: Any) -> None:
    family, model, asked, whole = models.family[name], models.model(name), 0, Timeline()

    def count() -> bool:
        nonlocal asked
        asked += 1
        return False

    items = list(family.run(model, request, whole, count))
    wanted = outcome(items)
    assert asked >= 3
    for stop in {1, len(items) // 4, len(items) // 2}:
        gone = threading.Event()
        stream = family.run(model, request, Timeline(), gone.is_set)
        for _ in range(stop):
            next(stream)
        gone.set()
        with pytest.raises(Cancelled):
            for _ in range(2):
                next(stream)
    for turn in sorted({1, 2, asked, *range(1, asked + 1, max(1, asked // 6))}):
        left, timeline = turn, Timeline()

        def cancelled() -> bool:
            nonlocal left
            left -= 1
            assert left >= 0, "asked again after it was cancelled"
            return left == 0

        with pytest.raises(Cancelled):
            list(family.run(model, request, timeline, cancelled))
        assert len(timeline.spans) < len(whole.spans)
    assert outcome(models.run(name, request)) == wanted


@EACH
def test_a_request_that_is_dropped_half_done_leaves_nothing(models: Models, name: str) -> None:
    family, model = models.family[name], models.model(name)
    wanted = models.run(name, family.requests[0])
    stream = family.run(model, family.requests[0], Timeline(), never)
    for _ in range(len(wanted) // 2):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        next(stream)
    assert outcome(models.run(name, family.requests[0])) == outcome(wanted)


@EACH
def test_a_computation_that_fails_fails_its_request_alone(
    models: Models, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error reaches the caller as it is, and the same model serves what comes next."""
    family, model = models.family[name], models.model(name)
    wanted = outcome(models.run(name, family.requests[0]))
    *owners, attribute = family.broken.split(".")
    owner = operator.attrgetter(".".join(owners))(model) if owners else model

    def fail(*_given: Any, **_options: Any) -> None:
        raise MemoryError("no memory on the device")

    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, fail)
        with pytest.raises(MemoryError, match="no memory on the device"):
            models.run(name, family.requests[0])
    assert outcome(models.run(name, family.requests[0])) == wanted


@EACH_ORDER
def test_each_step_of_warming_is_reported(models: Models, name: str) -> None:
    steps: list[WarmupStep] = []
    models.model(name).warm(steps.append)
    assert [step.done for step in steps] == list(range(1, len(steps) + 1))
    assert {step.total for step in steps} == {len(steps)}
    assert len({step.name for step in steps}) == len(steps)
    assert all(step.seconds > 0 for step in steps)


# Run alone, with an empty TMPDIR, in which MLX would keep compiled kernels.
PROGRAM = """
import json, os, sys
from pathlib import Path
from models.timeline import Timeline
from tests.models.families import FAMILIES, VARIANTS

def compiled():
    return {path.name for path in Path(os.environ["TMPDIR"]).rglob("*.so")}

found = {}
for name, family in (FAMILIES | VARIANTS).items():
    folder = Path(sys.argv[1]) / name
    folder.mkdir()
    model, before = family.load(family.write(folder)), compiled()
    model.warm(lambda step: None)
    warm = compiled()
    for request in family.requests:
        assert any(item is not None for item in family.run(model, request, Timeline(), lambda: False))
    found[name] = {"warm": len(warm - before), "new": sorted(compiled() - warm)}
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_warm_model_compiles_nothing_new(tmp_path: Path) -> None:
    """Counted in the folder where MLX's CPU compiler leaves its objects; with native kernels a CPU compiles nothing."""
    objects, work = tmp_path / "objects", tmp_path / "work"
    objects.mkdir()
    work.mkdir()
    environment = {**os.environ, "TMPDIR": str(objects), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(work)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: each["new"] for name, each in found.items()} == {name: [] for name in FAMILIES | VARIANTS}
    assert not on_cpu() or not any(each["warm"] for each in found.values())
