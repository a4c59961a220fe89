"""Loading of the official checkpoints' `flow.*` and `mel2wav.*` arrays into the flow and the vocoder, strict.

Both variants are read from s3gen.safetensors (s3gen_meanflow.safetensors for Turbo), in any float type. Arrays of other
names belong to other parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from models.backend import mx
from models.chatterbox.config import ChatterboxConfig
from models.chatterbox.s3gen.encoder import Upsample
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.vocoder import HiFT
from models.chatterbox.weights import (
    ArraySource,
    Rule,
    Shape,
    channels_last,
    joined,
    load_arrays,
    official_shapes,
    pointwise,
    sources,
    turn_taps,
)
from models.layers import weight_norm

FLOW, VOCODER = "flow.", "mel2wav."  # prefixes

_ESTIMATOR = r"decoder\.estimator"
_FLOW_RENAMES = (
    (r"^encoder\.input_embedding$", "input_embedding.weight"),
    (r"^encoder\.encoder_proj", "encoder_proj"),
    (r"embed\.linear", "embed.out.0"),
    (r"embed\.norm", "embed.out.1"),
    (r"^estimator", "decoder.estimator"),
    # The reference numbers the parts of a block and of a sequence of layers.
    (r"(down|up)_block\.", r"\1_blocks.0."),
    (r"(down|up)_conv\.", r"\1_blocks.0.2."),
    (r"\.resnet\.", ".0."),
    (r"\.transformers\.", ".1."),
    (r"(block1|block2|final_block)\.conv\.", r"\1.block.0."),
    (r"(block1|block2|final_block)\.norm\.", r"\1.block.2."),
    (r"\.to_qkv", ".attn1.to_qkv"),
    (r"\.to_out", ".attn1.to_out.0"),
    (r"\.fc1", ".ff.net.0.proj"),
    (r"\.fc2", ".ff.net.2"),
)

# In the reference's list convolutions and activations take turns.
_VOCODER_RENAMES = ((r"condnet\.(\d+)", lambda match: f"condnet.{2 * int(match[1])}"),)
_VOCODER_RULES = (channels_last(r".*\.weight"),)


def load_flow(flow: Flow, arrays: Mapping[str, mx.array], source: str, *, bfloat16: bool = False) -> None:
    """Put the arrays named `flow.*` into `flow`, as float32, and lower it for this device.

    With `bfloat16` the estimator computes in it, or makes its products in it (`Flow.lower`). Raises WeightsError naming
    what is missing, extra or misshapen.
    """
    own = {name: array for name, array in arrays.items() if name.startswith(FLOW)}
    load_arrays(flow, own, _flow_sources(flow), source)
    flow.lower(bfloat16=bfloat16)
    mx.eval(flow.parameters())


def load_vocoder(network: HiFT, arrays: Mapping[str, mx.array], source: str) -> None:
    """Put the arrays named `mel2wav.*` into `network`, as float32, and lower it for this device.

    Raises WeightsError naming what is missing, extra or misshapen.
    """
    own = {name.removeprefix(VOCODER): array for name, array in arrays.items() if name.startswith(VOCODER)}
    folded = weight_norm.fold({weight_norm.short_name(name): array for name, array in own.items()}, source)
    load_arrays(network, folded, _vocoder_sources(network), source)
    network.lower()
    mx.eval(network.parameters())


def flow_shapes(config: ChatterboxConfig) -> dict[str, Shape]:
    """Return every `flow.*` array of an official checkpoint, and its shape."""
    return official_shapes(_flow_sources(Flow(config)))


def vocoder_shapes(config: ChatterboxConfig) -> dict[str, Shape]:
    """Return every `mel2wav.*` array of an official checkpoint, and its shape; weight normalization is not folded."""
    found: dict[str, Shape] = {}
    for name, shape in official_shapes(_vocoder_sources(HiFT(config.vocoder, config.mels))).items():
        if len(shape) == 3 and not name.startswith("source_downs"):
            norm = f"{VOCODER}{name.removesuffix('weight')}parametrizations.weight.original"
            found |= {f"{norm}0": (shape[0], 1, 1), f"{norm}1": shape}
        else:
            found[VOCODER + name] = shape
    return found


def _vocoder_sources(network: HiFT) -> dict[str, ArraySource]:
    return sources(network, _VOCODER_RULES, _VOCODER_RENAMES)


def _flow_sources(flow: Flow) -> dict[str, ArraySource]:
    return sources(flow, _flow_rules(flow.config), _FLOW_RENAMES, FLOW)


def _flow_rules(config: ChatterboxConfig) -> tuple[Rule, ...]:
    blocks = ["down_blocks.0", *(f"mid_blocks.{i}" for i in range(config.flow.middle)), "up_blocks.0"]
    first, mels = rf"{_ESTIMATOR}\.down_blocks\.0\.0", config.mels
    # The first block's inputs are noise | mu | speaker | prompt: `given_conv` and `given_res` see all but the noise.
    return (
        _some_inputs(rf"{first}\.block1\.block\.0\.weight", "block1.block.0", slice(mels), config),
        _some_inputs(rf"{_ESTIMATOR}\.given_conv\.weight", "block1.block.0", slice(mels, None), config),
        _some_inputs(rf"{first}\.res_conv\.weight", "res_conv", slice(mels), config),
        _some_inputs(rf"{_ESTIMATOR}\.given_res\.weight", "res_conv", slice(mels, None), config),
        joined(rf"({_ESTIMATOR})\.shifts\.(.*)", *(rf"\1.{block}.0.mlp.1.\2" for block in blocks)),
        joined(r"(.*self_attn\.linear)_qkv\.(.*)", r"\1_q.\2", r"\1_k.\2", r"\1_v.\2"),
        joined(r"(.*attn1\.to)_qkv\.(.*)", r"\1_q.\2", r"\1_k.\2", r"\1_v.\2"),
        pointwise(r".*(res_conv|final_proj)\.weight"),
        Rule(r"encoder\.up_layer\.conv\.weight", _folded_upsampling),
        Rule(
            r"encoder\.up_layer\.conv\.bias",
            lambda match, shape: ArraySource({match[0]: (shape[0] // 2,)}, lambda bias: mx.concatenate([bias, bias])),
        ),
        channels_last(r".*(block\.0|_blocks\.0\.2|pre_lookahead_layer\.conv\d)\.weight"),
    )


def _some_inputs(pattern: str, layer: str, inputs: slice, config: ChatterboxConfig) -> Rule:
    """Return the rule of the part of the first block's `layer` that sees `inputs`."""
    name = f"decoder.estimator.down_blocks.0.0.{layer}.weight"

    def source(match: re.Match[str], shape: Shape) -> ArraySource:
        taps = shape[1] if len(shape) == 3 else 1
        whole = (shape[0], 4 * config.mels, taps)
        return ArraySource({name: whole}, lambda array: turn_taps(array[:, inputs]).reshape(shape))

    return Rule(pattern, source)


def _folded_upsampling(match: re.Match[str], shape: Shape) -> ArraySource:
    outputs, _, inputs = shape
    return ArraySource({match[0]: (outputs // 2, inputs, 5)}, lambda array: Upsample.fold(turn_taps(array)))
