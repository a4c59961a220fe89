"""Catalog of models: find, verify and load the model of a name. The only importer of `models.<family>`.

The catalog is static (`catalog.toml`): a request can name a model, never a path or a repository. Bundled models lie
beside the code; others under `<data_dir>/models/<name>/`, in their repository's layout.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

import models
from app import __version__
from app.config import Settings
from app.errors import UnknownModelError
from models.contract import Description, Model, ModelKind, ModelSpec, WeightsMissingError

HOUSE = "house"
KOKORO = "kokoro-82m"
# Names of OpenAI's own speech models: clients that know no other name get the default model.
OPENAI_NAMES = frozenset({"tts-1", "tts-1-hd", "gpt-4o-mini-tts"})
# The recognizer of people that a person without one is told to install: it fits any computer.
RECOMMENDED_RECOGNIZER = "whisper-base"
# Names of OpenAI's recognizers: clients that know no other name get the default recognizer.
OPENAI_RECOGNIZERS = frozenset(
    {
        "whisper-1",
        "gpt-transcribe",
        "gpt-4o-transcribe",
        "gpt-4o-transcribe-diarize",
        "gpt-4o-mini-transcribe",
        "gpt-4o-mini-transcribe-2025-12-15",
        "gpt-live-transcribe",
        "gpt-realtime-whisper",
    }
)

# Names of folders of imported models.
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_BLOCK = 1 << 20
_SAFETENSORS_HEADER_LIMIT = 100_000_000

FileState = Literal["ok", "missing", "wrong size", "wrong checksum", "malformed", "not pinned"]


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file of a repository at the pinned revision. `size` in bytes, where it is known."""

    path: str
    sha256: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalog. `roles` maps config, weights, voices and the like to candidate paths, best first.

    `parameters` counts the numbers in its checkpoint. The model works without its `optional` roles. `cloning`: it also
    speaks in the voice of a recording. `target_first`: it reads the target language before the source.
    """

    name: str
    family: str
    description: str
    parameters: int
    license: str
    aliases: tuple[str, ...]
    roles: Mapping[str, tuple[str, ...]]
    bundled: str | None = None
    repository: str | None = None
    revision: str | None = None
    files: tuple[PinnedFile, ...] = ()
    kind: ModelKind = "text-to-speech"
    noncommercial: bool = False
    optional: tuple[str, ...] = ()
    cloning: bool = False
    target_first: bool = False

    @property
    def size(self) -> str:
        """Number of parameters, in words."""
        if not self.parameters:
            return "an unknown number of"
        millions = self.parameters / 1e6
        if millions >= 1000:
            return f"{millions / 1000:.2f} B"
        return f"{millions:.1f} M" if millions < 10 else f"{millions:.0f} M"

    @property
    def commercial_use(self) -> bool:
        """Whether the license allows commercial use."""
        return not self.noncommercial

    @property
    def install_command(self) -> str | None:
        """Command that installs the weights; None for a bundled model and for one without pinned checksums."""
        return f"nightingale models pull {self.name}" if self.files else None

    @property
    def install_hint(self) -> str:
        """Sentence that tells a person how to install the weights."""
        if self.install_command is not None:
            return f"Install them with: {self.install_command}"
        if self.repository is None:
            return "They are part of the installation: install Nightingale again."
        paths = [candidates[0] for candidates in self.roles.values()]
        files = "" if "." in paths else "".join(f" {path}" for path in paths)
        revision = "" if self.revision is None else f" --revision {self.revision}"
        return (
            "No checksums are pinned for it, so it cannot be pulled. Run in the data directory: "
            f"hf download {self.repository}{files}{revision} --local-dir models/{self.name}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo(Entry):
    """One model in a list of models."""

    status: Literal["ready", "absent"]


@dataclass(frozen=True, slots=True)
class FileCheck:
    """State of one file. "not pinned": a well-formed file that the catalog has no checksum of."""

    path: str
    state: FileState


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of `verify`: one check per file that the model needs or has."""

    name: str
    directory: Path
    files: tuple[FileCheck, ...] = field(default_factory=tuple)

    @property
    def wrong(self) -> tuple[FileCheck, ...]:
        """Files that are not as they should be."""
        return tuple(check for check in self.files if check.state not in ("ok", "not pinned"))

    @property
    def foreign(self) -> bool:
        """Whether a file has the name of a pinned one, and neither its contents nor was it pulled."""
        pulled = read_pulled(self.directory)
        return any(check.state.startswith("wrong") and check.path not in pulled for check in self.files)

    @property
    def ok(self) -> bool:
        """Whether every file is present and as it should be."""
        return bool(self.files) and not self.wrong


