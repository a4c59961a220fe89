"""Models in the forms of other programs, and the official layouts that they are converted to."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from models.contract import WeightsError
from models.files import copy_file, read_file, read_json
from models.importing import ctranslate2, gguf, kokoro, onnx, whisper
from models.whisper.config import WhisperConfig, load_config, official_name, read_dims

Array = npt.NDArray[Any]

KOKORO: Final = "kokoro-82m"
_STYLE: Final = 256  # numbers of a row of a Kokoro voice
_WHISPER: Final = "WhisperSpec"
# Types of models that have config.json and model.safetensors, too, and write no text.
_OTHER_TYPES: Final = ("whisper", "m2m_100")
_LANGUAGE_MODEL_FILES: Final = (
    "config.json", "generation_config.json", "model*.safetensors", "model*.index.json", "tokenizer*.json",
    "tokenizer.model", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "chat_template.*",
)  # fmt: skip
# Bytes of all voices beside an export; Kokoro's 54 have 28 MB.
_MAX_VOICES: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Files of one model. `form` says what they are; `write` puts them into a folder in the official layout.

    A `language_model` may have any name; `name` is the one that its files suggest.
    """

    name: str
    form: str
    write: Callable[[Path], None]
    language_model: bool = False


def recognize(path: Path) -> ModelSource | None:
    """Return the model of a file or folder in the form of another program; None: it has no such form.

    Raises WeightsError for one that is damaged, has no model here, or lacks a file, and OSError.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(folder.iterdir()) if path.is_dir() else [path]
    exports = [file for file in files if file.suffix == ".onnx"]
    if len(exports) > 1:
        raise WeightsError(f"{folder} has {len(exports)} ONNX files: name one of them")
    if exports:
        return _onnx(exports[0], folder)
    if path.suffix == ".gguf":
        form, write = "a language model of llama.cpp", partial(gguf.convert, path)
        return ModelSource(local_name(path.stem), form, write, language_model=True)
    if any(file.name == "model.bin" for file in files):
        return _ctranslate2(folder)
    return _language_model(folder) if path.is_dir() else None


def whisper_name(folder: Path) -> str | None:
    """Return the name of the Whisper whose config.json is in a folder; None: it is of no Whisper that is known.

    Raises OSError and WeightsError where it cannot be read.
    """
    path = folder / "config.json"
    try:
        found = read_json(path)
    except ValueError as error:
        raise WeightsError(f"{path} is no JSON: {error}") from None
    # OpenAI's has no type.
    if not isinstance(found, dict) or found.get("model_type", "whisper") != "whisper":
        return None
    return _name(load_config(path))


def check_name(model: object, name: str) -> None:
    """Raise WeightsError for a loaded Whisper of another size than that of its name."""
    config = getattr(model, "config", None)
    if isinstance(config, WhisperConfig) and (found := _name(config)) != name:
        raise WeightsError(f"its sizes are those of {found or 'no known model'}, not of {name}")


def _name(config: WhisperConfig) -> str | None:
    name = official_name(config)
    return None if name is None else f"whisper-{name}"


def _ctranslate2(folder: Path) -> ModelSource:
    source = str(folder / "model.bin")
    spec, variables = ctranslate2.read_model(read_file(folder / "model.bin"), source)
    if spec != _WHISPER:
        raise WeightsError(f"{source} is a {spec[:40]} of CTranslate2; only Whisper's is accepted")
    arrays = whisper.read_export(variables, source)
    dims = whisper.dims(arrays, variables)
    name = _name(read_dims(dims, source))
    if name is None:
        raise WeightsError(f"{source}: no model of the catalog has its sizes: {dims}")
    if not (folder / "tokenizer.json").exists():
        raise WeightsError(f"{folder}: tokenizer.json is missing")

    def write(target: Path) -> None:
        (target / "config.json").write_text(json.dumps(whisper.hub_config(dims), indent=2), encoding="utf-8")
        try:
            heads = read_json(folder / "config.json").get("alignment_heads")
        except (OSError, ValueError, AttributeError):
            heads = None
        generation = {"alignment_heads": heads} if heads else {}
        (target / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
        copy_file(folder / "tokenizer.json", target / "tokenizer.json")
        save_file({key: np.ascontiguousarray(array) for key, array in arrays.items()}, target / "model.safetensors")

    return ModelSource(name, "a Whisper of CTranslate2", write)


def _language_model(folder: Path) -> ModelSource | None:
    """Return the language model in mlx-lm's layout that is in a folder; None: there is none."""
    try:
        config = read_json(folder / "config.json")
    except (OSError, ValueError):
        return None
    if not isinstance(config, dict) or config.get("model_type") in (None, *_OTHER_TYPES):
        return None
    if not any(folder.glob("model*.safetensors")):
        return None

    def write(target: Path) -> None:
        for pattern in _LANGUAGE_MODEL_FILES:
            for file in folder.glob(pattern):
                copy_file(file, target / file.name)

    return ModelSource(local_name(folder.resolve().name), "a language model", write, True)


def local_name(name: str) -> str:
    """Return the name under which a language model of that file or folder is installed, if none is given."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:64] or "language-model"


def _onnx(file: Path, folder: Path) -> ModelSource:
    source = str(file)
    arrays = kokoro.read_export(onnx.read_graph(read_file(file), source), source)
    voices = dict(_voices(folder))
    if not voices:
        raise WeightsError(
            f"{source}: there are no voices beside it; put a folder 'voices' of NAME.bin (float32), or "
            "voices-v1.0.bin, into its folder"
        )

    def write(target: Path) -> None:
        config = Path(kokoro.__file__).with_name("kokoro.json")
        copy_file(config, target / "config.json")
        save_file(arrays, target / "kokoro-v1_0.safetensors")
        save_file(voices, target / "voices.safetensors")

    return ModelSource(KOKORO, "an ONNX export of Kokoro", write)


def _voices(folder: Path) -> Iterator[tuple[str, Array]]:
    """Yield the voices beside an export: raw float32 in voices/NAME.bin, or an archive of numpy's arrays."""
    for file in sorted((folder / "voices").glob("*.bin")):
        data = read_file(file)
        if len(data) % (4 * _STYLE):
            raise WeightsError(f"{file} is no voice of Kokoro: {len(data)} bytes are no rows of {_STYLE} float32")
        yield file.stem, np.frombuffer(data, "<f4").reshape(-1, 1, _STYLE)
    for file in sorted((*folder.glob("voices*.bin"), *folder.glob("voices*.npz"))):
        try:
            packed = io.BytesIO(read_file(file))
            with zipfile.ZipFile(packed) as archive:
                if sum(part.file_size for part in archive.infolist()) > _MAX_VOICES:
                    raise WeightsError(f"{file} holds more than {_MAX_VOICES} bytes of voices")
            packed.seek(0)
            with np.load(packed, allow_pickle=False) as packs:
                for name in packs.files:
                    yield name, packs[name].astype(np.float32).reshape(-1, 1, _STYLE)
        except (ValueError, OSError, MemoryError, zipfile.BadZipFile) as error:
            raise WeightsError(f"{file} is no archive of Kokoro's voices: {error}") from None
