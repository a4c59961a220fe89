"""Text against the reference: its replacements of punctuation, its English tokenizer, GPT-2's tokenizer."""

from __future__ import annotations

import ast
import importlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from models.chatterbox.config import ENGLISH, TURBO
from models.chatterbox.text import EnglishTokenizer, TurboTokenizer, normalize
from tests.models.chatterbox.test_text import LETTERS, english_file, turbo_files

pytestmark = pytest.mark.parity


def reference_function(module: str, name: str) -> Callable[[str], str]:
    """One function of a module that cannot be imported here for what else it imports."""
    package = importlib.import_module("tests.models.chatterbox.reference_packages")
    folder = package.sys.modules["chatterbox"].__path__[0]
    tree = ast.parse((Path(folder) / module).read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    space: dict[str, Callable[[str], str]] = {}
    exec(compile(tree, module, "exec"), space)  # noqa: S102  (a function of an installed package)
    return space[name]


def texts(alphabet: str, seed: int, count: int = 400) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 40))) for _ in range(count)]


@pytest.mark.parametrize("turbo", [False, True])
def test_punctuation(turbo: bool) -> None:
    """But for leading space, after which the reference forgets the capital, and text of spaces alone."""
    theirs = reference_function("tts_turbo.py" if turbo else "tts.py", "punc_norm")
    for text in texts("ab cd  .,:;…—–-“”‘’!?\n\"'é", 1):
        if text.strip():
            assert normalize(text, turbo=turbo) == theirs(text.strip()), text


def test_english_ids(tmp_path: Path) -> None:
    importlib.import_module("tests.models.chatterbox.reference_packages")
    tokenizer = importlib.import_module("chatterbox.models.tokenizers.tokenizer")
    path = str(english_file(tmp_path))
    theirs, ours = tokenizer.EnTokenizer(path), EnglishTokenizer(path, ENGLISH.t3)
    for text in texts(LETTERS.replace("[", "").replace("]", "") + "    helll", 2):
        if text.strip():
            assert ours.encode(text) == theirs.encode(text), text


def test_gpt2_ids(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    files = turbo_files(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}', encoding="utf-8")
    theirs, ours = AutoTokenizer.from_pretrained(str(tmp_path)), TurboTokenizer(files, TURBO.t3)
    for text in texts("hello world é猫\"'s 12", 3):
        assert ours.encode(text) == theirs(text).input_ids, text
    for text in ("hello[laugh] well[sigh]", "[laugh]"):
        assert ours.encode(text) == theirs(text).input_ids
