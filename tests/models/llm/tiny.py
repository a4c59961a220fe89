"""A language model in mlx-lm's layout with random weights: Llama's architecture, a vocabulary of bytes and signs."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from models.backend import mx
from models.llm.library import import_module

SIGNS = ("<|end|>", "<|turn|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
TEMPLATE = (
    "{% for tool in tools or [] %}<tool_call>{{ tool.function.name }}</tool_call>{% endfor %}"
    "{% for message in messages %}<|turn|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{% set tool_call = call.function %}"
    "<tool_call>{{ tool_call.name }}{{ tool_call.arguments | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n"
    "{% if enable_thinking %}<think>{% else %}<think></think>{% endif %}{% endif %}"
)
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 256 + len(SIGNS),
    "rope_theta": 10_000.0, "max_position_embeddings": 1024, "tie_word_embeddings": True, "eos_token_id": 256,
}  # fmt: skip


def tokenizer() -> Tokenizer:
    """A token for each byte, and the signs after them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({character: at for at, character in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(sign, special=at < 2, normalized=False) for at, sign in enumerate(SIGNS)])
    return made


def write_model(folder: Path, *, template: str | None = TEMPLATE, seed: int = 0) -> Path:
    """Write the model into `folder`, and return it."""
    folder.mkdir(parents=True)
    llama = import_module("models.llama")
    mx.random.seed(seed)
    network = llama.Model(llama.ModelArgs.from_dict(CONFIG))
    network.save_weights(str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    tokenizer().save(str(folder / "tokenizer.json"))
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SIGNS[0], "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    return folder
