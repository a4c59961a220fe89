"""Make the reference package importable: parity tests import this module before anything of `chatterbox`.

`chatterbox.__init__` imports every pipeline with a web of dependencies, and torchaudio's wheel links CUDA. Both are
entered beside their `__init__`: the modules that are compared import as they are.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from importlib.machinery import PathFinder
from pathlib import Path
from unittest.mock import MagicMock

import torch

# Where `make parity` puts what must not be seen by the others (see the Makefile).
APART = Path(sys.prefix) / "apart"


def _enter(name: str, *folders: str) -> types.ModuleType:
    """Register package `name`, of `folders` if any are given, without running its `__init__`."""
    found = PathFinder.find_spec(name, list(folders)) if folders else importlib.util.find_spec(name)
    assert found is not None and found.submodule_search_locations is not None, f"{name} is not installed"
    module = types.ModuleType(name)
    module.__path__ = list(found.submodule_search_locations)
    module.__spec__ = found
    sys.modules[name] = module
    return module


if "chatterbox" not in sys.modules:
    _enter("chatterbox")
    torchaudio = _enter("torchaudio", str(APART), *sys.path)
    sys.modules["torchaudio._extension"] = MagicMock(_IS_ALIGN_AVAILABLE=False, _IS_RIR_AVAILABLE=False)
    # Named by modules that are imported and not used here.
    for operation in ("_lfilter_core_loop", "_overdrive_core_loop"):
        torch.library.define(f"torchaudio::{operation}", "(Tensor a, Tensor b, Tensor c) -> ()")
    for part in ("functional", "transforms", "compliance", "compliance.kaldi"):
        loaded = importlib.import_module(f"torchaudio.{part}")
        if "." not in part:
            setattr(torchaudio, part, loaded)
