"""BLAS, CPU streams, memory and shapes.

Each process chooses its BLAS once: a choice that fails is tried in a process of its own.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from models import backend
from models.backend import bucket, cpu_count, cpu_streams, device_name, memory, mx, on_cpu, preload_blas
from models.kokoro.pipeline import load
from models.layers import norm
from models.timeline import Timeline
from tests.models.kokoro.house import SPEC

LINUX = sys.platform == "linux"


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`program` in a fresh interpreter; warnings of the `logging` module go to its standard error."""
    kept = {key: value for key, value in os.environ.items() if key not in ("XDG_CACHE_HOME", *environment)}
    command = [sys.executable, "-c", program]
    kept |= environment
    done = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done


PRODUCT = """
import numpy as np
a = np.random.RandomState(0).standard_normal((64, 48)).astype(np.float32)
found = np.array(mx.array(a) @ mx.array(a).T)
assert np.allclose(found, a @ a.T, atol=1e-4)
"""


def test_products_go_through_openblas() -> None:
    """The forwarding object counts calls: one product is at least one. Elsewhere there is nothing to forward."""
    counter = preload_blas()
    if not LINUX:
        assert counter is None
        return
    assert counter is not None, "OpenBLAS is not in use"
    for rows in (40, 1):  # one row takes another path
        before = counter.nightingale_blas_calls()
        a = mx.random.normal((rows, 30))
        product = np.array(a @ a.T)
        assert (counter.nightingale_blas_calls() > before) == on_cpu()
        assert np.allclose(product, np.array(a) @ np.array(a).T, atol=1e-4)


def test_without_a_compiler_it_warns_and_computes(tmp_path: Path) -> None:
    """Nothing on PATH and nothing kept from before: the reference BLAS, and what that costs is said."""
    (tmp_path / "bin").mkdir()
    program = "from models.backend import mx, device_name" + PRODUCT + "print(device_name())"
    done = run(program, PATH=str(tmp_path / "bin"), XDG_CACHE_HOME=str(tmp_path / "cache"))
    if LINUX and on_cpu():
        assert "OpenBLAS is not in use (no C compiler (cc, gcc or clang) on PATH)" in done.stderr
        assert "about 20 times slower" in done.stderr
        assert "default BLAS" in done.stdout
    else:
        assert "OpenBLAS" not in done.stderr


def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    compiler = tmp_path / "bin/cc"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\necho 'cc: this disk is full' >&2\nexit 1\n")
    compiler.chmod(0o755)
    program = "from models.backend import mx" + PRODUCT
    done = run(program, PATH=f"{compiler.parent}:/bin:/usr/bin", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert ("this disk is full" in done.stderr) == (LINUX and on_cpu())
    assert not list((tmp_path / "cache").rglob("*.so")), "a failed build must leave nothing to be loaded next time"


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "cache").write_text("")
    command = [sys.executable, "-m", "models.backend"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "Set XDG_CACHE_HOME" in done.stderr and len(done.stderr.splitlines()) == 1


def test_mlx_imported_first_warns() -> None:
    """It has bound its own BLAS by then."""
    done = run("import mlx.core\nfrom models.backend import mx" + PRODUCT)
    assert ("MLX was imported before models.backend" in done.stderr) == (LINUX and on_cpu())


def test_the_object_is_built_once(tmp_path: Path) -> None:
    """A second process finds it, even without a compiler."""
    (tmp_path / "bin").mkdir()
    run("import models.backend", XDG_CACHE_HOME=str(tmp_path / "cache"))
    built = [path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.so")]
    assert len(built) == (1 if LINUX else 0)
    done = run("import models.backend", XDG_CACHE_HOME=str(tmp_path / "cache"), PATH=str(tmp_path / "bin"))
    assert "OpenBLAS" not in done.stderr
    assert [path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.so")] == built


def test_the_module_says_what_was_chosen() -> None:
    done = run("import runpy; runpy.run_module('models.backend', run_name='__main__')")
    assert done.stdout.startswith(f"MLX {mx.__version__} on ")
    assert device_name() in done.stdout
    assert ("OpenBLAS" in device_name()) == (LINUX and on_cpu())


def test_streams_belong_to_their_thread() -> None:
    """One stream a core on a CPU, at most eight; a thread always gets its own ones, and the same again."""
    mine, seen = cpu_streams(), []
    assert len(mine) == (min(cpu_count(), 8) if on_cpu() else 1)
    assert cpu_streams() is mine
    assert len({str(stream) for stream in mine}) == len(mine)

    def work() -> None:
        theirs = cpu_streams()
        with mx.stream(theirs[-1]):
            seen.append((theirs, theirs is cpu_streams(), float(mx.sum(mx.ones((3,))))))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    ((theirs, same, total),) = seen
    assert theirs is not mine
    assert same
    assert total == 3.0


def test_memory_counts_arrays() -> None:
    mx.clear_cache()
    before = memory()
    array = mx.ones((1024, 1024))
    mx.eval(array)
    during = memory()
    assert during.active - before.active >= array.nbytes
    assert during.peak >= during.active
    del array
    assert memory().active < during.active


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 100), (100, 100), (101, 200), (1600, 1600), (1601, 3200), (6401, 12_800)]
)
def test_the_last_bucket_doubles(size: int, expected: int) -> None:
    """No length is without a bucket."""
    assert bucket(size, (100, 200, 300, 400, 600, 800, 1200, 1600)) == expected


@pytest.fixture
def few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound the compiled functions to three shapes."""
    monkeypatch.setattr(backend, "MAX_SHAPES", 3)
    monkeypatch.setattr(backend, "_seen", set())


@pytest.mark.usefixtures("few_shapes")
def test_functions_are_made_once_until_many_shapes_were_seen() -> None:
    made = []

    @backend.compiled_cache
    def factory() -> object:
        made.append(object())
        return made[-1]

    first = factory()
    for length in (1, 2, 3, 2, 1):
        backend.note_shape("test", length)
        assert factory() is first
    backend.note_shape("test", 4)
    assert factory() is not first
    assert len(made) == 2


@pytest.mark.usefixtures("few_shapes")
def test_sentences_of_many_lengths_leave_no_more_than_some_traces() -> None:
    """Trap: on the CPU each length left a megabyte behind. What is spoken stays the same."""
    model = load(SPEC)
    row = np.asarray(next(iter(model._packs.values()))).reshape(-1, 2 * model.config.style_dim)[:1]
    symbol = max(model.config.vocab.values())

    def speak(count: int) -> np.ndarray:
        return model.synthesize([0, *[symbol] * count, 0], row, 1.0, 0, Timeline(), lambda: False)[0]

    before = speak(4)
    made = inspect.getclosurevars(norm._squared_deviation).nonlocals["made"]
    held = made()
    for count in (5, 6):
        speak(count)
    assert made() is held
    speak(7)
    assert made() is not held
    np.testing.assert_array_equal(speak(4), before)


@pytest.mark.parametrize(
    ("name", "wanted"), [("auto", mx.bfloat16), ("bfloat16", mx.bfloat16), ("float32", mx.float32)]
)
def test_models_of_tokens_compute_in_bfloat16_on_a_gpu(
    name: str, wanted: mx.Dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backend.token_model_dtype(name) == mx.float32
    monkeypatch.setattr(backend, "on_cpu", lambda: False)
    assert backend.token_model_dtype(name) == wanted
