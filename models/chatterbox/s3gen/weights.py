"""From the official checkpoints' `flow.*` arrays to the flow's: renaming, joining and turning, strict.

Both variants are read from s3gen.safetensors (s3gen_meanflow.safetensors for Turbo), in any float type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mlx.utils import tree_flatten, tree_unflatten

from models.backend import mx
from models.chatterbox.config import SPEECH_TOKENS, ChatterboxConfig
from models.chatterbox.s3gen.encoder import Upsample
from models.chatterbox.s3gen.flow import Flow
from models.checkpoint import check_shapes

PREFIX = "flow."


@dataclass(frozen=True, slots=True)
class Source:
    """The official arrays that one of ours is made of, the shape each has, and how."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    made: Callable[[list[mx.array]], mx.array]


Entry = tuple[str, Source]


def load_weights(flow: Flow, arrays: Mapping[str, mx.array], source: str, *, bfloat16: bool = False) -> None:
    """Put the arrays named `flow.*` into `flow`, as float32, and lower it for this device.

    `bfloat16` is the estimator's type to compute in. Raises WeightsError naming what is missing, extra or misshapen;
    arrays of other names are other parts' affair.
    """
    layout = dict(_layout(flow.config))
    own = {name: array for name, array in arrays.items() if name.startswith(PREFIX)}
    check_shapes(own, shapes(flow.config), source)
    ready = []
    for ours, each in layout.items():
        made = each.made([own[name].astype(mx.float32) for name in each.names])
        mx.eval(made)
        ready.append((ours, made))
    wanted = {name: array.shape for name, array in dict(tree_flatten(flow.parameters())).items()}
    check_shapes(dict(ready), wanted, source)
    flow.update(tree_unflatten(ready))
    flow.freeze()
    flow.lower(bfloat16=bfloat16)
    mx.eval(flow.parameters())


def shapes(config: ChatterboxConfig) -> dict[str, tuple[int, ...]]:
    """Every `flow.*` array of an official checkpoint, and its shape."""
    return {name: each.shape for _, each in _layout(config) for name in each.names}


def _joined(parts: list[mx.array]) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(parts)


def _taps(parts: list[mx.array]) -> mx.array:
    """torch's [O, I, K] to [O, K, I]."""
    return parts[0].transpose(0, 2, 1)


def _layout(config: ChatterboxConfig) -> Iterator[Entry]:
    mels, width = config.mels, config.encoder.width
    yield _one("encoder.embedding", "flow.input_embedding.weight", (SPEECH_TOKENS, width))
    yield from _linear("speaker", ["flow.spk_embed_affine_layer"], config.speaker.size, mels)
    yield from _linear("encoder.projection", ["flow.encoder_proj"], width, mels)
    yield from _encoder(config)
    yield from _estimator(config)


def _one(ours: str, name: str, shape: tuple[int, ...]) -> Entry:
    return ours, Source((name,), shape, _joined)


def _linear(ours: str, names: list[str], inputs: int, outputs: int) -> Iterator[Entry]:
    yield f"{ours}.weight", Source(tuple(f"{name}.weight" for name in names), (outputs, inputs), _joined)
    yield f"{ours}.bias", Source(tuple(f"{name}.bias" for name in names), (outputs,), _joined)


def _norm(ours: str, name: str, width: int) -> Iterator[Entry]:
    for leaf in ("weight", "bias"):
        yield _one(f"{ours}.{leaf}", f"{name}.{leaf}", (width,))


def _conv(ours: str, name: str, inputs: int, outputs: int, kernel: int) -> Iterator[Entry]:
    yield f"{ours}.weight", Source((f"{name}.weight",), (outputs, inputs, kernel), _taps)
    yield _one(f"{ours}.bias", f"{name}.bias", (outputs,))


def _encoder(config: ChatterboxConfig) -> Iterator[Entry]:
    own, ours, name = config.encoder, "encoder", "flow.encoder"
    width = own.width
    for part, norm, official in (("embed", "embed_norm", "embed"), ("up_embed", "up_norm", "up_embed")):
        yield from _linear(f"{ours}.{part}", [f"{name}.{official}.out.0"], width, width)
        yield from _norm(f"{ours}.{norm}", f"{name}.{official}.out.1", width)
    yield from _conv(f"{ours}.ahead1", f"{name}.pre_lookahead_layer.conv1", width, width, own.lookahead + 1)
    yield from _conv(f"{ours}.ahead2", f"{name}.pre_lookahead_layer.conv2", width, width, 3)
    yield (
        f"{ours}.up.conv.weight",
        Source((f"{name}.up_layer.conv.weight",), (width, width, 5), lambda parts: Upsample.fold(_taps(parts))),
    )
    twice = Source((f"{name}.up_layer.conv.bias",), (width,), lambda parts: mx.concatenate([parts[0], parts[0]]))
    yield f"{ours}.up.conv.bias", twice
    yield from _norm(f"{ours}.norm", f"{name}.after_norm", width)
    for stack, official, count in (("layers", "encoders", own.layers), ("up_layers", "up_encoders", own.up_layers)):
        for i in range(count):
            yield from _conformer_layer(f"{ours}.{stack}.{i}", f"{name}.{official}.{i}", config)


