"""Kinds of models, and the checkpoint that one is loaded from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from models.contract.generation import LanguageModel
from models.contract.recognition import Recognizer
from models.contract.speech import Synthesizer, Voice, VoiceCloner
from models.contract.translation import Translator

# Result of a family's `load`, and its task.
Model = Synthesizer | Translator | Recognizer | LanguageModel
ModelKind = Literal["text-to-speech", "translation", "speech-recognition", "text-generation"]


@dataclass(frozen=True, slots=True)
class Description:
    """Properties of a model that are known while it is not loaded. `languages` are those that its contract names.

    A family of models that speak has `describe(spec)`, which tells them without reading the weights.
    """

    languages: tuple[str, ...] = ()
    parameters: frozenset[str] = frozenset()
    voices: tuple[Voice, ...] = ()
    default_voice: str = ""
    clones: bool = False

    @classmethod
    def of(cls, model: Model) -> Description:
        """Describe a loaded model; only one that speaks has parameters and voices."""
        languages, parameters, voices = (getattr(model, name, ()) for name in ("languages", "parameters", "voices"))
        default_voice = getattr(model, "default_voice", "")
        clones = isinstance(model, VoiceCloner)
        return cls(tuple(languages), frozenset(parameters), tuple(voices), default_voice, clones)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Files and options of a checkpoint. `files` maps a role ("config", "weights", "voices", "tokenizer") to a path.

    `kind` is the task, for a family that has several. `profile` times the stages inside the model; `dtype` is the
    number format, "float32", "bfloat16" or the family's choice for this device ("auto"). `bits` (0, 4 or 8) quantizes
    the weights of models that can, `cache_bits` (0, 4 or 8) their keys and values. `shortlist` (0: off) bounds the
    output vocabulary of translation per target language. `steps` (0: the model's own) counts the evaluations of a
    flow-matching decoder. `draft` names the drafter of tokens ("": none). `batch` bounds the requests that a model
    speaks at once. `target_first`: the source of a translation begins with its target language.
    """

    name: str
    family: str
    files: dict[str, str] = field(default_factory=dict)
    kind: ModelKind = "text-to-speech"
    profile: bool = False
    dtype: str = "float32"
    bits: int = 0
    cache_bits: int = 0
    shortlist: int = 0
    steps: int = 0
    draft: str = ""
    batch: int = 1
    target_first: bool = False
