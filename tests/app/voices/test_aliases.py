from types import SimpleNamespace

import pytest

from app.voices.aliases import describe, find_alias, language_of, resolve_alias
from models.contract import Voice

KOKORO = SimpleNamespace(
    default_voice="af_heart",
    voices=[
        Voice("af_alloy", "en-us", "female"),
        Voice("af_bella", "en-us", "female"),
        Voice("af_heart", "en-us", "female"),
        Voice("am_adam", "en-us", "male"),
        Voice("am_echo", "en-us", "male"),
        Voice("bf_alice", "en-gb", "female"),
        Voice("bf_emma", "en-gb", "female"),
        Voice("bm_fable", "en-gb", "male"),
        Voice("ef_dora", "es", "female"),
        Voice("em_alex", "es", "male"),
        Voice("ff_siwis", "fr-fr", "female"),
        Voice("zf_xiaobei", "zh", "female"),
    ],
)
HOUSE = SimpleNamespace(default_voice="rms", voices=[Voice("rms", "en-us", "male"), Voice("slt", "en-us", "female")])
WOMEN = """
    alloy nova shimmer coral sage marin Rachel rachel 21m00Tcm4TlvDq8ikWAM Bella EXAVITQu4vr4xnSDxMaL
    XB0fDUnXU5powFXDhCwa pFZP5JQG7iQjIQuC4Bku aura-asteria-en aura-2-thalia-en AURA-2-HELENA-EN aura-2-pandora-en
"""
MEN = """
    echo onyx fable ash ballad verse cedar Adam adam pNInz6obpgDQGcFmaJgB ErXwobaYiN019PkySvjV JBFqnCBsd6RMkjVDRZzb
    onwK4e9ZLuTAKqWW03F9 aura-orion-en aura-2-apollo-en aura-2-draco-en aura-zeus-en
"""


def gender(voice: str, model: SimpleNamespace) -> str:
    return next(known.gender for known in model.voices if known.id == voice)


def test_namesakes_come_first() -> None:
    names = ("alloy", "echo", "fable", "Adam", "Bella", "hpp4J3VqNfWAUOO0d1Us", "Alice")
    expected = ["af_alloy", "am_echo", "bm_fable", "am_adam", "af_bella", "af_bella", "bf_alice"]
    assert [resolve_alias(name, KOKORO) for name in names] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [(name, "female") for name in WOMEN.split()] + [(name, "male") for name in MEN.split()],
)
def test_a_woman_s_name_is_a_woman_s_voice_and_a_man_s_a_man_s(name: str, expected: str) -> None:
    assert resolve_alias(name, HOUSE) == ("rms" if expected == "male" else "slt")
    chosen = resolve_alias(name, KOKORO)
    assert gender(chosen, KOKORO) == expected
    assert language_of(chosen, KOKORO.voices).startswith("en")


def test_no_two_services_quarrel_over_a_name() -> None:
    for name in (*WOMEN.split(), *MEN.split()):
        assert find_alias(name) is not None
    assert find_alias("river").gender is None


def test_the_language_decides_among_voices_of_a_gender() -> None:
    assert resolve_alias("aura-2-celeste-es", KOKORO) == "ef_dora"
    assert resolve_alias("aura-2-nestor-es", KOKORO) == "em_alex"
    assert resolve_alias("nova", KOKORO, "fr") == "ff_siwis"
    assert resolve_alias("Lily", KOKORO).startswith("bf_")
    assert resolve_alias("Rachel", KOKORO).startswith("af_")


def test_a_man_s_name_stays_a_man_s_voice_where_only_women_speak_the_language() -> None:
    assert gender(resolve_alias("onyx", KOKORO, "fr-fr"), KOKORO) == "male"
    assert gender(resolve_alias("aura-2-hector-fr", KOKORO), KOKORO) == "male"


def test_who_has_no_gender_is_the_default_voice_or_the_first_of_the_language() -> None:
    assert resolve_alias("SAz9YHcvj6GT2YYXdXww", KOKORO) == "af_heart"
    assert resolve_alias("aura-9-nobody-en", HOUSE) == "rms"
    assert resolve_alias("aura-9-nobody-es", KOKORO) == "ef_dora"


def test_other_names_and_blends_pass_through() -> None:
    assert resolve_alias("af_heart(2)+am_echo(1)", KOKORO) == "af_heart(2)+am_echo(1)"
    for name in ("nobody", "aura", "aura-2-thalia", "21M00TCM4TLVDQ8IKWAM ", ""):
        assert resolve_alias(name, KOKORO) == name


def test_a_model_s_own_name_is_its_own() -> None:
    model = SimpleNamespace(default_voice="x", voices=[Voice("x", "en-us", "male"), Voice("nova", "en-us", "male")])
    assert resolve_alias("nova", model) == "nova"


def test_a_model_without_such_a_gender_uses_its_default() -> None:
    only = SimpleNamespace(default_voice="x", voices=[Voice("x", "en-us", None)])
    assert resolve_alias("nova", only) == "x"


def test_language_follows_the_first_voice() -> None:
    assert language_of("zf_xiaobei", KOKORO.voices) == "zh"
    assert language_of("bm_fable(2)+af_heart(1)", KOKORO.voices) == "en-gb"
    assert language_of("nobody", KOKORO.voices) == "en-us"


def test_words_for_who_speaks() -> None:
    assert describe("male", "en-us") == "man, American English"
    assert describe("female", "pt-br") == "woman, Brazilian Portuguese"
    assert describe(None, "en-gb") == "British English"
    assert describe(None, None) == ""
    assert describe(None, "tlh") == "tlh"