class Catalog:
    """Models that this installation knows, under one deployment's settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Language models that lie in the folder of the models, and that `catalog.toml` does not name, come first.
        files = (path.parent.name for path in sorted((settings.data_dir / "models").glob("*/config.json")))
        self._entries = {name: _local_entry(name) for name in files if _NAME.fullmatch(name)} | dict(read_entries())
        self._names = {name: name for name in self._entries}
        for entry in self._entries.values():
            self._names |= dict.fromkeys(entry.aliases, entry.name)

    def __contains__(self, name: str) -> bool:
        """Return whether a name or an alias is one of the catalog's."""
        return name.strip().lower() in self._names

    def models(self) -> list[ModelInfo]:
        """Return every model, present or not."""
        result = []
        for entry in self._entries.values():
            given = {each.name: getattr(entry, each.name) for each in fields(entry)}
            given["description"] += f" ({entry.size} parameters)"
            result.append(ModelInfo(**given, status="ready" if self.present(entry.name) else "absent"))
        return result

    def default(self) -> str:
        """Return the model of a request that names none: the configured one, else Kokoro-82M where it is installed.

        Raises UnknownModelError if the settings name a model that does not exist.
        """
        if self._settings.default_model is not None:
            return self._canonical(self._settings.default_model)
        return KOKORO if self.present(KOKORO) else HOUSE

    def default_translator(self) -> str:
        """Return the model of a translation that names none: the configured one, else the first that is installed.

        Models whose licenses allow commercial use come first. A demonstrator and a
        language model are never chosen. Where none is installed
        it is the first one that can be pulled. Raises UnknownModelError if the settings name a model that does not
        exist.
        """
        if self._settings.translation_model is not None:
            return self._canonical(self._settings.translation_model)
        translators = (entry for entry in self._entries.values() if entry.kind == "translation")
        known = [entry for entry in translators if entry.bundled is None and entry.family != "llm"]
        best = self._best(sorted(known, key=lambda entry: entry.noncommercial))
        assert best is not None  # noqa: S101  (the catalog has some)
        return best.name

    def default_recognizer(self) -> str | None:
        """Return the model of a recognition that names none: the configured one, else the first that is installed.

        Where none is installed it is the first one of the catalog that can be pulled; None: the catalog has none.
        Raises UnknownModelError if the settings name a model that does not exist.
        """
        if self._settings.recognition_model is not None:
            return self._canonical(self._settings.recognition_model)
        best = self._best([entry for entry in self._entries.values() if entry.kind == "speech-recognition"])
        return None if best is None else best.name

    def default_language_model(self) -> str | None:
        """Return the model of a conversation that names none: the first that is installed; None: none is."""
        known = (entry.name for entry in self._entries.values() if entry.kind == "text-generation")
        return next(filter(self.present, known), None)

    def judges(self, recognizer: str, model: str) -> bool:
        """Return whether a voice of `model` is at fault if `recognizer` hears other words than it was to speak.

        The bundled recognizer knows only the bundled voices, so it cannot tell for other models. Raises
        UnknownModelError.
        """
        return self.entry(recognizer).bundled is None or self.entry(model).bundled is not None

    def resolve(self, name: str | None) -> str:
        """Return the catalog's name for a client's name of a model. Raises UnknownModelError."""
        lower = "" if name is None else name.strip().lower()
        if name is None or lower in OPENAI_NAMES:
            return self.default()
        recognizer = self.default_recognizer() if lower in OPENAI_RECOGNIZERS else None
        return recognizer or self._canonical(name)

    def entry(self, name: str) -> Entry:
        """Return the entry of a model or alias. Raises UnknownModelError."""
        return self._entries[self._canonical(name)]

    def directory(self, name: str) -> Path:
        """Return the folder of a model's files. Raises UnknownModelError."""
        entry = self.entry(name)
        if entry.bundled is not None:
            return Path(models.__file__).parent / entry.bundled
        return self._settings.data_dir / "models" / entry.name

    def kind(self, name: str) -> ModelKind:
        """Return the task of a model. Raises UnknownModelError."""
        return self.entry(name).kind

    def present(self, name: str) -> bool:
        """Whether every role of a model has its file. Cheap: `verify` checks the contents."""
        entry = self.entry(name)
        return not _missing(entry, self._find(entry))

    def load(self, name: str) -> Model:
        """Load a model; call on the thread that owns MLX.

        Raises UnknownModelError, WeightsMissingError (with the command that installs the weights), and WeightsError
        for files that are not what they claim to be.
        """
        spec = self._spec(name)
        family = _family(spec.family)
        from models.backend import limit_cache  # loads MLX

        limit_cache(self._settings.mlx_cache_bytes)
        model: Model = family.load(spec)
        return model

    def describe(self, name: str) -> Description:
        """Return the properties of a model that speaks, whose weights are not read. Raises as `load` does."""
        spec = self._spec(name)
        known: Description = _family(spec.family).describe(spec)
        return known

    def _spec(self, name: str) -> ModelSpec:
        entry = self.entry(name)
        result = self._find(entry)
        missing = _missing(entry, result)
        if missing:
            # No path: this message goes to clients.
            raise WeightsMissingError(
                f"The files of model '{entry.name}' are not on this machine ({', '.join(missing)}). "
                f"{entry.install_hint}"
            )
        return ModelSpec(
            name=entry.name,
            family=entry.family,
            files={role: str(path) for role, path in result.items() if path is not None},
            kind=entry.kind,
            profile=self._settings.profile,
            dtype=self._settings.dtype,
            **self._choices(entry),
        )

    def size(self, name: str) -> int:
        """Return about how many bytes of memory a model needs at least: those of its files, less what is quantized.

        Raises UnknownModelError.
        """
        entry = self.entry(name)
        paths = {path for path in self._find(entry).values() if path is not None}
        files = [file for path in paths for file in _files_under(path)]
        bits = self._choices(entry).get("bits") or (16 if self._settings.dtype == "bfloat16" else 32)
        return sum(file.stat().st_size for file in files) * bits // 32

    def revision(self, name: str) -> str:
        """Return what changes with the files, the options or the release that a model's output depends on.

        Files are told apart by name, size and time of change. Raises UnknownModelError.
        """
        entry = self.entry(name)
        files = []
        for role, path in self._find(entry).items():
            for file in () if path is None else _files_under(path):
                status = file.stat()
                files.append((role, file.name, status.st_size, status.st_mtime_ns))
        settings = self._settings
        parts = (__version__, entry.name, files, settings.dtype, sorted(self._choices(entry).items()))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _choices(self, entry: Entry) -> dict[str, Any]:
        """Return the options of models of this kind or family."""
        settings = self._settings
        if entry.kind == "translation" and entry.family != "llm":
            return {
                "bits": self._bits(settings.translation_bits),
                "shortlist": settings.translation_shortlist,
                "target_first": entry.target_first,
            }
        if entry.kind == "speech-recognition":
            # The bundled recognizer's measure of its confidence was set with its weights as they are.
            bits = settings.recognition_bits
            return {"bits": 0 if bits == "auto" and entry.bundled is not None else self._bits(bits)}
        if entry.family == "kokoro":
            return {"batch": settings.speech_batch}
        if entry.family == "chatterbox":
            return settings.chatterbox.model_dump()
        return {}

    def _bits(self, bits: Literal["auto"] | int) -> int:
        """Return a setting's bits. `auto`: a CPU is faster with 8, by kernels for them, and writes the same.

        Shown for recognizers by `loadtest/recognition_wer.py`, for translators by `training/phrasebook/results`.
        """
        if bits != "auto":
            return bits
        from models.backend import on_cpu  # loads MLX
        from models.native import kernels

        return 8 if on_cpu() and kernels.available() else 0

    def verify(self, name: str) -> Verification:
        """Read every file of a model and compare it with its pinned checksum. Raises UnknownModelError.

        Files in use without a pinned checksum (bundled ones, conversions put there by hand) are checked for being
        whole. An absent model yields its pinned files as missing.
        """
        entry = self.entry(name)
        directory = self.directory(entry.name)
        checks: list[FileCheck] = []
        for role, path in self._find(entry).items():
            chosen = entry.roles[role][0] if path is None else str(path.relative_to(directory))
            pins = [file for file in entry.files if file.path == chosen or file.path.startswith(f"{chosen}/")]
            files = [] if path is None else [str(file.relative_to(directory)) for file in _files_under(path)]
            if files and not any(pin.path in files for pin in pins):
                pins = []  # a conversion that somebody put there
            checks += [check_file(directory, pin) for pin in pins]
            listed = {pin.path for pin in pins}
            unpinned = [file for file in files if file not in listed]
            checks += [
                FileCheck(each, "not pinned" if _is_whole(directory / each) else "malformed") for each in unpinned
            ]
            if path is None and not pins and role not in entry.optional:
                checks.append(FileCheck(chosen, "missing"))
        return Verification(entry.name, directory, tuple(dict.fromkeys(checks)))

    def _best(self, known: Sequence[Entry]) -> Entry | None:
        """Return the first one that is installed, else the first one that can be pulled, else the first one."""
        installed = (entry for entry in known if self.present(entry.name))
        pulled = (entry for entry in known if entry.install_command is not None)
        return next(installed, None) or next(pulled, None) or next(iter(known), None)

    def _canonical(self, name: str) -> str:
        result = self._names.get(name.strip().lower())
        if result is None:
            accepted = ", ".join(sorted(self._entries))
            raise UnknownModelError(f"There is no model '{name[:60]}'; accepted are {accepted}, and OpenAI's names.")
        return result

    def _find(self, entry: Entry) -> dict[str, Path | None]:
        directory = self.directory(entry.name)
        return {
            role: next((directory / path for path in candidates if _exists(directory / path)), None)
            for role, candidates in entry.roles.items()
        }


