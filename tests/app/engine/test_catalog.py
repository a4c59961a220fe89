"""The catalog on real directories: names, defaults, presence, verification."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors import safe_open

from app.config import Settings
from app.engine.catalog import Catalog, Entry, PinnedFile, read_entries
from app.engine.download import HubError, pull
from app.errors import UnknownModelError
from models.backend import memory
from models.contract import Description, WeightsMissingError
from models.timeline import Timeline

ROOT = Path(__file__).parents[3]


def catalog(data_dir: Path, **settings: object) -> Catalog:
    return Catalog(Settings(data_dir=data_dir, **settings))


def put_kokoro(data_dir: Path, weights: str = "kokoro-v1_0.pth", voices: str = "voices/af_heart.pt") -> Path:
    """Files of the right names and the wrong contents."""
    folder = data_dir / "models" / "kokoro-82m"
    for name in ("config.json", weights, voices):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}")
    return folder


def states(verification) -> dict[str, str]:
    return {check.path: check.state for check in verification.files}


def test_house_is_ready_and_kokoro_absent_with_its_command(tmp_path):
    listed = {model.name: model for model in catalog(tmp_path).models()}
    speaking = {name for name, model in listed.items() if model.kind == "text-to-speech"}
    assert speaking == {"house", "kokoro-82m", "chatterbox", "chatterbox-turbo"}
    assert (listed["house"].status, listed["house"].install_command) == ("ready", None)
    assert listed["kokoro-82m"].status == "absent"
    assert listed["kokoro-82m"].install_command == "nightingale models pull kokoro-82m"
    assert listed["kokoro-82m"].license == "Apache-2.0"


@pytest.mark.parametrize(
    "name", ["kokoro-82m", "chatterbox", "chatterbox-turbo", "nllb-200-distilled-600m", "small-100", "m2m100-418m"]
)
def test_pins_are_complete_and_well_formed(name):
    entry = read_entries()[name]
    assert re.fullmatch("[0-9a-f]{40}", entry.revision)
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in entry.files)
    assert len({file.sha256 for file in entry.files}) == len(entry.files)
    pinned = {file.path for file in entry.files}
    if name == "kokoro-82m":
        voices = {path for path in pinned if path.startswith("voices/")}
        assert len(voices) == 54
        assert all(re.fullmatch(r"voices/[abefhijpz][fm]_[a-z]+\.pt", path) for path in voices)
        pinned = pinned - voices | {"voices"}
    assert not entry.cloning or all(file.size for file in entry.files)
    assert {paths[0] for role, paths in entry.roles.items() if role not in entry.optional} == pinned


@pytest.mark.parametrize("name", ["chatterbox", "chatterbox-turbo"])
def test_chatterbox_clones_and_needs_no_configuration(tmp_path, name):
    pinned = {file.path for file in read_entries()[name].files}
    subject = catalog(tmp_path)
    folder = tmp_path / "models" / name
    folder.mkdir(parents=True)
    for path in sorted(pinned):
        assert not subject.present(name)
        (folder / path).write_bytes(b"{}")
    assert subject.present(name)
    listed = {model.name: model for model in subject.models()}
    assert listed[name].cloning
    assert listed[name].install_command == f"nightingale models pull {name}"
    assert not listed["kokoro-82m"].cloning
    assert "config.json" not in states(subject.verify(name))


def test_settings_reach_the_family_they_are_for(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("app.engine.catalog._family", lambda family: SimpleNamespace(load=seen.append))
    for name in ("chatterbox", "kokoro-82m", "whisper-base"):
        entry = read_entries()[name]
        for paths in entry.roles.values():
            if paths[0] != "config.json" or name != "chatterbox":
                target = tmp_path / "models" / name / paths[0]
                target.parent.mkdir(parents=True, exist_ok=True)
                (target.mkdir() or (target / "a.pt").touch()) if paths[0] == "voices" else target.touch()
    of_chatterbox = {"bits": 8, "cache_bits": 4, "steps": 4, "draft": "ngram"}
    subject = catalog(tmp_path, chatterbox=of_chatterbox, speech_batch=4, recognition_bits=4)
    for name in ("chatterbox", "kokoro-82m", "whisper-base", "ear"):
        subject.load(name)
        if name in ("whisper-base", "ear"):
            catalog(tmp_path).load(name)
    monkeypatch.undo()
    assert (subject.describe("chatterbox").default_voice, subject.describe("chatterbox").clones) == ("default", True)
    spec, other, *recognizers = seen
    assert [each.bits for each in recognizers] == [4, 8, 4, 0]  # as it is set, and as `auto` chooses, for each
    assert (spec.bits, spec.cache_bits, spec.steps, spec.draft, spec.batch) == (8, 4, 4, "ngram", 1)
    assert set(spec.files) == {"t3", "s3gen", "voice_encoder", "tokenizer", "voice"}
    assert (other.bits, other.cache_bits, other.steps, other.draft, other.batch) == (0, 0, 0, "", 4)


def test_default_is_the_house_until_kokoro_is_installed(tmp_path):
    subject = catalog(tmp_path)
    assert subject.default() == "house"
    folder = put_kokoro(tmp_path)
    assert subject.default() == "kokoro-82m"
    shutil.rmtree(folder / "voices")
    assert subject.default() == "house"


def test_settings_choose_the_default(tmp_path):
    put_kokoro(tmp_path)
    assert catalog(tmp_path, default_model="house").default() == "house"
    assert catalog(tmp_path, default_model="Kokoro").default() == "kokoro-82m"
    with pytest.raises(UnknownModelError, match="'piper'"):
        catalog(tmp_path, default_model="piper").default()


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("house", [None, "tts-1", "TTS-1-HD", "gpt-4o-mini-tts", "house", " House "]),
        ("kokoro-82m", ["kokoro", "Kokoro-82M", "hexgrad/Kokoro-82M"]),
        ("nllb-200-distilled-600m", ["nllb", "NLLB-200", "facebook/nllb-200-distilled-600M"]),
    ],
)
def test_names_of_models(tmp_path, model, names):
    assert {catalog(tmp_path).resolve(name) for name in names} == {model}


@pytest.mark.parametrize("name", ["", "piper", "../house", "kokoro-82m/..", "x" * 10_000])
def test_unknown_names_are_refused_with_what_is_accepted(tmp_path, name):
    subject = catalog(tmp_path)
    for method in (subject.resolve, subject.load, subject.verify, subject.directory):
        with pytest.raises(UnknownModelError) as caught:
            method(name)
        assert "house" in caught.value.message
        assert "kokoro-82m" in caught.value.message
        assert len(caught.value.message) < 600


@pytest.mark.parametrize(("name", "pulled"), [("kokoro", "kokoro-82m"), ("NLLB-200", "nllb-200-distilled-600m")])
def test_loading_what_is_absent_names_the_command_and_no_path(tmp_path, name, pulled):
    with pytest.raises(WeightsMissingError, match=f"nightingale models pull {pulled}") as caught:
        catalog(tmp_path).load(name)
    assert str(tmp_path) not in str(caught.value)


def test_loading_a_half_installed_model_says_what_is_missing(tmp_path):
    (put_kokoro(tmp_path) / "kokoro-v1_0.pth").unlink()
    with pytest.raises(WeightsMissingError, match=r"\(weights\)"):
        catalog(tmp_path).load("kokoro-82m")


def test_loading_caps_what_mlx_keeps(tmp_path):
    """Every sentence has another length: without a cap, memory kept for reuse grows with them."""
    subject = catalog(tmp_path, mlx_cache_bytes=1 << 20)
    model = subject.load("house")
    assert subject.describe("house") == Description.of(model)
    ids = [0, *range(43, 60), 0]
    style = np.zeros((1, 64), dtype=np.float32)
    for length in range(2, 12):
        model.synthesize([*ids[:length], 0], style, 1.0, 0, Timeline(), lambda: False)
    assert memory().cache <= 1 << 20


def test_verify_house_reads_every_file_and_finds_it_whole(tmp_path):
    found = catalog(tmp_path).verify("house")
    assert found.ok
    assert set(states(found)) == {"config.json", "model.safetensors", "voices.safetensors"}


def test_verify_reports_every_pinned_file_of_an_absent_model(tmp_path):
    found = catalog(tmp_path).verify("kokoro-82m")
    assert not found.ok
    assert set(states(found).values()) == {"missing"}
    assert len(found.files) == 56


def test_verify_tells_wrong_sizes_from_wrong_checksums(tmp_path):
    put_kokoro(tmp_path)
    found = states(catalog(tmp_path).verify("kokoro-82m"))
    assert found["kokoro-v1_0.pth"] == "wrong size"
    assert found["voices/af_heart.pt"] == "wrong checksum"
    assert found["voices/af_bella.pt"] == "missing"


def test_verify_accepts_whole_conversions_and_refuses_truncated_ones(tmp_path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + bytes(16)
    folder = put_kokoro(tmp_path, "model.safetensors", "voices.safetensors")
    (folder / "voices.safetensors").write_bytes(whole)
    for content, state in [
        (whole, "not pinned"),
        (whole[:-1], "malformed"),
        (b"", "malformed"),
        (b"\xff" * 64, "malformed"),
    ]:
        (folder / "model.safetensors").write_bytes(content)
        found = catalog(tmp_path).verify("kokoro-82m")
        assert states(found)["model.safetensors"] == state
        assert states(found)["voices.safetensors"] == "not pinned"
        assert "kokoro-v1_0.pth" not in states(found)


def test_verify_lists_voices_a_person_added(tmp_path):
    folder = put_kokoro(tmp_path)
    (folder / "voices" / "mine.pt").write_bytes(b"voice")
    assert states(catalog(tmp_path).verify("kokoro-82m"))["voices/mine.pt"] == "not pinned"


NLLB_FILES = {"config.json", "pytorch_model.bin", "tokenizer.json"}


def test_translators_state_their_license(tmp_path):
    listed = {model.name: model for model in catalog(tmp_path).models()}
    translators = [model for name, model in listed.items() if name.startswith("nllb")]
    assert len(translators) == 3
    assert all(model.kind == "translation" for model in translators)
    assert all(model.license == "CC-BY-NC-4.0" and not model.commercial_use for model in translators)
    assert {name for name, model in listed.items() if not model.commercial_use} == {model.name for model in translators}


@pytest.mark.parametrize("name", ["nllb-200-distilled-1.3b", "nllb-200-1.3b"])
def test_what_has_no_pins_is_not_pulled_but_may_be_put_there(tmp_path, name):
    subject = catalog(tmp_path)
    entry = subject.entry(name)
    assert entry.install_command is None
    with pytest.raises(HubError, match="No checksums are pinned"):
        pull(entry, subject.directory(name), progress=False)
    with pytest.raises(
        WeightsMissingError,
        match=r"hf download \S+ config\.json pytorch_model\.bin tokenizer\.json .*--local-dir models/nllb",
    ):
        subject.load(name)
    folder = subject.directory(name)
    folder.mkdir(parents=True)
    for file in NLLB_FILES:
        (folder / file).write_bytes(b"{}")
    assert subject.present(name)
    assert set(states(subject.verify(name)).values()) == {"not pinned"}


def install(subject, name):
    """Put empty files of all roles where the model's files belong."""
    folder = subject.directory(name)
    folder.mkdir(parents=True)
    for paths in subject.entry(name).roles.values():
        (folder / paths[0]).write_bytes(b"")


