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
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import torch

if TYPE_CHECKING:
    from chatterbox.models.t3.modules.t3_config import T3Config

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


def turbo_parameters() -> T3Config:
    """Return T3's parameters as chatterbox/tts_turbo.py sets them."""
    from chatterbox.models.t3.modules.t3_config import T3Config

    parameters = T3Config(text_tokens_dict_size=50276)
    parameters.llama_config_name = "GPT2_medium"
    parameters.speech_tokens_dict_size = 6563
    parameters.input_pos_emb = None
    parameters.speech_cond_prompt_len = 375
    parameters.use_perceiver_resampler = False
    parameters.emotion_adv = False
    return parameters
