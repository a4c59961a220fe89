"""README and the pages of docs/: every bash and python block runs against a real server, tables match the code, and
links, files and addresses that they name exist."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import av
import httpx
import pytest
from pydantic import BaseModel

from app import errors
from app.audio.encoders import FORMATS
from app.config import Settings
from app.extras import EXTRAS
from app.main import main
from app.server.middleware.key_file import KeyFile
from app.server.native.interpret.events import InterpretationStart
from app.server.openai.transcription_form import TranscriptionForm
from app.server.schemas import PhonemesBody, SpeechBody, TranslateBody
from app.server.streaming.events import Start
from app.text.languages import LANGUAGES
from tests.golden import make_samples
from tests.processes import ROOT, clean_environment, run, serve_stand_ins

ADDRESS = "127.0.0.1:8000"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
FIGURES = r"(?s)<!-- figures of docs/quality.md -->\n(.+?)<!-- end of figures -->"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page. `bash` and `python` run, `py` needs packages that are not here, others are shown."""

    page: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{Path(self.page).stem}-{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [
        Block(page, text[: match.start()].count("\n") + 1, match.group(1), match.group(2))
        for page, text in PAGES.items()
        for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        if match.group(1) in languages
    ]


def section(page: str, heading: str) -> str:
    return PAGES[page].split(f"\n## {heading}\n")[1].split("\n## ")[0]


# A block that several pages show runs once.
EXAMPLES = list({block.code: block for block in reversed(blocks("bash", "python"))}.values())[::-1]


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    tools = tmp_path_factory.mktemp("tools")
    (tools / "nightingale").write_text(f"#!{sys.executable}\nimport sys\nfrom app.main import main\nsys.exit(main())\n")
    (tools / "nightingale").chmod(0o755)
    return clean_environment() | {"PATH": f"{tools}:{os.environ['PATH']}", "NIGHTINGALE_DATA_DIR": str(tools / "data")}


def duration(path: Path) -> float:
    """Seconds of sound, decoded: a streamed file's header does not know them."""
    with av.open(str(path)) as container:
        return sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))


@pytest.fixture(scope="module")
def conversing(tmp_path_factory) -> Iterator[str]:
    """A server with stand-ins, whose recognizer hears the voice of one of them, a tone."""
    choices = {"NIGHTINGALE_RECOGNITION_MODEL": "ear", "NIGHTINGALE_RECOGNITION_GATE": "false"}
    with serve_stand_ins(tmp_path_factory.mktemp("conversing"), **choices) as process:
        yield process.url


@pytest.mark.parametrize("block", EXAMPLES, ids=map(str, EXAMPLES))
def test_example_runs(block, request, environment, tmp_path, program):
    if "curl" in block.code:
        program("curl")
    # No language model is bundled: a stand-in answers.
    url = request.getfixturevalue("conversing" if re.search(r"realtime|client\.chat", block.code) else "server")
    code = block.code.replace(ADDRESS, urlsplit(url).netloc)
    command = ["bash", "-euo", "pipefail", "-c", code] if block.language == "bash" else [sys.executable, "-c", code]
    done = run(*command, seconds=300, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    # Whatever an example names it reads or writes; what sounds is heard.
    named = set(re.findall(r"[\w-]+\.(?:wav|flac|mp3|m4b|txt)\b", block.code))
    written = {path.name for path in tmp_path.iterdir()}
    promised = {name for name in named if not name.endswith(".txt")}
    assert promised <= written
    assert {name for name in written if not name.endswith((".srt", ".vtt"))} <= named
    for name in promised:
        assert 0.3 < duration(tmp_path / name) < 12, name
    assert promised or done.stdout.strip()


@pytest.mark.parametrize("block", blocks("py"), ids=str)
def test_example_that_needs_other_packages_is_python(block):
    ast.parse(block.code)


def test_table_of_settings_is_the_settings():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGES["docs/settings.md"], re.MULTILINE))
    assert list(rows) == list(Settings.model_fields)
    for name, shown in rows.items():
        default = Settings.model_fields[name].default
        if name == "data_dir":
            continue
        default = {} if isinstance(default, BaseModel) else default  # a table of its own
        shape = str(default).lower() if isinstance(default, bool) else default
        expected = "none" if default in (None, (), "", {}) else f"`{shape}`"
        if default and isinstance(default, dict):
            expected = "`" + ", ".join(f"{key}={value:g}" for key, value in default.items()) + "`"
        if isinstance(default, float):
            expected = f"`{default:g}`"
        assert shown == expected, name