def _conformer_layer(ours: str, name: str, config: ChatterboxConfig) -> Iterator[Entry]:
    own = config.encoder
    width, heads = own.width, own.heads
    yield from _norm(f"{ours}.attention_norm", f"{name}.norm_mha", width)
    yield from _linear(f"{ours}.attention.qkv", [f"{name}.self_attn.linear_{kind}" for kind in "qkv"], width, width)
    yield from _linear(f"{ours}.attention.out", [f"{name}.self_attn.linear_out"], width, width)
    yield _one(f"{ours}.attention.pos", f"{name}.self_attn.linear_pos.weight", (width, width))
    for leaf in ("bias_u", "bias_v"):
        yield _one(f"{ours}.attention.{leaf}", f"{name}.self_attn.pos_{leaf}", (heads, width // heads))
    yield from _norm(f"{ours}.ffn_norm", f"{name}.norm_ff", width)
    yield from _linear(f"{ours}.fc1", [f"{name}.feed_forward.w_1"], width, own.inner)
    yield from _linear(f"{ours}.fc2", [f"{name}.feed_forward.w_2"], own.inner, width)


def _estimator(config: ChatterboxConfig) -> Iterator[Entry]:
    own, mels, ours, name = config.flow, config.mels, "estimator", "flow.decoder.estimator"
    width, time = own.width, 4 * own.width
    yield from _linear(f"{ours}.time1", [f"{name}.time_mlp.linear_1"], 4 * mels, time)
    yield from _linear(f"{ours}.time2", [f"{name}.time_mlp.linear_2"], time, time)
    if own.mean_flow:
        yield _one(f"{ours}.time_mixer", f"{name}.time_embed_mixer.weight", (time, 2 * time))
    middle = [(f"middle.{i}", f"mid_blocks.{i}") for i in range(own.middle)]
    stages = [("down", "down_blocks.0"), *middle, ("up", "up_blocks.0")]
    yield from _linear(f"{ours}.shifts", [f"{name}.{official}.0.mlp.1" for _, official in stages], time, width)
    # The first block's inputs are noise | mu | speaker | prompt: only the noise is new at each step.
    conv, res = f"{name}.down_blocks.0.0.block1.block.0", f"{name}.down_blocks.0.0.res_conv"
    whole, single = (width, 4 * mels, 3), (width, 4 * mels, 1)
    resnet = f"{ours}.down.resnet"
    new, given = slice(mels), slice(mels, None)
    yield f"{resnet}.conv1.conv.weight", Source((f"{conv}.weight",), whole, lambda p: _taps(p)[:, :, new])
    yield f"{ours}.given.weight", Source((f"{conv}.weight",), whole, lambda p: _taps(p)[:, :, given])
    yield _one(f"{resnet}.conv1.bias", f"{conv}.bias", (width,))
    yield f"{resnet}.res", Source((f"{res}.weight",), single, lambda p: p[0][:, new, 0])
    yield f"{ours}.given_res", Source((f"{res}.weight",), single, lambda p: p[0][:, given, 0])
    yield _one(f"{resnet}.res_bias", f"{res}.bias", (width,))
    for part, official in stages:
        yield from _resnet(f"{ours}.{part}.resnet", f"{name}.{official}.0", width, part)
        for i in range(own.blocks):
            yield from _block(f"{ours}.{part}.blocks.{i}", f"{name}.{official}.1.{i}", config)
    for part, official in (("down_conv", "down_blocks.0.2"), ("up_conv", "up_blocks.0.2")):
        yield from _causal(f"{ours}.{part}", f"{name}.{official}", width, width)
    yield from _causal(f"{ours}.final_conv", f"{name}.final_block.block.0", width, width)
    yield from _norm(f"{ours}.final_norm", f"{name}.final_block.block.2", width)
    yield _pointwise(f"{ours}.projection.weight", f"{name}.final_proj.weight", width, mels)
    yield _one(f"{ours}.projection.bias", f"{name}.final_proj.bias", (mels,))


def _pointwise(ours: str, name: str, inputs: int, outputs: int) -> Entry:
    return ours, Source((name,), (outputs, inputs, 1), lambda parts: parts[0][:, :, 0])


def _causal(ours: str, name: str, inputs: int, outputs: int) -> Iterator[Entry]:
    yield f"{ours}.conv.weight", Source((f"{name}.weight",), (outputs, inputs, 3), _taps)
    yield _one(f"{ours}.bias", f"{name}.bias", (outputs,))


def _resnet(ours: str, name: str, width: int, part: str) -> Iterator[Entry]:
    inputs = 2 * width if part == "up" else width
    if part != "down":
        yield from _causal(f"{ours}.conv1", f"{name}.block1.block.0", inputs, width)
        yield _pointwise(f"{ours}.res", f"{name}.res_conv.weight", inputs, width)
        yield _one(f"{ours}.res_bias", f"{name}.res_conv.bias", (width,))
    yield from _causal(f"{ours}.conv2", f"{name}.block2.block.0", width, width)
    yield from _norm(f"{ours}.norm1", f"{name}.block1.block.2", width)
    yield from _norm(f"{ours}.norm2", f"{name}.block2.block.2", width)


def _block(ours: str, name: str, config: ChatterboxConfig) -> Iterator[Entry]:
    own = config.flow
    width, inner = own.width, own.heads * own.head_size
    names = tuple(f"{name}.attn1.to_{kind}.weight" for kind in "qkv")
    yield from _norm(f"{ours}.norm1", f"{name}.norm1", width)
    yield f"{ours}.qkv", Source(names, (inner, width), _joined)
    yield _one(f"{ours}.out", f"{name}.attn1.to_out.0.weight", (width, inner))
    yield _one(f"{ours}.out_bias", f"{name}.attn1.to_out.0.bias", (width,))
    yield from _norm(f"{ours}.norm2", f"{name}.norm3", width)
    yield _one(f"{ours}.fc1", f"{name}.ff.net.0.proj.weight", (4 * width, width))
    yield _one(f"{ours}.fc1_bias", f"{name}.ff.net.0.proj.bias", (4 * width,))
    yield _one(f"{ours}.fc2", f"{name}.ff.net.2.weight", (width, 4 * width))
    yield _one(f"{ours}.fc2_bias", f"{name}.ff.net.2.bias", (width,))
