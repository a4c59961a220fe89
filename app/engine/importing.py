"""Models from files of other programs, where no hub is reachable: converted, checked whole, and installed.

Accepted are an ONNX export of Kokoro with its voices, a CTranslate2 folder of Whisper, OpenAI's `.pt` of Whisper with
its tokenizer, a language model as a GGUF or in mlx-lm's folder, and the official folder of any model of the catalog.
All is made in a folder beside the models; only a model that loads strictly is put in its place.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Final

from app.config import Settings
from app.engine.catalog import Catalog, Entry, read_entries
from app.errors import ServiceError
from models.contract import WeightsError
from models.files import copy_file
from models.importing.sources import ModelSource, check_name, local_name, recognize, whisper_name

ACCEPTED: Final = (
    "an ONNX export of Kokoro beside its voices, a CTranslate2 folder of Whisper, OpenAI's .pt of Whisper beside its "
    "tokenizer, a language model as a GGUF or in mlx-lm's folder, and the official folder of a model of 'nightingale "
    "models list'"
)


class ImportModelError(ServiceError):
    """Files that cannot be installed as a model. One line: what is wrong, and what to do."""


def import_model(path: Path, settings: Settings, name: str | None = None, *, replace: bool = False) -> ModelSource:
    """Install the model whose file or folder is `path`, and return what was installed.

    `name`: of the model, where the files do not tell, or an alias. `replace`: put it in the place of one that is
    installed. Raises UnknownModelError, and ImportModelError for files that are no model of the catalog or are damaged,
    and where one is installed already.
    """
    known = Catalog(settings)
    if name is not None and name in known:
        name = known.resolve(name)
    source = _recognize(path, name)
    if source.language_model:
        source = replace_fields(source, name=known.resolve(source.name) if source.name in known else source.name)
        source = source if name is None else replace_fields(source, name=local_name(name))
    elif name not in (None, source.name):
        raise ImportModelError(f"{path} is {source.form}, of {source.name}, not of {name}")
    if source.name in known and (known.entry(source.name).family == "llm") != source.language_model:
        raise ImportModelError(f"{path} is {source.form}, and {source.name} is another kind of model: give it a name")
    target = settings.data_dir / "models" / source.name
    if target.exists() and not replace:
        raise ImportModelError(f"{source.name} is installed already, in {target}; --replace puts this one in its place")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import-", dir=target.parent) as work:
        staged = settings.model_copy(update={"data_dir": Path(work)})
        folder = staged.data_dir / "models" / source.name
        folder.mkdir(parents=True)
        try:
            source.write(folder)
            check_name(Catalog(staged).load(source.name), source.name)
        except WeightsError as error:
            raise ImportModelError(f"{path}, {source.form}: {str(error).replace(f'{folder}/', '')}") from None
        except OSError as error:
            raise ImportModelError(f"{path} cannot be read or copied: {error.strerror or error}") from None
        if target.exists():
            target.rename(Path(work) / "before")
        folder.rename(target)
    return source


def _recognize(path: Path, name: str | None) -> ModelSource:
    """Return what the files are. Raises ImportModelError for anything that is not accepted."""
    if not path.exists():
        raise ImportModelError(f"{path} does not exist")
    folder = path if path.is_dir() else path.parent
    try:
        source = recognize(path)
        if source is not None:
            return source
        if name is None and path.suffix == ".pt":
            name = f"whisper-{path.stem}" if f"whisper-{path.stem}" in read_entries() else None
        if path.is_dir() or name is not None:
            return _official(folder, name)
    except WeightsError as error:
        raise ImportModelError(str(error)) from None
    except OSError as error:
        raise ImportModelError(f"{path} cannot be read: {error.strerror or error}") from None
    raise ImportModelError(f"{path}: it is none of these; accepted are {ACCEPTED}")


def _official(folder: Path, name: str | None) -> ModelSource:
    """Return a folder in a layout that the catalog reads. The names of its files, or of its sizes, tell the model."""
    entries = [entry for entry in read_entries().values() if entry.bundled is None and name in (None, entry.name)]
    found = [entry for entry in entries if not _missing(entry, folder)]
    if name is not None and not found:
        known = name in read_entries()
        why = "it is part of the installation" if known else "only language models may have a name of their own"
        missing = "; ".join(_missing(entries[0], folder)) if entries else why
        raise ImportModelError(f"{folder} is not the folder of {name}: {missing}")
    if len(found) > 1:  # Whisper's files have the same names for all sizes, and those of others, too
        own = whisper_name(folder)
        found = [entry for entry in found if (entry.name == own if own else entry.family != "whisper")]
    if len(found) != 1:
        which = f"it may be {', '.join(entry.name for entry in found)}: name one with --model" if found else ""
        raise ImportModelError(f"{folder}: {which or f'no model of the catalog; accepted are {ACCEPTED}'}")
    entry = found[0]

    def write(target: Path) -> None:
        for paths in entry.roles.values():
            for file in [file for file in paths if (folder / file).exists()][:1]:
                inside = [each for each in (folder / file).glob("*") if each.is_file()]
                for each in inside or [folder / file]:
                    copy = target / each.relative_to(folder)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy_file(each, copy)

    return ModelSource(entry.name, "official files", write)


def _missing(entry: Entry, folder: Path) -> list[str]:
    return [
        f"{' or '.join(paths)} is missing"
        for role, paths in entry.roles.items()
        if role not in entry.optional and not any((folder / file).exists() for file in paths)
    ]
