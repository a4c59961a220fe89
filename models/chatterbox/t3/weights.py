"""Official T3 checkpoints to this project's names; strict: what is missing, extra or misshapen is an error.

The reference loads `t3_cfg.safetensors` and `t3_turbo_v1.safetensors` strictly into a module that also has arrays no
inference reads: the text head, and the backbone's own token table (8 rows for Llama, the text vocabulary for GPT-2).
These may be there, and are not read. Some files have everything below "model.".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlx.utils import tree_unflatten

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3.network import T3
from models.checkpoint import check_shapes

UNREAD = ("text_head.weight", "tfmr.embed_tokens.weight", "tfmr.wte.weight")
_PREFIX = "model."

Names = tuple[str, ...]
Shape = tuple[int, ...]
Entry = tuple[str, Names, Shape, bool]  # ours; official arrays joined to make it; their shape; whether to transpose


def load_weights(network: T3, arrays: Mapping[str, mx.array], source: str, dtype: mx.Dtype = mx.float32) -> None:
    """Put `arrays` into `network`, as `dtype`. Raises WeightsError naming what is missing, extra or misshapen."""
    if arrays and all(name.startswith(_PREFIX) for name in arrays):
        arrays = {name.removeprefix(_PREFIX): array for name, array in arrays.items()}
    read = {name: array for name, array in arrays.items() if name not in UNREAD}
    check_shapes(read, shapes(network.config), source)
    # The checkpoint's arrays are read lazily: each is cast and joined before the next is touched.
    ready = []
    for ours, names, _, turned in _layout(network.config):
        parts = [read[name].astype(dtype) for name in names]
        joined = parts[0] if len(parts) == 1 else mx.concatenate(parts)
        joined = mx.contiguous(joined.T) if turned else joined
        mx.eval(joined)
        ready.append((ours, joined))
    network.update(tree_unflatten(ready))
    network.freeze()


def shapes(config: T3Config) -> dict[str, Shape]:
    """Every array of an official checkpoint that is read, and its shape."""
    return {name: shape for _, names, shape, _ in _layout(config) for name in names}


def _plain(ours: str, name: str, *shape: int) -> Entry:
    return ours, (name,), shape, False


def _linear(ours: str, names: list[str], inputs: int, outputs: int) -> Iterator[Entry]:
    yield f"{ours}.weight", tuple(f"{name}.weight" for name in names), (outputs, inputs), False
    yield f"{ours}.bias", tuple(f"{name}.bias" for name in names), (outputs,), False


def _layout(config: T3Config) -> Iterator[Entry]:
    width = config.hidden
    yield _plain("text", "text_emb.weight", config.text_vocabulary, width)
    yield _plain("speech", "speech_emb.weight", config.speech_vocabulary, width)
    if config.learned_positions:
        yield _plain("text_positions", "text_pos_emb.emb.weight", config.max_text + 2, width)
        yield _plain("speech_positions", "speech_pos_emb.emb.weight", config.max_speech + 4, width)
    yield _plain("head.weight", "speech_head.weight", config.speech_vocabulary, width)
    if config.head_bias:
        yield _plain("head.bias", "speech_head.bias", config.speech_vocabulary)
    yield from _linear("conditioning.speaker", ["cond_enc.spkr_enc"], config.speaker, width)
    if config.emotion:
        yield _plain("conditioning.emotion", "cond_enc.emotion_adv_fc.weight", width, 1)
    if config.perceiver:
        ours, name = "conditioning.perceiver", "cond_enc.perceiver"
        yield _plain(f"{ours}.queries", f"{name}.pre_attention_query", 1, config.perceiver_queries, width)
        for leaf in ("weight", "bias"):
            yield _plain(f"{ours}.norm.{leaf}", f"{name}.attn.norm.{leaf}", width)
        yield from _linear(f"{ours}.q", [f"{name}.attn.to_q"], width, width)
        yield from _linear(f"{ours}.kv", [f"{name}.attn.to_k", f"{name}.attn.to_v"], width, width)
        yield from _linear(f"{ours}.out", [f"{name}.attn.proj_out"], width, width)
    yield from _llama(config) if config.backbone == "llama" else _gpt2(config)


def _llama(config: T3Config) -> Iterator[Entry]:
    width, inner = config.hidden, config.inner
    for i in range(config.layers):
        ours, name = f"backbone.layers.{i}", f"tfmr.layers.{i}"
        attention = [f"{name}.self_attn.{kind}_proj.weight" for kind in "qkv"]
        yield _plain(f"{ours}.attention_norm.weight", f"{name}.input_layernorm.weight", width)
        yield f"{ours}.qkv.weight", tuple(attention), (width, width), False
        yield _plain(f"{ours}.out.weight", f"{name}.self_attn.o_proj.weight", width, width)
        yield _plain(f"{ours}.ffn_norm.weight", f"{name}.post_attention_layernorm.weight", width)
        halves = (f"{name}.mlp.gate_proj.weight", f"{name}.mlp.up_proj.weight")
        yield f"{ours}.gate_up.weight", halves, (inner, width), False
        yield _plain(f"{ours}.down.weight", f"{name}.mlp.down_proj.weight", width, inner)
    yield _plain("backbone.norm.weight", "tfmr.norm.weight", width)


def _turned(ours: str, name: str, inputs: int, outputs: int) -> Iterator[Entry]:
    """GPT-2 keeps its weights as [inputs, outputs]."""
    yield f"{ours}.weight", (f"{name}.weight",), (inputs, outputs), True
    yield _plain(f"{ours}.bias", f"{name}.bias", outputs)


def _gpt2(config: T3Config) -> Iterator[Entry]:
    width, inner = config.hidden, config.inner
    yield _plain("backbone.positions", "tfmr.wpe.weight", config.positions, width)
    for i in range(config.layers):
        ours, name = f"backbone.layers.{i}", f"tfmr.h.{i}"
        for norm, theirs in (("attention_norm", "ln_1"), ("ffn_norm", "ln_2")):
            for leaf in ("weight", "bias"):
                yield _plain(f"{ours}.{norm}.{leaf}", f"{name}.{theirs}.{leaf}", width)
        yield from _turned(f"{ours}.qkv", f"{name}.attn.c_attn", width, 3 * width)
        yield from _turned(f"{ours}.out", f"{name}.attn.c_proj", width, width)
        yield from _turned(f"{ours}.up", f"{name}.mlp.c_fc", width, inner)
        yield from _turned(f"{ours}.down", f"{name}.mlp.c_proj", inner, width)
    for leaf in ("weight", "bias"):
        yield _plain(f"backbone.norm.{leaf}", f"tfmr.ln_f.{leaf}", width)
