"""Every CUDA kernel at the sizes that are served, compiled by NVIDIA's compiler for three architectures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.official import NLLB, WHISPER
from models.backend import mx
from models.chatterbox import config as chatterbox
from models.chatterbox.s3gen import relative_attention
from models.chatterbox.s3gen.kernels import cuda as flow
from models.chatterbox.t3 import cache, sampling
from models.chatterbox.t3.backbone import ForwardPass, rope_wavelengths
from models.chatterbox.t3.kernels import cuda as t3
from models.chatterbox.t3.kernels import draw, prefill
from models.contract import Sampling
from models.kokoro import encoder_kernel, source
from models.layers import activated_conv, adain, lstm, residual_blocks
from models.layers.kernels import device, host_memory
from models.layers.kernels.nvrtc import included
from models.layers.transformer import encoder
from models.layers.transformer.cuda import CudaStep
from models.layers.transformer.shape import TransformerShape
from models.layers.transformer.step import ENDINGS, TOKENS
from models.layers.transformer.weights import pack
from models.nllb.config import NllbConfig
from models.nllb.kernels import choice
from models.nllb.network import Nllb
from models.whisper.config import WhisperConfig
from models.whisper.kernels import choice as whisper_choice
from tests.models.nllb.kernels import emulated
from tests.models.nvrtc import ARCHITECTURES, FOLDER, Compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proof,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="NVRTC is not here: make cudasources"),
]

REGISTERS = 65536  # of a processor, for all threads of a block
PROCESSORS = 132  # of an H100 or H200
# Bytes of a thread. T3's step spills 60 on Hopper; kernels for up to 32 rows have more sums than registers.
USUAL_SPILLED, MAX_SPILLED = 128, 384
MANY_ROWS = re.compile(r"_step_4$|_encoder$")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    """NVIDIA's compiler in the place of MLX's launches. Afterwards every kernel has to have kept to its registers."""
    made = Compiler()
    monkeypatch.setattr(mx.fast, "cuda_kernel", made)
    monkeypatch.delenv("MLX_PTX_CACHE_DIR")  # headers are part of the sources
    for module in (device, lstm):
        monkeypatch.setattr(module, "gpu", lambda: "cuda")
    device.build.cache_clear()
    yield made
    device.build.cache_clear()
    assert len(made.compiled) >= len(ARCHITECTURES) - 1  # clusters came later
    for each in made.compiled:
        print(each)
        assert each.spilled <= (MAX_SPILLED if MANY_ROWS.search(each.name) else USUAL_SPILLED), each
        assert each.registers * each.threads <= REGISTERS, each


def test_an_error_is_the_compilers(compiler: Compiler) -> None:
    with pytest.raises(RuntimeError, match=r'(.|\n)*identifier "nonsense" is undefined'):
        compiler("wrong", ["x"], ["y"], "y[0] = nonsense;")([mx.zeros(1)], [(1,)], [mx.float32])
    compiler("right", ["x"], ["y"], "y[0] = x[x_shape[0] - 1];")([mx.zeros(1)], [(1,)], [mx.float32])


def test_a_header_in_a_file(compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLX_PTX_CACHE_DIR", str(tmp_path))
    header = included("#define THREADS 32\ninline __device__ float twice(float x) { return 2 * x; }\n")
    assert header == f'#include "{next(tmp_path.glob("*.h"))}"\n'
    compiler("included", ["x"], ["y"], "y[0] = twice(x[0]);", header)([mx.zeros(1)], [(1,)], [mx.float32])


def test_bilstm(compiler: Compiler) -> None:
    lstm.bilstm_kernel(mx.zeros((2, 50, 2048)), mx.zeros((2, 256, 1024)), mx.array([50, 20]))


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_adain(dtype: mx.Dtype, compiler: Compiler) -> None:
    for rows in (100, 1000, 4800):
        x, affine = mx.zeros((1, rows, 128), dtype), mx.zeros((1, 256), dtype)
        adain.adain_kernel(x, affine, None, mx.array([rows]))
        adain.adain_kernel(x, affine, mx.zeros(128, dtype), mx.array([rows]))
        adain.adain_of_sum_kernel(x, x, affine, mx.zeros(128, dtype), mx.array([rows]))


def test_harmonic_source(compiler: Compiler) -> None:
    weight, noise = mx.zeros((1, source.HARMONICS)), mx.zeros((1, 80 * 300))
    source.harmonics_kernel(mx.zeros((1, 80)), noise, None, weight, mx.zeros(1), 300)


def test_albert(compiler: Compiler) -> None:
    width, inner = 768, 2048
    shapes = [(3 * width, width), (width, width), (width,), (inner, width), (width, inner), (width,)]
    weights = [mx.zeros(each) for shape in shapes for each in (shape, shape[:1])]
    encoder_kernel.encode(mx.zeros((1, 16, width)), mx.array([16]), weights, 12, PROCESSORS)


@pytest.mark.parametrize("bits", [0, 8])
@pytest.mark.parametrize("variant", chatterbox.VARIANTS)
def test_t3_step(variant: chatterbox.Variant, bits: int, compiler: Compiler) -> None:
    config = chatterbox.load_config(None, variant).t3
    step = t3.T3CudaStep.__new__(t3.T3CudaStep)  # without the weights: only their types are in the source
    step.config, step._bits, step._blocks, step._warps, step._kernels = config, bits, PROCESSORS, t3.WARPS, {}
    for batch in (1, 2) if config.guided else (1,):
        kernel = t3.T3CudaStep._kernel(step, batch)
        types = dict.fromkeys(t3.FLOATS, mx.float32) | dict.fromkeys(t3.TABLES, mx.bfloat16)
        names = list(t3.Weights._fields)
        arrays = [mx.zeros((1, 1), types.get(name, mx.uint32)) for name in names]
        numbers = [mx.zeros(count, mx.int32) for count in (1, 2, 32)]
        cache = [mx.zeros((batch, 2 * config.heads, 8, 64), mx.bfloat16)] * config.layers
        device.launch(kernel, [*arrays, *numbers, *cache], [((1,), mx.float32)] * 2, (1, 1, 1))


@pytest.mark.parametrize("variant", chatterbox.VARIANTS)
def test_t3_draw(variant: chatterbox.Variant, compiler: Compiler) -> None:
    config = chatterbox.load_config(None, variant).t3
    size, seed = config.speech_vocabulary, sampling.seed_array(0)
    for given in (Sampling(), Sampling(top_p=0.8), Sampling(temperature=0.0), Sampling(cfg_weight=0.0)):
        rules = sampling.rules(config, given)
        logits, place, seen = mx.zeros((1 + rules.guided, 1, size)), mx.zeros(2, mx.int32), mx.zeros(size, mx.bool_)
        draw.next_token(logits, place, seen, rules.params(), seed, rules.mode(config))


@pytest.mark.parametrize("variant", chatterbox.VARIANTS)
def test_t3_prefill(variant: chatterbox.Variant, compiler: Compiler) -> None:
    config = chatterbox.load_config(None, variant).t3
    wavelengths = mx.array(rope_wavelengths(config)) if config.backbone == "llama" else None
    (layer,) = cache.allocate(1, 1, config.heads, 64, 256, mx.bfloat16)
    reading = ForwardPass(mx.zeros(1), mx.zeros((192, 256)), prefill.attend, wavelengths)
    prefill.attend(reading, mx.zeros((1, 192, 3 * config.hidden), mx.bfloat16), layer, config.heads)


def test_relative_attention(compiler: Compiler) -> None:
    shapes = ((1, 64, 1536), (8, 511, 64), (8, 64), (8, 64), (1, 1, 1, 64))
    relative_attention.relative_attention_kernel(*map(mx.zeros, shapes))


def check_step(family: str, shape: TransformerShape) -> None:
    """Compile the kernels of a decoder of this shape; the weights' types and names alone are in the source."""
    network = emulated.network(bits=shape.bits)
    step = CudaStep.__new__(CudaStep)
    step.family, step.shape, step._warps, step._blocks = family, shape, shape.warps(), PROCESSORS
    packed = pack(choice.decoder_weights(network))
    step._weights = {name: mx.zeros((1, 1), array.dtype) for name, array in packed.items()}
    step._counters = mx.zeros(32, mx.int32)
    step._endings = [mx.full(16, ending, dtype=mx.int32) for ending in ENDINGS]
    step._kernels = {tiles: step.kernel(tiles) for tiles in (1, 4)}
    caches = [mx.zeros((1, 2 * shape.heads, 8, 64), mx.bfloat16)] * shape.layers
    mask, head = mx.zeros((1, 1, 1, 8), mx.bfloat16), choice.output_rows(network.shared.head().tree)
    for rows in (1, 32):
        ids = mx.zeros((rows, 1), mx.int32)
        step(ids, mx.array([9]), caches, caches, mask, mx.zeros((rows, 8), mx.int32), head, TOKENS)


