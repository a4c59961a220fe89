"""Files of other programs become models: the house's files stand for an official Kokoro, a tiny network for Whisper."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import models
from app.config import Settings
from app.engine.catalog import Catalog
from app.engine.importing import ImportModelError, import_model
from models.backend import mx
from models.contract import ModelSpec
from models.files import MAX_BYTES, read_file
from models.importing import gguf as gguf_format
from models.importing.ctranslate2 import read_model
from models.importing.sources import recognize
from models.llm.pipeline import load
from models.whisper.network import Whisper
from models.whisper.weights import load_weights, read_checkpoint
from tests.models.llm.tiny import CONFIG, TEMPLATE, tokenizer, write_model

HOUSE = Path(models.__file__).parent / "house"
# Sizes of Whisper tiny.
TINY = {
    "n_mels": 80, "n_audio_ctx": 1_500, "n_audio_state": 384, "n_audio_head": 6, "n_audio_layer": 4,
    "n_vocab": 51_865, "n_text_ctx": 448, "n_text_state": 384, "n_text_head": 6, "n_text_layer": 4,
}  # fmt: skip


def kokoro(folder: Path) -> Path:
    return Path(shutil.copytree(HOUSE, folder, ignore=shutil.ignore_patterns("README.md")))


def test_an_official_folder_is_installed_and_replaced_only_on_request(tmp_path: Path) -> None:
    folder, settings = kokoro(tmp_path / "given"), Settings(data_dir=tmp_path / "data")
    assert import_model(folder, settings).name == "kokoro-82m"
    catalog = Catalog(settings)
    assert catalog.default() == "kokoro-82m"
    assert catalog.describe("kokoro-82m") == catalog.describe("house")
    with pytest.raises(ImportModelError, match=r"installed already.*--replace"):
        import_model(folder, settings)
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    import_model(folder, settings, replace=True)
    assert (catalog.directory("kokoro-82m") / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    assert [path.name for path in (tmp_path / "data" / "models").iterdir()] == ["kokoro-82m"]


def more(arrays: dict[str, np.ndarray]) -> None:
    arrays["another.weight"] = np.zeros(3, np.float32)


def fewer(arrays: dict[str, np.ndarray]) -> None:
    del arrays[min(arrays)]


def not_a_number(arrays: dict[str, np.ndarray]) -> None:
    arrays[min(arrays)].flat[0] = np.nan


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(more, "unexpected another.weight"), (fewer, "missing"), (not_a_number, "not finite|NaN|nan")],
)
def test_a_damaged_model_is_not_installed(
    tmp_path: Path, spoil: Callable[[dict[str, np.ndarray]], None], message: str
) -> None:
    folder, settings = kokoro(tmp_path / "given"), Settings(data_dir=tmp_path / "data")
    arrays = load_file(folder / "model.safetensors")
    spoil(arrays)
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(ImportModelError, match=message) as refused:
        import_model(folder, settings)
    assert "\n" not in str(refused.value)
    assert list((tmp_path / "data" / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.gguf", b"GGUF", "no GGUF that MLX reads"),
        ("a.gguf", b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 1 << 50), "a.gguf is damaged|no GGUF"),
        ("a.txt", b"hello", "accepted are an ONNX export"),
        ("a.onnx", b"hello", "not a whole ONNX file"),
        ("a.onnx", b"\x3a\xff\xff\xff\x7f", "ends .* bytes early"),
        ("model.bin", b"\x05\0\0\0", "binary version 5, not 6"),
        ("model.bin", b"\x06\0\0\0\x0c\0Transformer\0", "not a whole model"),
        ("base.pt", b"PK", "tokenizer.json or multilingual.tiktoken is missing"),
    ],
)
def test_what_is_no_model_is_refused_with_the_reason(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ImportModelError, match=message):
        import_model(tmp_path / name, Settings(data_dir=tmp_path / "data"))


def test_a_language_model_has_the_name_that_it_is_given(tmp_path: Path) -> None:
    folder, settings = write_model(tmp_path / "Tiny Model"), Settings(data_dir=tmp_path / "data")
    (folder / "code.py").write_text("raise SystemExit")
    assert import_model(folder, settings).name == "tiny-model"
    assert import_model(folder, settings, "My.Own").name == "my.own"
    catalog = Catalog(settings)
    assert [info.name for info in catalog.models() if info.kind == "text-generation" and info.status == "ready"] == [
        "my.own", "tiny-model",
    ]  # fmt: skip
    assert catalog.default_language_model() == "my.own"
    assert not list((tmp_path / "data").rglob("code.py"))
    with pytest.raises(ImportModelError, match="is another kind of model"):
        import_model(folder, settings, "whisper-base")
    with pytest.raises(ImportModelError, match="installed already"):
        import_model(folder, settings)


def gguf(folder: Path, target: Path) -> None:
    """Write the model of a folder as llama.cpp's converter does."""
    parts = {path: name for name, path in gguf_format._PARTS.items()}
    others = {path: name for name, path in gguf_format._OTHERS.items()}
    arrays = {}
    for name, array in mx.load(str(folder / "model.safetensors")).items():
        layer, path, kind = re.fullmatch(r"(?:model\.layers\.(\d+)\.)?(.*)\.(\w+)", name).groups()
        if layer is None:
            arrays[f"{others[path]}.{kind}"] = array
            continue
        stored = array
        if path.endswith(("q_proj", "k_proj")):
            heads = CONFIG["num_attention_heads" if path.endswith("q_proj") else "num_key_value_heads"]
            stored = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        arrays[f"blk.{layer}.{parts[path]}.{kind}"] = stored
    numbers = {
        "attention.head_count": 4, "attention.head_count_kv": 2, "embedding_length": 64, "block_count": 2,
        "feed_forward_length": 128, "context_length": 1024,
    }  # fmt: skip
    vocabulary = tokenizer().get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    metadata = {f"llama.{name}": mx.array(value, mx.uint32) for name, value in numbers.items()} | {
        "general.architecture": "llama",
        "llama.attention.layer_norm_rms_epsilon": mx.array(1e-5),
        "llama.rope.freq_base": mx.array(10_000.0),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": mx.array([1] * 256 + [3, 3, 4, 4, 4, 4], mx.int32),
        "tokenizer.ggml.eos_token_id": mx.array(256, mx.uint32),
        "tokenizer.chat_template": TEMPLATE,
    }
    mx.save_gguf(str(target), arrays, metadata)


