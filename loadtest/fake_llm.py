"""A language model of random numbers with the sizes of Qwen3-1.7B, in mlx-lm's layout: speed without a download.

    python -m loadtest.fake_llm FOLDER [--layers 28]

Every token is a word of its own, and the template has a line for each message.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer, pre_tokenizers
from tokenizers import models as tokenizer_models

from models.backend import mx
from models.llm.library import import_module

CONFIG: Final[dict[str, Any]] = {
    "model_type": "qwen3", "hidden_size": 2048, "num_hidden_layers": 28, "intermediate_size": 6144,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6, "vocab_size": 151_936,
    "rope_theta": 1_000_000.0, "max_position_embeddings": 40_960, "tie_word_embeddings": True, "eos_token_id": 0,
}  # fmt: skip
TEMPLATE: Final = (
    "{% for message in messages %}{{ message.role }} : {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)


def write(folder: Path, layers: int = 28) -> None:
    """Write the model into `folder`, in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG | {"num_hidden_layers": layers}
    qwen = import_module("models.qwen3")
    mx.random.seed(0)
    network = qwen.Model(qwen.ModelArgs.from_dict(config))
    network.set_dtype(mx.bfloat16)
    network.save_weights(str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(config))
    words = {"<end>": 0} | {f"w{number}": number for number in range(1, config["vocab_size"])}
    tokenizer = Tokenizer(tokenizer_models.WordLevel(words, unk_token="w1"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=28)
    options = parser.parse_args()
    write(options.folder, options.layers)


if __name__ == "__main__":
    main()