@pytest.mark.parametrize("bits", [0, 8])
def test_nllb_step(bits: int, compiler: Compiler) -> None:
    check_step("nllb", replace(choice.shape(Nllb(NllbConfig(**NLLB))), bits=bits))


@pytest.mark.parametrize("bits", [0, 8, 4])
def test_nllb_encoder(bits: int, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    network = emulated.network(emulated.ENCODER, bits)
    given = choice.encoder_weights(network)
    shape = replace(choice.encoder_shape(Nllb(NllbConfig(**NLLB))), bits=bits)
    packed = pack(given)
    monkeypatch.setattr(
        encoder, "pack", lambda _: {name: mx.zeros((1, 1), each.dtype) for name, each in packed.items()}
    )
    made = encoder.CudaEncoder("nllb", replace(given, shape=shape), NLLB["decoder_layers"], PROCESSORS)
    made(mx.zeros((1, 32), mx.int32), mx.zeros((1, 1, 1, 32), mx.bfloat16))


@pytest.mark.parametrize("size", ["base", "small", "medium", "large-v3-turbo", "large-v3"])
def test_whisper_step(size: str, compiler: Compiler) -> None:
    check_step(f"whisper_{size.replace('-', '_')}", whisper_choice.shape(WhisperConfig(**WHISPER[size]), 0))


def test_copies_between_host_and_gpu(compiler: Compiler) -> None:
    words = mx.zeros(4, mx.uint32)
    device.launch(host_memory._UPLOAD, [words], [((4,), mx.uint32)], (1, 1, 1))
    device.launch(host_memory._DOWNLOAD, [words, words], [((1,), mx.int32)], (1, 1, 1))


@pytest.mark.parametrize("adds", [False, True])
def test_mean_of_residual_blocks(adds: bool, compiler: Compiler) -> None:
    ending = residual_blocks.Ending(mx.zeros(128), 0.1, mx.zeros((2, 8, 128)) if adds else None)
    residual_blocks.mean(mx.zeros((6, 8, 128)), 2, mx.zeros(2, mx.int32), ending)


@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize("name", sorted(flow._INPUTS))
def test_flow_blocks(name: str, share: int, compiler: Compiler) -> None:
    config = chatterbox.load_config(None, "chatterbox").flow
    sizes = (config.width, config.heads, 4 * config.width)
    shapes = {"x": (1, 1, 1), "before": (1, 1, 1), "mask": (1, 1, 1, 1)}
    inputs = {key: mx.zeros(shapes.get(key, (1,)), mx.bfloat16) for key in flow._INPUTS[name]}
    inputs["mode"] = mx.zeros(4, mx.int32)
    for tiles in (1, 2):
        flow._launch(name, inputs, 1, share, sizes, tiles, share)


@pytest.mark.parametrize(
    ("inputs", "outputs", "activation"),
    [
        (256, 256, "snake"), (128, 128, "snake"), (64, 64, "snake"),
        (512, 512, "leaky"), (512, 256, "pooled"), (256, 256, "leaky"),
        (576, 1024, "leaky"), (1024, 1152, "leaky"), (1152, 1024, "leaky"), (1152, 512, "pooled"),
    ],
)  # fmt: skip
def test_activated_convolutions(
    inputs: int, outputs: int, activation: activated_conv.Activated, compiler: Compiler
) -> None:
    """Convolutions of Chatterbox's vocoder, and of Kokoro's generator, predictor and decoder."""
    form = activated_conv.Form(inputs, outputs, activation)
    types = {"weights": mx.uint16, "count": mx.int32, "counters": mx.int32, "geometry": mx.int32}
    for tiles in form.tiles:
        kernel = activated_conv.kernel(form, tiles)
        shapes = {"x_moments": (16,) * 4, "geometry": (16,)}
        given = [mx.zeros(shapes.get(name, (16,) * 3), types.get(name, mx.float32)) for name in kernel.inputs]
        device.launch(kernel, given, [((1,), mx.float32)], (1, 1, 1), {"TILES": tiles})
