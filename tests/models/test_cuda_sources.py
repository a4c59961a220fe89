"""Every CUDA kernel at the sizes that are served, compiled by NVIDIA's compiler for three architectures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.backend import mx
from models.chatterbox import config as chatterbox
from models.chatterbox.s3gen.kernels import cuda as flow
from models.chatterbox.t3.kernels import cuda as t3
from models.kokoro import source
from models.layers import adain, lstm
from models.layers.kernels import device
from tests.models.nvrtc import ARCHITECTURES, FOLDER, Compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="NVRTC is not here: make cudasources"),
]

PROCESSORS = 132  # of an H100 or H200
MOST_SPILLED = 128  # bytes of a thread; T3's step spills 60 on Hopper


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    """NVIDIA's compiler in the place of MLX's launches. Afterwards every kernel has to have kept to its registers."""
    made = Compiler()
    monkeypatch.setattr(mx.fast, "cuda_kernel", made)
    for module in (device, lstm):
        monkeypatch.setattr(module, "gpu", lambda: "cuda")
    caches = (device.build, flow._kernel)
    for each in caches:
        each.cache_clear()
    yield made
    for each in caches:
        each.cache_clear()
    assert len(made.compiled) >= len(ARCHITECTURES)
    for each in made.compiled:
        print(each)
        assert each.spilled <= MOST_SPILLED, each


def test_an_error_is_the_compilers(compiler: Compiler) -> None:
    with pytest.raises(RuntimeError, match=r'wrong for sm_80: (.|\n)*identifier "nonsense" is undefined'):
        compiler("wrong", ["x"], ["y"], "y[0] = nonsense;")([mx.zeros(1)], [(1,)], [mx.float32])
    compiler("right", ["x"], ["y"], "y[0] = x[x_shape[0] - 1];")([mx.zeros(1)], [(1,)], [mx.float32])


def test_bilstm(compiler: Compiler) -> None:
    lstm.bilstm_kernel(mx.zeros((2, 50, 2048)), mx.zeros((2, 256, 1024)), mx.array([50, 20]))


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_adain(dtype: mx.Dtype, compiler: Compiler) -> None:
    x, affine = mx.zeros((1, 4800, 128), dtype), mx.zeros((1, 256), dtype)
    adain.adain_kernel(x, affine, None, mx.array([4800]))
    adain.adain_kernel(x, affine, mx.zeros(128, dtype), mx.array([4800]))


def test_harmonic_source(compiler: Compiler) -> None:
    weight, noise = mx.zeros((1, source.HARMONICS)), mx.zeros((1, 80 * 300))
    source.harmonics_kernel(mx.zeros((1, 80)), noise, None, weight, mx.zeros(1), 300)


@pytest.mark.parametrize("bits", [0, 8])
@pytest.mark.parametrize("variant", chatterbox.VARIANTS)
def test_t3_step(variant: chatterbox.Variant, bits: int, compiler: Compiler) -> None:
    config = chatterbox.load_config(None, variant).t3
    step = t3.CudaStep.__new__(t3.CudaStep)  # without the weights: only their types are in the source
    step.config, step._bits, step._blocks, step._warps, step._kernels = config, bits, PROCESSORS, t3.WARPS, {}
    for batch in (1, 2) if config.guided else (1,):
        kernel = t3.CudaStep._kernel(step, batch)
        types = dict.fromkeys(t3.FLOATS, mx.float32) | dict.fromkeys(t3.TABLES, mx.bfloat16)
        names = [each.name for each in t3.fields(t3.Weights)]
        arrays = [mx.zeros((1, 1), types.get(name, mx.uint32)) for name in names]
        numbers = [mx.zeros(count, mx.int32) for count in (1, 2, 32)]
        cache = [mx.zeros((batch, 2 * config.heads, 8, 64), mx.bfloat16)] * config.layers
        device.launch(kernel, [*arrays, *numbers, *cache], [((1,), mx.float32)] * 2, (1, 1, 1))


@pytest.mark.parametrize("name", sorted(flow._INPUTS))
def test_flow_blocks(name: str, compiler: Compiler) -> None:
    config = chatterbox.load_config(None, "chatterbox").flow
    sizes = (config.width, config.heads, 4 * config.width)
    inputs = dict.fromkeys(flow._INPUTS[name], mx.zeros((1, 1), mx.bfloat16)) | {"mode": mx.zeros(4, mx.int32)}
    for tiles in (1, 2):
        flow._launch(name, inputs, dict.fromkeys(("y", "queries", "keys", "values"), (1,)), 1, sizes, tiles)