def test_the_default_translator_is_an_installed_one_first_one_that_business_may_use(tmp_path):
    subject = catalog(tmp_path)
    # None is installed: it is one that can be, and never a demonstrator.
    assert subject.default_translator() == "small-100"
    for name in ("nllb-200-1.3b", "nllb-200-distilled-600m", "m2m100-1.2b", "m2m100-418m", "small-100"):
        install(subject, name)
        assert subject.default_translator() == name
    assert catalog(tmp_path, translation_model="nllb-200-1.3B").default_translator() == "nllb-200-1.3b"
    with pytest.raises(UnknownModelError, match="'babel'"):
        catalog(tmp_path, translation_model="babel").default_translator()


@pytest.fixture
def ears(monkeypatch):
    """Two models that recognize speech, of which the second can be pulled."""
    made = {
        name: Entry(
            name=name,
            family="ear",
            description="an ear",
            parameters=1,
            license="MIT",
            aliases=(),
            roles={"weights": ("model.safetensors",)},
            repository="example/ear",
            files=files,
            kind="speech-recognition",
        )
        for name, files in (("ear-one", ()), ("ear-two", (PinnedFile("model.safetensors", "0" * 64),)))
    }
    entries = {name: entry for name, entry in read_entries().items() if entry.kind != "speech-recognition"} | made
    monkeypatch.setattr("app.engine.catalog.read_entries", lambda: entries)


