"""Loading of official T3 checkpoints, strict.

The reference loads `t3_cfg.safetensors` and `t3_turbo_v1.safetensors` into a module that also has arrays which no
inference reads: the text head, and the backbone's own token table (8 rows for Llama, the text vocabulary for GPT-2).
Files may hold these; they are not read. In some files all names begin with "model.".
"""

from __future__ import annotations

from collections.abc import Mapping

from models.backend import mx
from models.chatterbox.config import T3Config
from models.chatterbox.t3.network import T3
from models.chatterbox.weights import ArraySource, Shape, joined, load_arrays, official_shapes, sources, transposed

UNREAD = ("text_head.weight", "tfmr.embed_tokens.weight", "tfmr.wte.weight")
_PREFIX = "model."

_RENAMES = ((r"^(text|speech)_pos_emb", r"\1_pos_emb.emb"),)
_RULES = (
    joined(r"(.*self_attn)\.qkv_proj\.weight", *(rf"\1.{kind}_proj.weight" for kind in "qkv")),
    joined(r"(.*mlp)\.gate_up_proj\.weight", r"\1.gate_proj.weight", r"\1.up_proj.weight"),
    joined(r"(.*attn)\.to_kv\.(.*)", r"\1.to_k.\2", r"\1.to_v.\2"),
    transposed(r"tfmr\.h\..*\.c_(attn|proj|fc)\.weight"),  # GPT-2 keeps [inputs, outputs]
)


def load_weights(network: T3, arrays: Mapping[str, mx.array], source: str, dtype: mx.Dtype = mx.float32) -> None:
    """Put `arrays` into `network`, as `dtype`; `T3.lower` evaluates them, a product at a time.

    Raises WeightsError naming what is missing, extra or misshapen.
    """
    if arrays and all(name.startswith(_PREFIX) for name in arrays):
        arrays = {name.removeprefix(_PREFIX): array for name, array in arrays.items()}
    read = {name: array for name, array in arrays.items() if name not in UNREAD}
    load_arrays(network, read, _sources(network), source, dtype, lazy=True)


def shapes(config: T3Config) -> dict[str, Shape]:
    """Return every array of an official checkpoint that is read, and its shape."""
    return official_shapes(_sources(T3(config)))


def _sources(network: T3) -> dict[str, ArraySource]:
    return sources(network, _RULES, _RENAMES)
