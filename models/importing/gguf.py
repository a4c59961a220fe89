"""Language models of llama.cpp (GGUF) to the layout of mlx-lm: Llama and Qwen in Q4_0, Q4_1, Q8_0, F16 or F32.

MLX reads these types into its own format of 4 and 8 bits without a change of value; other quantizations it would turn
into float16, which is refused: the file would become several times as large. MLX's reader ends the process for some
damaged files, so `convert` reads in a process of its own. Specification of the names:
github.com/ggml-org/ggml/blob/master/docs/gguf.md, and llama.cpp's `gguf-py/gguf/constants.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models

from models.backend import mx
from models.contract import WeightsError
from models.files import open_file

_ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
_PARTS: Final = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
_OTHERS: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_COMPUTED: Final = ("rope_freqs",)
_REFUSED: Final = "refused: "  # before the reason, on the last line of the process that reads
_GROUP: Final = 32  # weights that share a scale in these quantizations
_CONTROL, _USER_DEFINED = 3, 4  # types of tokens
# Where a tokenizer cuts before it merges, by the name in `tokenizer.ggml.pre`: llama.cpp, `llama_tokenizer_pre`.
_QWEN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS: Final = {"qwen2": _QWEN, "llama-bpe": _QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")}
_DIGITS_APART: Final = ("smollm", "smaug-bpe")


def convert(path: Path, target: Path) -> None:
    """Write the model of a file into a folder, in mlx-lm's layout. Raises WeightsError, and OSError."""
    with open_file(path):  # a pipe, or a file without end
        pass
    command = [sys.executable, "-P", "-c", "from models.importing.gguf import main; main()", str(path), str(target)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode:
        *_, reason = ["", *done.stderr.strip().splitlines()]
        found = reason.removeprefix(_REFUSED) if reason.startswith(_REFUSED) else ""
        raise WeightsError(found or f"{path} is damaged: reading it ended with status {done.returncode}")


def main() -> None:
    """Convert the file of the first argument into the folder of the second; say on standard error why not."""
    try:
        write(*read(Path(sys.argv[1])), Path(sys.argv[2]))
    except Exception as error:  # whatever is wrong with the file
        sys.exit(_REFUSED + (str(error) if isinstance(error, WeightsError) else f"{sys.argv[1]} is damaged: {error!r}"))


def read(path: Path) -> tuple[dict[str, mx.array], dict[str, Any]]:
    """Return the arrays and the metadata of a file. Raises WeightsError for one that is damaged, or not accepted."""
    try:
        loaded: Any = mx.load(str(path), return_metadata=True)
    except (RuntimeError, ValueError) as error:
        raise WeightsError(f"{path} is no GGUF that MLX reads: {error}") from error
    arrays: dict[str, mx.array] = loaded[0]
    metadata: dict[str, Any] = loaded[1]
    architecture = metadata.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise WeightsError(f"{path} has the architecture {str(architecture)[:40]!r}; accepted are {known}")
    if metadata.get("tokenizer.ggml.model") != "gpt2":
        raise WeightsError(f"{path} has no byte-level BPE tokenizer, which alone is accepted")
    return arrays, metadata


def write(arrays: dict[str, mx.array], metadata: dict[str, Any], target: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer into a folder. Raises WeightsError."""
    architecture = metadata["general.architecture"]

    def value(key: str, default: Any = None) -> Any:
        found = metadata.get(f"{architecture}.{key}", default)
        if found is None:
            raise WeightsError(f"the file does not tell '{architecture}.{key}'")
        return found.item() if isinstance(found, mx.array) else found

    heads = value("attention.head_count")
    kv_heads = value("attention.head_count_kv", heads)
    weights = {}
    for name, array in arrays.items():
        if name.partition(".")[0] not in _COMPUTED:
            weights[_name(name)] = _ordered(name, array, architecture, heads, kv_heads)
    width = value("embedding_length")
    config: dict[str, Any] = {
        "model_type": architecture,
        "hidden_size": width,
        "num_hidden_layers": value("block_count"),
        "intermediate_size": value("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": value("attention.key_length", width // heads),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "rope_theta": value("rope.freq_base", 10_000.0),
        "max_position_embeddings": value("context_length"),
        "tie_word_embeddings": "lm_head.weight" not in weights,
        "eos_token_id": _number(metadata, "eos"),
        "bos_token_id": _number(metadata, "bos"),
    }
    if quantization := _quantization(weights):
        config["quantization"] = quantization
    mx.save_safetensors(str(target / "model.safetensors"), weights, {"format": "mlx"})
    (target / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    _write_tokenizer(metadata, target)


def _name(name: str) -> str:
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(\w+)", name)
    first, _, kind = name.rpartition(".")
    if match is not None and match[2] in _PARTS:
        return f"model.layers.{match[1]}.{_PARTS[match[2]]}.{match[3]}"
    if first in _OTHERS:
        return f"{_OTHERS[first]}.{kind}"
    raise WeightsError(f"the file has an array '{name[:80]}', which none of {', '.join(_ARCHITECTURES)} has")


def _ordered(name: str, array: mx.array, architecture: str, heads: int, kv_heads: int) -> mx.array:
    """Put back the rows of q and k of Llama, which llama.cpp stores in pairs of RoPE."""
    part = name.split(".")[2] if name.startswith("blk.") else ""
    if architecture != "llama" or part not in ("attn_q", "attn_k"):
        return array
    count = heads if part == "attn_q" else kv_heads
    pairs = array.reshape(count, array.shape[0] // count // 2, 2, *array.shape[1:])
    return pairs.swapaxes(1, 2).reshape(array.shape)


def _quantization(weights: dict[str, mx.array]) -> dict[str, Any]:
    """Return mlx-lm's description of the quantized layers: the bits of most, and the layers that have others."""
    bits = {}
    for name in [name.removesuffix(".scales") for name in weights if name.endswith(".scales")]:
        bits[name] = weights[f"{name}.weight"].shape[-1] * 32 // (weights[f"{name}.scales"].shape[-1] * _GROUP)
    if not bits:
        return {}
    most = max(set(bits.values()), key=list(bits.values()).count)
    others = {name: {"group_size": _GROUP, "bits": own} for name, own in bits.items() if own != most}
    return {"group_size": _GROUP, "bits": most, **others}


def _number(metadata: dict[str, Any], which: str) -> int | None:
    number = metadata.get(f"tokenizer.ggml.{which}_token_id")
    return None if number is None else int(number.item())


def _write_tokenizer(metadata: dict[str, Any], target: Path) -> None:
    tokens = metadata["tokenizer.ggml.tokens"]
    cut = metadata.get("tokenizer.ggml.pre", "")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cut not in _PATTERNS)
    if cut in _PATTERNS:
        first: Any = pre_tokenizers.Split(Regex(_PATTERNS[cut]), "isolated")
    elif cut in _DIGITS_APART:
        first = pre_tokenizers.Digits(individual_digits=True)
    else:
        known = ", ".join([*_PATTERNS, *_DIGITS_APART])
        raise WeightsError(f"the tokenizer cuts texts as '{str(cut)[:40]}'; accepted are {known}")
    merges = [tuple(merge.split(" ", 1)) for merge in metadata.get("tokenizer.ggml.merges", [])]
    tokenizer = Tokenizer(tokenizer_models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    types = metadata["tokenizer.ggml.token_type"].tolist()
    added = {_CONTROL: True, _USER_DEFINED: False}
    signs = [(token, added[kind]) for token, kind in zip(tokens, types, strict=True) if kind in added]
    tokenizer.add_tokens([AddedToken(token, special=special, normalized=False) for token, special in signs])
    tokenizer.save(str(target / "tokenizer.json"))
    eos, bos = (_number(metadata, which) for which in ("eos", "bos"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": None if eos is None else tokens[eos],
        "bos_token": None if bos is None else tokens[bos],
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata.get("tokenizer.chat_template"),
    }
    (target / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