def test_a_gguf_is_the_model_that_it_was_made_of(tmp_path: Path) -> None:
    folder, settings = write_model(tmp_path / "tiny"), Settings(data_dir=tmp_path / "data")
    gguf(folder, tmp_path / "Tiny.Q8.gguf")
    assert import_model(tmp_path / "Tiny.Q8.gguf", settings).name == "tiny.q8"
    catalog = Catalog(settings)
    other = catalog.directory("tiny.q8")
    one, two = (mx.load(str(path / "model.safetensors")) for path in (folder, other))
    assert one.keys() == two.keys()
    assert all(mx.array_equal(one[name], two[name]) for name in one)
    made, given = catalog.load("tiny.q8"), load(ModelSpec("tiny", "llm", {"config": str(folder / "config.json")}))
    messages = [{"role": "user", "content": "What  is 12 in Zürich?"}]
    assert made.prompt(messages) == given.prompt(messages)
    assert made.context == 1024


@pytest.mark.parametrize("name", ["m.onnx", "model.bin", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "large"])
def test_what_has_no_end_is_refused_at_once(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    for each in (name, "tokenizer.json", "generation_config.json"):
        if kind == "pipe":
            os.mkfifo(folder / each)
        elif kind == "endless":
            (folder / each).symlink_to("/dev/zero")
        else:
            with (folder / each).open("wb") as file:
                file.truncate(MAX_BYTES + 1)
    (folder / "config.json").write_text(json.dumps(TINY))
    with pytest.raises(ImportModelError, match=r"is not a file|has more than 8589934592 bytes") as refused:
        import_model(folder, Settings(data_dir=tmp_path / "data"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "config.json is not a file"),
        ('{"model_type": "whisper", "d_model": -1}', "d_model|n_audio_state|lacks"),
        ("{", "no JSON"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_of_no_other_model(
    tmp_path: Path, config: str | None, message: str
) -> None:
    for name in ("model.safetensors", "tokenizer.json", "generation_config.json", "pytorch_model.bin"):
        (tmp_path / name).write_text("{}")
    if config is None:
        os.mkfifo(tmp_path / "config.json")
    else:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(ImportModelError, match=message) as refused:
        import_model(tmp_path, Settings(data_dir=tmp_path / "data"))
    assert "it may be" not in str(refused.value)


def test_a_small_file_needs_little_memory(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), before[1]))
    try:
        assert read_file(tmp_path / "a") == b"abc"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_deep_configuration_and_a_graph_of_many_parts_are_refused(tmp_path: Path) -> None:
    folder, settings = kokoro(tmp_path / "given"), Settings(data_dir=tmp_path / "data")
    (folder / "config.json").write_text('{"a":' * 200_000 + "1" + "}" * 200_000)
    with pytest.raises(ImportModelError, match="nested too deeply"):
        import_model(folder, settings)
    (tmp_path / "m.onnx").write_bytes(b"\x3a\x80\x89\x7a" + b"\x0a\x00" * 1_000_000)
    with pytest.raises(ImportModelError, match="not a whole ONNX file: a message of more than"):
        import_model(tmp_path / "m.onnx", settings)


def ctranslate2(variables: dict[str, np.ndarray], aliases: dict[str, str]) -> bytes:
    """Write model.bin as ctranslate2's ModelSpec does."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    kinds = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}
    data = struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, len(variables))
    for name, array in variables.items():
        data += text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
        data += struct.pack("<BI", kinds[str(array.dtype)], array.nbytes) + array.tobytes()
    data += struct.pack("<I", len(aliases))
    return data + b"".join(text(alias) + text(target) for alias, target in aliases.items())


def tiny_whisper(width: int = 4) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    found = {"encoder/num_heads": np.array(2, np.int8), "decoder/num_heads": np.array(2, np.int8)}
    for number, channels in ((1, 80), (2, width)):
        found[f"encoder/conv{number}/weight"] = numbers(width, channels, 3)
        found[f"encoder/conv{number}/bias"] = numbers(width)
    for side, length in (("encoder", 1500), ("decoder", 448)):
        found[f"{side}/position_encodings/encodings"] = numbers(length, width)
        blocks = {"self_attention": (3, 1)} | ({"attention": (1, 2, 1)} if side == "decoder" else {})
        for attention, sizes in blocks.items():
            for number, parts in enumerate(sizes):
                place = f"{side}/layer_0/{attention}/linear_{number}"
                found[f"{place}/weight"], found[f"{place}/bias"] = numbers(parts * width, width), numbers(parts * width)
        found[f"{side}/layer_0/self_attention/linear_0/bias"][width : 2 * width] = 0
        found[f"{side}/layer_0/ffn/linear_0/weight"] = numbers(4 * width, width)
        found[f"{side}/layer_0/ffn/linear_0/bias"] = numbers(4 * width)
        found[f"{side}/layer_0/ffn/linear_1/weight"] = numbers(width, 4 * width)
        found[f"{side}/layer_0/ffn/linear_1/bias"] = numbers(width)
        norms = [f"layer_0/{each}/layer_norm" for each in (*blocks, "ffn")]
        for norm in (*norms, "layer_norm"):
            found[f"{side}/{norm}/gamma"], found[f"{side}/{norm}/beta"] = numbers(width), numbers(width)
    found["decoder/layer_0/attention/linear_1/bias"][:width] = 0
    found["decoder/embeddings/weight"] = numbers(51_865, width)
    return found


def test_a_whisper_of_ctranslate2_is_the_hub_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.whisper.config._OFFICIAL", {(4, 1, 80): "tiny"})
    variables = tiny_whisper()
    (tmp_path / "tokenizer.json").touch()
    (tmp_path / "config.json").write_text('{"alignment_heads": [[0, 1]]}')
    whole = ctranslate2(variables, {"decoder/projection/weight": "decoder/embeddings/weight"})
    (tmp_path / "model.bin").write_bytes(whole)
    source = recognize(tmp_path)
    assert source is not None
    assert source.name == "whisper-tiny"
    (tmp_path / "out").mkdir()
    source.write(tmp_path / "out")
    roles = {"config": "config.json", "weights": "model.safetensors", "generation": "generation_config.json"}
    files = {role: str(tmp_path / "out" / name) for role, name in roles.items()}
    config, arrays, heads = read_checkpoint(files, source.name)
    network = Whisper(config)
    load_weights(network, arrays, files["weights"])
    assert heads == ((0, 1),)
    joined = variables["decoder/layer_0/attention/linear_1/weight"]
    assert np.array_equal(np.array(arrays["decoder.blocks.0.cross_attn.value.weight"]), joined[4:])
    for end, message in ((whole[:-9], "bytes early|not a whole"), (whole + b"!", "1 bytes follow its end")):
        (tmp_path / "model.bin").write_bytes(end)
        with pytest.raises(ImportModelError, match=message):
            import_model(tmp_path, Settings(data_dir=tmp_path / "data"))


def test_weights_of_eight_bits_are_divided_by_the_scale_of_their_row() -> None:
    variables = {"a": np.array([[10, -20], [30, 40]], np.int8), "a_scale": np.array([2, 10], np.float32)}
    variables |= {"b": np.array([7], np.int16), "b_scale": np.array(2, np.float32)}
    _, arrays = read_model(ctranslate2(variables, {"c": "b"}), "x")
    assert {name: array.tolist() for name, array in arrays.items()} == {"a": [[5, -10], [3, 4]], "b": [3.5], "c": [3.5]}
