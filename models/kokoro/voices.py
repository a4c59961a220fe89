"""Voice packs: style vectors by utterance length, and blends of them.

A pack is [510, 1, 2 * style_dim]. Row n - 1 serves n phonemes; a pack of one row serves every length. The first half of
a row is the style of the decoder, the second that of the predictor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from models.backend import mx
from models.checkpoint import read_arrays
from models.contract import Description, UnknownVoiceError, Voice, WeightsError, WeightsMissingError
from models.kokoro.config import KokoroConfig

# The first letter of an official voice's name is its language, the second its gender.
_LANGUAGES = {
    "a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "j": "ja", "p": "pt-br", "z": "zh",
}  # fmt: skip
# From Kokoro-82M's model card, American English first.
LANGUAGES = tuple(_LANGUAGES.values())
# Letters of voices of other checkpoints. Only these voices speak the language.
_COMMUNITY_LANGUAGES = {"d": "de"}
_NAME = re.compile(r"([a-z])([fm])_")
_TERM = re.compile(r"([\w.-]+)\s*(?:\(\s*(\d+(?:\.\d+)?)\s*\))?")
_MAX_TERMS = 8

Pack = npt.NDArray[np.float32]


def load_voices(path: str | Path, width: int) -> dict[str, Pack]:
    """Read packs [rows, width] by name, from one safetensors file or a folder of .pt / .safetensors files.

    Raises WeightsMissingError where there is none, WeightsError with the name of a pack of another shape.
    """
    path = Path(path)
    arrays: dict[str, mx.array] = {}
    if path.is_dir():
        for file in sorted((*path.glob("*.pt"), *path.glob("*.safetensors"))):
            found = read_arrays(file)
            if len(found) != 1:
                raise WeightsError(f"{file}: a voice file holds one array, not {len(found)}")
            arrays[file.stem] = next(iter(found.values()))
    else:
        arrays = read_arrays(path)
    if not arrays:
        raise WeightsMissingError(f"{path}: no voice packs (.pt or .safetensors)")
    packs = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2, 3) or not array.size or array.shape[-1] != width:
            raise WeightsError(f"{path}: voice {name} has shape {array.shape}, not [rows, 1, {width}]")
        packs[name] = np.array(array.astype(mx.float32)).reshape(-1, width)
    return packs


def voice_names(path: str | Path) -> list[str]:
    """Return the names of the packs of `load_voices`, which are not read. Raises WeightsError as it does."""
    path = Path(path)
    if path.is_dir():
        return sorted({file.stem for file in (*path.glob("*.pt"), *path.glob("*.safetensors"))})
    try:
        with safe_open(path, "numpy") as packs:
            return sorted(packs.keys())
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{path}: {error}") from None


def describe_checkpoint(config: KokoroConfig, names: Iterable[str]) -> Description:
    """Return the languages and voices of a checkpoint whose packs have these names."""
    names = sorted(names)
    if not names:
        raise WeightsMissingError("the checkpoint has no voice packs (.pt or .safetensors)")
    languages = config.languages or spoken_languages(names)
    genders = {name: config.voices.get(name, {}).get("gender") for name in names}
    voices = tuple(describe(name, languages[0], genders[name]) for name in names)
    return Description(languages, voices=voices, default_voice="af_heart" if "af_heart" in genders else names[0])


def describe(name: str, language: str = "en-us", gender: str | None = None) -> Voice:
    """Return a voice with language and gender from its official name (`af_heart`), or else as given."""
    named = _NAME.match(name)
    if named is None:
        return Voice(name, language, gender)
    spoken = (_LANGUAGES | _COMMUNITY_LANGUAGES).get(named.group(1), language)
    return Voice(name, spoken, {"f": "female", "m": "male"}[named.group(2)])


def spoken_languages(names: Iterable[str]) -> tuple[str, ...]:
    """Return the languages of a checkpoint that declares none: Kokoro-82M's, and those its voices are named for."""
    letters = {named.group(1) for named in map(_NAME.match, names) if named is not None}
    return (*LANGUAGES, *(tag for letter, tag in _COMMUNITY_LANGUAGES.items() if letter in letters))


def parse_blend(voice: str, known: Mapping[str, Pack]) -> list[tuple[str, float]]:
    """Parse ``a(2)+b(1)`` or ``a+b`` or ``a`` into names and weights that sum to 1. Raises UnknownVoiceError."""
    terms = []
    for term in voice.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            raise UnknownVoiceError(f"voice {voice[:100]!r} is not a name or a blend such as 'a(2)+b(1)'")
        name, weight = match.group(1), float(match.group(2) or 1)
        if name not in known:
            raise UnknownVoiceError(f"unknown voice {name[:100]!r}; this model has {', '.join(sorted(known))}")
        terms.append((name, weight))
    if len(terms) > _MAX_TERMS:
        raise UnknownVoiceError(f"a blend of {len(terms)} voices; at most {_MAX_TERMS} are accepted")
    total = sum(weight for _, weight in terms)
    if not 0 < total < float("inf"):
        raise UnknownVoiceError(f"the weights of {voice[:100]!r} add up to {'zero' if total == 0 else 'no number'}")
    return [(name, weight / total) for name, weight in terms]


def style(voice: str, packs: Mapping[str, Pack], phonemes: int) -> npt.NDArray[np.float32]:
    """Return the style row [1, width] of a voice or blend for an utterance of `phonemes` phonemes."""
    row = np.zeros_like(next(iter(packs.values()))[:1])
    for name, weight in parse_blend(voice, packs):
        pack = packs[name]
        at = min(phonemes, len(pack)) - 1
        row = row + np.float32(weight) * pack[at : at + 1]
    return row.astype(np.float32)
