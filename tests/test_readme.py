"""What the README shows works: every bash and python block runs against a real server; its tables match the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import av
import pytest

from app.audio.encoders import FORMATS
from app.config import Settings
from app.text.languages import LANGUAGES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "127.0.0.1:8000"


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    code: str


def blocks() -> list[Block]:
    return [
        Block(README[: match.start()].count("\n") + 1, match.group(1), match.group(2))
        for match in re.finditer(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    ]


EXAMPLES = [block for block in blocks() if block.language in ("bash", "python")]

# What curl does in the examples, for machines without it.
CURL = """#!{python}
import sys, httpx
arguments, url, out, body, headers = sys.argv[1:], None, None, None, {{}}
while arguments:
    word = arguments.pop(0)
    if word == "-H": headers.update([arguments.pop(0).split(": ", 1)])
    elif word == "-d": body = arguments.pop(0)
    elif word == "-o": out = arguments.pop(0)
    elif word == "-sf": pass
    else: url = word
reply = httpx.request("GET" if body is None else "POST", url, content=body, headers=headers, timeout=60)
if reply.is_error: sys.exit(22)
if out: open(out, "wb").write(reply.content)
else: sys.stdout.write(reply.text)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    tools = tmp_path_factory.mktemp("tools")
    (tools / "nightingale").write_text(
        f"#!{sys.executable}\nimport sys\nfrom app.cli.main import main\nsys.exit(main())\n"
    )
    if shutil.which("curl") is None:
        (tools / "curl").write_text(CURL.format(python=sys.executable))
    for tool in tools.iterdir():
        tool.chmod(0o755)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTINGALE_", "HOST", "PORT"))}
    return clean | {"PATH": f"{tools}:{os.environ['PATH']}", "NIGHTINGALE_DATA_DIR": str(tools / "data")}


def duration(path: Path) -> float:
    """Seconds of sound, decoded: a streamed file's header does not know them."""
    with av.open(str(path)) as container:
        return sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))


@pytest.mark.parametrize("block", EXAMPLES, ids=[f"line-{block.line}" for block in EXAMPLES])
def test_example_runs(block, server, environment, tmp_path):
    code = block.code.replace(ADDRESS, urlsplit(server).netloc)
    command = ["bash", "-euo", "pipefail", "-c", code] if block.language == "bash" else [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    promised = set(re.findall(r"[\w-]+\.(?:wav|flac|mp3)\b", block.code))
    assert promised == {path.name for path in tmp_path.iterdir()}
    for name in promised:
        assert 0.4 < duration(tmp_path / name) < 12, name
    assert promised or done.stdout.strip()


def test_there_are_examples_of_each_kind():
    assert len([block for block in EXAMPLES if block.language == "python"]) >= 2
    assert len([block for block in EXAMPLES if block.language == "bash"]) >= 4
    assert all(ADDRESS in block.code or "nightingale" in block.code for block in EXAMPLES)


def test_table_of_settings_is_the_settings():
    section = README.split("## Settings")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE))
    assert list(rows) == list(Settings.model_fields)
    for name, shown in rows.items():
        default = Settings.model_fields[name].default
        if name == "data_dir":
            continue
        shape = str(default).lower() if isinstance(default, bool) else default
        expected = "none" if default in (None, (), "") else f"`{shape}`"
        if isinstance(default, float):
            expected = f"`{default:g}`"
        assert shown == expected, name


def test_example_settings_are_accepted():
    (example,) = [block for block in blocks() if block.language == "toml"]
    settings = Settings.model_validate(tomllib.loads(example.code))
    assert settings != Settings()


def test_formats_and_languages_are_all_named():
    http = README.split("## HTTP")[1].split("\n## ")[0]
    assert all(f"`{name}`" in http for name in FORMATS)
    assert all(f"`{language.tag}`" in http for language in LANGUAGES)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(((?!http|/)[^)#]+)\)", README):
        assert (ROOT / target).exists(), target