def test_the_default_recognizer_is_one_that_is_installed(tmp_path, ears):
    subject = catalog(tmp_path)
    # None is installed: it is one that can be.
    assert subject.default_recognizer() == "ear-two"
    folder = subject.directory("ear-one")
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"")
    assert subject.default_recognizer() == "ear-one"
    for name in ("whisper-1", "gpt-4o-transcribe", "GPT-4o-mini-transcribe", "gpt-transcribe"):
        assert subject.resolve(name) == "ear-one"
    configured = catalog(tmp_path, recognition_model="ear-two")
    assert configured.default_recognizer() == configured.resolve("whisper-1") == "ear-two"
    with pytest.raises(UnknownModelError, match="'babel'"):
        catalog(tmp_path, recognition_model="babel").default_recognizer()


@pytest.mark.parametrize(
    ("recognizer", "model", "known"),
    [
        ("ear", "house", True),
        ("ear", "kokoro-82m", False),
        ("ear", "chatterbox", False),
        ("whisper-base", "kokoro", True),
        ("whisper-base", "house", True),
    ],
)
def test_the_bundled_recognizer_judges_only_bundled_voices(tmp_path, recognizer, model, known):
    assert catalog(tmp_path).judges(recognizer, model) is known


def test_without_any_recognizer_openai_s_names_of_them_are_unknown(tmp_path, monkeypatch):
    speaking = {name: entry for name, entry in read_entries().items() if entry.kind == "text-to-speech"}
    monkeypatch.setattr("app.engine.catalog.read_entries", lambda: speaking)
    subject = catalog(tmp_path)
    assert subject.default_recognizer() is None
    with pytest.raises(UnknownModelError, match="no model 'whisper-1'") as unknown:
        subject.resolve("whisper-1")
    assert "gpt-4o-transcribe" not in str(unknown.value)
    assert subject.resolve("tts-1") == "house"