def _local_entry(name: str) -> Entry:
    return Entry(
        name=name,
        family="llm",
        kind="text-generation",
        description="A language model that was imported",
        parameters=0,
        license="its own",
        aliases=(),
        roles={"config": ("config.json",), "weights": (".",), "tokenizer": ("tokenizer.json", "tokenizer.model")},
    )


@cache
def read_entries() -> Mapping[str, Entry]:
    """Parse `catalog.toml`."""
    table = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
    return {name: _entry(name, values) for name, values in table.items()}


def _entry(name: str, values: dict[str, Any]) -> Entry:
    return Entry(
        **values
        | {
            "name": name,
            "aliases": tuple(values["aliases"]),
            "optional": tuple(values.get("optional", ())),
            "roles": {role: tuple(paths) for role, paths in values["roles"].items()},
            "files": tuple(PinnedFile(path, **pin) for path, pin in values.get("files", {}).items()),
        }
    )


def pulled_record(directory: Path) -> Path:
    """Return the file that lists the files of a model's folder which `pull` wrote: a list of paths as JSON."""
    return directory.parent.parent / "pulled" / f"{directory.name}.json"


def read_pulled(directory: Path) -> frozenset[str]:
    """Return the paths, within a model's folder, of the files that `pull` wrote."""
    try:
        paths = json.loads(pulled_record(directory).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(path for path in paths if isinstance(path, str)) if isinstance(paths, list) else frozenset()


def sha256_of(path: Path) -> str:
    """Return the hex digest of a file, which is read in pieces. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def check_file(directory: Path, pin: PinnedFile) -> FileCheck:
    """Compare a file under `directory` with its pin: size first, because that is free."""
    path = directory / pin.path
    state: FileState = "ok"
    if not path.is_file():
        state = "missing"
    elif pin.size is not None and path.stat().st_size != pin.size:
        state = "wrong size"
    elif sha256_of(path) != pin.sha256:
        state = "wrong checksum"
    return FileCheck(pin.path, state)


def _is_whole(path: Path) -> bool:
    """Whether a JSON file parses, or a safetensors file is as long as its header says. Others only have to exist."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".safetensors":
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if length > _SAFETENSORS_HEADER_LIMIT:
                    return False
                header = json.loads(file.read(length))
            ends = [tensor["data_offsets"][1] for key, tensor in header.items() if key != "__metadata__"]
            return path.stat().st_size == 8 + length + max(ends, default=0)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return False
    return True


def _exists(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(_files_under(path)))


def _files_under(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the voice files of a folder."""
    if path.is_dir():
        yield from (file for file in sorted(path.iterdir()) if file.suffix in (".pt", ".safetensors"))
    else:
        yield path


def _missing(entry: Entry, found: Mapping[str, Path | None]) -> list[str]:
    return [role for role, path in found.items() if path is None and role not in entry.optional]


def _family(name: str) -> Any:
    """Return the pipeline of a family, imported on first use: MLX starts with it."""
    return importlib.import_module(f"models.{name}.pipeline")
