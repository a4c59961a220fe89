"""What the contract suite knows of each family of models: small checkpoints, calls, and parts that load strictly."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlx import nn

from loadtest import fake_checkpoints, s3gen_steps
from models.backend import mx
from models.chatterbox.pipeline import load as load_chatterbox
from models.chatterbox.reference.weights import load_speaker, load_tokenizer, load_voice_encoder
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.vocoder import HiFT
from models.chatterbox.s3gen.weights import load_flow, load_vocoder
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.weights import load_weights as load_t3
from models.contract import (
    AudioChunk,
    IsCancelled,
    ModelSpec,
    RecognitionRequest,
    Sampling,
    SpeechRequest,
    TranslationRequest,
)
from models.kokoro.network import Kokoro
from models.kokoro.pipeline import KokoroSynthesizer
from models.kokoro.pipeline import load as load_kokoro
from models.kokoro.weights import load_weights as load_kokoro_weights
from models.nllb.network import Nllb
from models.nllb.pipeline import NllbTranslator
from models.nllb.pipeline import load as load_nllb
from models.nllb.weights import load_weights as load_nllb_weights
from models.timeline import Stage, Timeline
from models.whisper.network import Whisper
from models.whisper.pipeline import load as load_whisper
from models.whisper.weights import load_weights as load_whisper_weights
from models.whisper.weights import rename
from tests.models.chatterbox.reference import builder as reference
from tests.models.chatterbox.s3gen import flow_builder, narrow
from tests.models.chatterbox.t3 import builder as t3
from tests.models.kokoro import builder as kokoro
from tests.models.kokoro.house import FILES, HOUSE, UTTERANCES
from tests.models.nllb import builder as nllb
from tests.models.nllb import m2m100_builder as m2m100
from tests.models.whisper import builder as whisper
from tests.models.whisper import ear

Arrays = dict[str, mx.array]
Load = Callable[[ModelSpec], Any]
Run = Callable[[Any, Any, Timeline, IsCancelled], Iterator[Any]]


@dataclass(frozen=True)
class Family:
    """How to write, load and call a small model of a family.

    `write` fills a folder with a checkpoint. `requests` have several lengths. `stages` are those that a profiled call
    times. The result of `drawn` depends on its seed. `broken` names an attribute of the model in whose call a
    computation can fail. The thread may turn to other work at least `pauses` times.
    """

    write: Callable[[Path], ModelSpec]
    load: Load
    run: Run
    requests: tuple[Any, ...]
    stages: frozenset[Stage]
    broken: str
    pauses: int
    drawn: Any = None


def speak(model: Any, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[Any]:
    """Call a synthesizer."""
    return iter(model.stream(request, timeline, cancelled))


def speak_tokens(model: Any, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[Any]:
    """Call Chatterbox for as many tokens as its text has characters: random weights seldom end by themselves."""
    return iter(model._stream(request, timeline, cancelled, limit=len(request.text), exact=True))


def outcome(items: list[Any]) -> list[Any]:
    """Return results in a form that can be compared: audio by its bits, the rest as it is."""
    results = [item for item in items if item is not None]
    return [
        (item.pcm.tobytes(), item.phoneme_ends, item.last) if isinstance(item, AudioChunk) else repr(item)
        for item in results
    ]


def _kokoro(folder: Path) -> ModelSpec:
    mx.save_safetensors(str(folder / "model.safetensors"), kokoro.to_mx(kokoro.official_arrays(kokoro.TINY, 0)))
    voices = {name: mx.array(kokoro.voice_pack(kokoro.TINY, seed, 1)) for seed, name in enumerate(("af_a", "am_b"))}
    mx.save_safetensors(str(folder / "voices.safetensors"), voices)
    kokoro.write_config(folder)
    return ModelSpec("tiny", "kokoro", {role: str(folder / name) for role, name in FILES.items()}, profile=True)


def _house(folder: Path) -> ModelSpec:
    for name in FILES.values():
        shutil.copy(HOUSE / name, folder / name)
    return ModelSpec("house", "kokoro", {role: str(folder / name) for role, name in FILES.items()}, profile=True)


def _padded_kokoro(spec: ModelSpec) -> KokoroSynthesizer:
    model = load_kokoro(spec)
    return KokoroSynthesizer(model.config, model.network, model._packs, profile=True, padded=True)


def _padded_nllb(spec: ModelSpec) -> NllbTranslator:
    model = load_nllb(spec)
    return NllbTranslator(model.config, model.network, model.tokenizer, padded=True)


def chatterbox_files(folder: Path, variant: Any) -> dict[str, str]:
    """ModelSpec.files of a checkpoint that `fake_checkpoints` wrote to `folder`."""
    names = {"config": "config.json", "voice_encoder": "ve.safetensors", "voice": "conds.pt"}
    if variant == "chatterbox":
        names |= {"t3": "t3_cfg.safetensors", "s3gen": "s3gen.safetensors", "tokenizer": "tokenizer.json"}
    else:
        names |= {"t3": "t3_turbo_v1.safetensors", "s3gen": "s3gen_meanflow.safetensors"}
        names |= {"vocabulary": "vocab.json", "merges": "merges.txt", "added_tokens": "added_tokens.json"}
    return {role: str(folder / name) for role, name in names.items()}


def _chatterbox(folder: Path, variant: Any, draft: str = "") -> ModelSpec:
    fake_checkpoints.write(folder / variant, variant, fake_checkpoints.small(variant))
    return ModelSpec(variant, "chatterbox", chatterbox_files(folder / variant, variant), draft=draft)


def _ear(folder: Path) -> ModelSpec:
    ear.ear(folder)
    names = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json"}
    return ModelSpec("ear", "whisper", {role: str(folder / "model" / name) for role, name in names.items()})


_LINE = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, ænd ðˈɛn ɪt ɹˈɛsts. "
_SPOKEN = tuple(
    SpeechRequest("", phonemes, "am_michael", first=False)
    for phonemes in (UTTERANCES["hello"], _LINE[:40], _LINE + _LINE[:20])
)
_LETTERS = tuple(SpeechRequest("", "abcdefgh. " * count, "af_a", first=False) for count in (1, 3, 5))
_READ = tuple(
    SpeechRequest(text, "", "default", seed=seed, sampling=Sampling(temperature=0.8))
    for seed, text in enumerate(("Hi, it is fine today, they say.", "One, two, three, four, five, six, seven."))
)
_PAIRS = (("eng_Latn", "fra_Latn"), ("deu_Latn", "eng_Latn"), ("zho_Hans", "rus_Cyrl"))
_WORDS = ("the cat sees a dog", "she goes home now .", "Hello World and then the red house runs")
_BATCHES = tuple(
    [TranslationRequest(text, *pair, beams=beams) for text, pair in zip(_WORDS, _PAIRS, strict=True)]
    for beams in (1, 3)
)
_M2M = [TranslationRequest(text, *pair) for text, pair in zip(m2m100.SENTENCES, _PAIRS[:1] * 2, strict=False)]
_HEARD = tuple(RecognitionRequest(whisper.sound(seconds), "en", temperature=0.0, word_times=True) for seconds in (1, 5))
_WHISPER = frozenset((Stage.MEL, Stage.ENCODE, Stage.DECODE, Stage.ALIGN))
_TRANSLATED = frozenset((Stage.TRANSLATE_ENCODE, Stage.TRANSLATE_DECODE))
_TOKENS = frozenset((Stage.T3_PREFILL, Stage.T3_DECODE, Stage.S3GEN_ENCODE, Stage.S3GEN_FLOW, Stage.VOCODER))
_PHONEMES = frozenset((Stage.VOICE, Stage.BERT, Stage.TEXT_ENCODER, Stage.PREDICTOR, Stage.DECODER))

_SMALL_KOKORO = Family(_kokoro, load_kokoro, speak, _LETTERS, _PHONEMES, "_compiled.pieces", 9, _LETTERS[0])
_SMALL_NLLB = Family(
    lambda folder: ModelSpec("tiny", "nllb", nllb.files(folder)),
    load_nllb,
    lambda model, *call: model.translate(*call),
    _BATCHES,
    _TRANSLATED,
    "compiled.step",
    2,
)
_ENGLISH = Family(
    partial(_chatterbox, variant="chatterbox"),
    load_chatterbox,
    speak_tokens,
    _READ,
    _TOKENS,
    "_flow.encode",
    9,
    _READ[0],
)
_HUB = Family(
    lambda folder: ModelSpec("tiny", "whisper", whisper.files(folder, seed=5)),
    load_whisper,
    lambda model, *call: model.recognize(*call),
    _HEARD,
    _WHISPER,
    "steps.hear",
    9,
    replace(_HEARD[0], temperature=0.9),
)
FAMILIES = {
    "kokoro": _SMALL_KOKORO,
    "house": replace(_SMALL_KOKORO, write=_house, requests=_SPOKEN, drawn=_SPOKEN[0]),
    "chatterbox": _ENGLISH,
    "chatterbox-turbo": replace(_ENGLISH, write=partial(_chatterbox, variant="chatterbox-turbo")),
    "nllb": _SMALL_NLLB,
    "m2m100": replace(
        _SMALL_NLLB, write=lambda folder: ModelSpec("m2m", "nllb", m2m100.files(folder)), requests=(_M2M[:1], _M2M)
    ),
    "whisper": _HUB,
    "ear": replace(_HUB, write=_ear, drawn=None),
}
# The same models in other orders of computation, for the rules about calls.
VARIANTS = {
    "house-padded": replace(FAMILIES["house"], load=_padded_kokoro),
    "nllb-padded": replace(_SMALL_NLLB, load=_padded_nllb),
    "chatterbox-lookup": replace(
        _ENGLISH,
        write=partial(_chatterbox, variant="chatterbox", draft="lookup"),
        requests=tuple(replace(one, sampling=Sampling(temperature=0.3, repetition_penalty=1.0)) for one in _READ),
    ),
}


@dataclass(frozen=True)
class Part:
    """A network, the arrays that a file has for it, and what loads them strictly.

    `prefix` stands before the names of the file. `zero` are parameters that no file has.
    """

    arrays: Callable[[], Arrays]
    make: Callable[[], nn.Module]
    load: Callable[[Any, Arrays, str], None]
    prefix: str = ""
    zero: str = "^$"


def _reference_part(number: int, prefix: str, name: str, load: Callable[[Any, Arrays, str], None]) -> Part:
    def arrays() -> Arrays:
        found = reference.as_mlx(reference.official(reference.small())[number])
        return {name: array for name, array in found.items() if name.startswith(prefix)}

    return Part(arrays, lambda: getattr(reference.ReferenceEncoder(reference.small()), name), load, prefix)


def _kokoro_network() -> nn.Module:
    with TemporaryDirectory() as folder:
        return Kokoro(kokoro.tiny_config(Path(folder)))


_NLLB = nllb.tiny_config()
_DIMS = whisper.config(n_vocab=1900)
PARTS = {
    "kokoro": Part(lambda: kokoro.to_mx(kokoro.official_arrays(kokoro.TINY, 0)), _kokoro_network, load_kokoro_weights),
    "nllb": Part(lambda: nllb.to_mx(nllb.official_arrays(_NLLB, 0)), lambda: Nllb(_NLLB), load_nllb_weights),
    "whisper": Part(
        lambda: whisper.to_mx(whisper.openai_arrays(_DIMS)),
        lambda: Whisper(_DIMS),
        lambda network, arrays, source: load_whisper_weights(network, rename(arrays, _DIMS), source),
        zero=r"attn\.key\.bias$",
    ),
    **{
        f"t3-{name}": Part(partial(t3.official_arrays, config), partial(T3, config), load_t3)
        for name, config in t3.CONFIGS.items()
    },
    **{
        f"flow-{name}": Part(partial(s3gen_steps.random_weights, config), partial(Flow, config), load_flow, "flow.")
        for name, config in flow_builder.VARIANTS.items()
    },
    "vocoder": Part(narrow.official_arrays, lambda: HiFT(narrow.SMALL, narrow.MELS), load_vocoder, "mel2wav."),
    "voice-encoder": _reference_part(0, "", "voice_encoder", load_voice_encoder),
    "speaker": _reference_part(1, "speaker_encoder.", "speaker", load_speaker),
    "tokenizer": _reference_part(1, "tokenizer.", "tokenizer", load_tokenizer),
}