def test_example_settings_are_accepted():
    (example,) = [block for block in blocks("toml") if block.page == "docs/settings.md"]
    settings = Settings.model_validate(tomllib.loads(example.code))
    assert settings != Settings()


def test_example_file_of_keys_is_accepted(tmp_path):
    (example,) = [block for block in blocks("toml") if block.page == "docs/access.md"]
    path = tmp_path / "keys.toml"
    path.write_text(example.code)
    assert len(KeyFile(path).keys().known) == 2


def test_formats_and_languages_are_all_named():
    speech = section("docs/http.md", "Speech")
    assert all(f"`{name}`" in speech for name in FORMATS)
    assert all(f"`{language.tag}`" in speech for language in LANGUAGES)


@pytest.mark.parametrize(
    ("body", "pages"),
    [
        (SpeechBody, ["http", "voice-cloning"]),
        (PhonemesBody, ["http"]),
        (TranslateBody, ["translation"]),
        (TranscriptionForm, ["recognition"]),
        (Start, ["websocket", "voice-cloning"]),
        (InterpretationStart, ["interpretation", "voice-cloning"]),
    ],
)
def test_every_field_is_named(body, pages):
    text = "".join(PAGES[f"docs/{page}.md"] for page in pages)
    assert [name for name in body.model_fields if name != "type" and f"`{name}`" not in text] == []


def test_paths_are_those_of_the_api(server):
    paths = httpx.get(f"{server}/openapi.json").json()["paths"]
    shown = set(re.findall(r"`(?:GET |POST |DELETE )?(/(?:v1|v2)/[\w/{}-]+)", "".join(PAGES.values())))
    known = set(paths) | {re.sub(r"\{\w+\}", "{id}", path) for path in paths}
    sockets = {"/v1/audio/stream", "/v1/text-to-speech/{voice_id}/stream-input", "/v1/text-to-speech/"}
    sockets |= {"/v1/speech-to-text/realtime"}
    assert shown - known - sockets == set()


def test_table_of_errors_is_the_errors():
    def below(kind: type[errors.ServiceError]) -> list[type[errors.ServiceError]]:
        return [kind, *(each for child in kind.__subclasses__() for each in below(child))]

    known = {
        (kind.code, str(kind.status), str(kind.close_code))
        for kind in below(errors.ServiceError)
        if kind.__module__ == errors.__name__
    }
    shown = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \|", section("docs/http.md", "Errors"), re.MULTILINE)
    assert set(shown) == known
    assert len(shown) == len(known)


def test_metrics_are_those_of_the_server(server):
    columns = re.findall(r"^\| (`.+?) \|", section("docs/metrics.md", "Names"), re.MULTILINE)
    served = httpx.get(f"{server}/metrics").text
    for name in re.findall(r"`(\w+)`", " ".join(columns)):
        assert re.search(rf"^# HELP nightingale_{name}\b", served, re.MULTILINE), name


def test_extras_are_all_named():
    assert set(re.findall(r"^\| `(\w+)` \|", section("docs/models.md", "Extras"), re.MULTILINE)) == set(EXTRAS)


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"nightingale ([a-z][a-z-]*)(?: [a-z]+)?\b", PAGES["docs/cli.md"])))
)
def test_commands_exist(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert command in capsys.readouterr().out


def test_targets_of_make_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", "".join(PAGES.values())))
    assert named - set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) == set()


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "code", re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL))
    for target, anchor in re.findall(r"\]\(((?!http)[^)#\s]*)(?:#([^)]+))?\)", text):
        found = (ROOT / page).parent / target if target else ROOT / page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page):
    for name in re.findall(r"`((?:app|models|tests|loadtest|configs|training|\.ci)/[\w./*-]*)`", PAGES[page]):
        assert any(ROOT.glob(name)) or (ROOT / name).exists(), name


def test_the_site_leads_to_every_page():
    navigation = (ROOT / "configs" / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- .+: (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("voice", make_samples.VOICES)
def test_samples_are_understood(voice, share_heard):
    sample = ROOT / "docs" / "audio" / f"{voice}.mp3"
    assert 2 < duration(sample) < 6
    assert share_heard(make_samples.TEXT, sample.read_bytes()) >= 0.8


def test_the_figures_are_those_of_the_report() -> None:
    figures = re.search(FIGURES, PAGES["README.md"])
    assert figures is not None
    assert figures[1] in PAGES["docs/quality.md"]