def parameters_in(path: Path) -> int:
    with safe_open(str(path), "numpy") as file:
        sizes = {name: math.prod(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    # Of 8 bits: a word has four weights.
    packed = {name.removesuffix(".scales") for name in sizes if name.endswith(".scales")}
    scales = {f"{name}.{kind}" for name in packed for kind in ("scales", "biases")}
    words = {f"{name}.weight" for name in packed}
    return sum(size * (4 if name in words else 1) for name, size in sizes.items() if name not in scales)


def test_sizes_are_those_of_the_checkpoints():
    for name, entry in read_entries().items():
        if entry.bundled is not None:
            assert parameters_in(ROOT / "models" / entry.bundled / "model.safetensors") == entry.parameters
        elif weights := [
            file.size for file in entry.files if file.size and file.size > 1 << 20 and ".json" not in file.path
        ]:
            # float32, and less than a hundredth of something else
            assert sum(weights) / 4 == pytest.approx(entry.parameters, rel=0.01), name


def test_sizes_agree_wherever_they_are_written(tmp_path):
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[\w.`, -]+`) \| ([\d.]+ [MB]) \|", page, re.MULTILINE)
    written = {name: size for names, size in rows for name in re.findall(r"`([\w.-]+)`", names)}
    assert written == {name: entry.size for name, entry in read_entries().items()}
    for model in catalog(tmp_path).models():
        assert f"({written[model.name]} parameters)" in model.description
        assert len(re.findall(r"[\d.]+ [MB]\b", model.description)) == 1


def test_whisper_may_be_put_there_in_each_layout(tmp_path):
    subject = catalog(tmp_path, recognition_bits=0)
    assert subject.default_recognizer() == subject.resolve("whisper-1") == "ear"
    with pytest.raises(WeightsMissingError, match=r"hf download \S+ config\.json model\.safetensors tokenizer\.json"):
        subject.load("openai/whisper-base")
    for name, files in (
        ("whisper-tiny", ("config.json", "weights.npz", "tokenizer.json")),
        ("whisper-base", ("config.json", "model.safetensors", "tokenizer.json")),
        ("whisper-small", ("small.pt", "tokenizer.json")),
        ("whisper-medium", ("medium.pt", "multilingual.tiktoken")),
        ("whisper-large-v3-turbo", ("large-v3-turbo.pt", "tokenizer.json")),
    ):
        folder = subject.directory(name)
        folder.mkdir(parents=True)
        for file in files:
            (folder / file).write_bytes(b"{}")
        assert subject.present(name)
        assert subject.default_recognizer() == subject.resolve("whisper-1") == name
        assert subject.size(name) == 2 * len(files)
        assert [check.path for check in subject.verify(name).files] == [*files]
    with pytest.raises(HubError, match="No checksums are pinned"):
        pull(subject.entry("whisper-tiny"), subject.directory("whisper-tiny"), progress=False)
