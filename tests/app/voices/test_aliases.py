from types import SimpleNamespace

import pytest

from app.voices.aliases import describe, find_alias, language_of, outdated_names, resolve_alias
from models.contract import Voice

LANGUAGES = {"a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "i": "it", "p": "pt-br", "z": "zh"}


def with_voices(names: str) -> SimpleNamespace:
    """A model with voices whose names begin, as Kokoro's do, with a letter of the language and one of the gender."""
    voices = [Voice(name, LANGUAGES[name[0]], "female" if name[1] == "f" else "male") for name in names.split()]
    return SimpleNamespace(default_voice="af_heart", voices=voices)


KOKORO = with_voices(
    "af_alloy af_bella af_heart am_adam am_echo bf_alice bf_emma bm_fable ef_dora em_alex ff_siwis zf_xiaobei"
)
HOUSE = with_voices("af_heart am_michael bf_emma bm_fable em_alex ff_siwis if_sara pm_alex")
AMERICAN_WOMEN = """
    alloy nova shimmer coral sage marin Rachel rachel 21m00Tcm4TlvDq8ikWAM Bella EXAVITQu4vr4xnSDxMaL
    XB0fDUnXU5powFXDhCwa aura-asteria-en aura-2-thalia-en AURA-2-HELENA-EN aura-2-athena-en aura-2-vesta-en
"""
AMERICAN_MEN = """
    echo onyx ash verse cedar Adam adam pNInz6obpgDQGcFmaJgB ErXwobaYiN019PkySvjV aura-orion-en aura-2-apollo-en
    aura-zeus-en
"""
BRITISH_WOMEN = "Alice Lily pFZP5JQG7iQjIQuC4Bku aura-2-pandora-en aura-athena-en aura-2-theia-en"
BRITISH_MEN = """
    fable ballad JBFqnCBsd6RMkjVDRZzb onwK4e9ZLuTAKqWW03F9 Daniel aura-2-draco-en aura-helios-en aura-angus-en
"""
# The house's voice for each name.
NAMES = {
    name: voice
    for voice, names in (
        ("af_heart", AMERICAN_WOMEN),
        ("am_michael", AMERICAN_MEN),
        ("bf_emma", BRITISH_WOMEN),
        ("bm_fable", BRITISH_MEN),
    )
    for name in names.split()
}


def gender(voice: str, model: SimpleNamespace) -> str:
    return next(known.gender for known in model.voices if known.id == voice)


def test_namesakes_come_first() -> None:
    names = ("alloy", "echo", "fable", "Adam", "Bella", "hpp4J3VqNfWAUOO0d1Us", "Alice")
    expected = ["af_alloy", "am_echo", "bm_fable", "am_adam", "af_bella", "af_bella", "bf_alice"]
    assert [resolve_alias(name, KOKORO) for name in names] == expected


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_a_name_means_a_voice_of_its_gender_and_accent(name: str, expected: str) -> None:
    assert resolve_alias(name, HOUSE) == expected
    # A client that says "English" has not chosen another accent.
    assert resolve_alias(name, HOUSE, "en") == expected
    chosen = resolve_alias(name, KOKORO)
    assert gender(chosen, KOKORO) == gender(expected, HOUSE)
    # A namesake wins: Kokoro's Alice is British, too, and its Echo American.
    assert language_of(chosen, KOKORO.voices) == language_of(expected, HOUSE.voices)


def test_the_language_that_will_be_spoken_decides_over_the_accent() -> None:
    assert resolve_alias("nova", HOUSE, "en-gb") == "bf_emma"
    assert resolve_alias("ballad", HOUSE, "en-us") == "am_michael"
    assert resolve_alias("nova", HOUSE, "fr") == "ff_siwis"
    assert resolve_alias("onyx", HOUSE, "pt-BR") == "pm_alex"
    assert resolve_alias("onyx", HOUSE, "es") == resolve_alias("aura-2-nestor-es", HOUSE) == "em_alex"
    assert resolve_alias("aura-2-livia-it", HOUSE) == "if_sara"


def test_names_that_voices_had_before() -> None:
    for model in (HOUSE, SimpleNamespace(default_voice="x", voices=[*HOUSE.voices, Voice("x", "en-us", "male")])):
        assert [resolve_alias(name, model) for name in ("rms", "slt")] == ["am_michael", "af_heart"]
        assert resolve_alias("rms(2)+slt(1)", model) == "am_michael(2)+af_heart(1)"
        assert resolve_alias("slt + bf_emma (3)", model) == "af_heart + bf_emma (3)"
        assert outdated_names("rms(2)+slt(1)+slt", model) == ("voice rms (now am_michael)", "voice slt (now af_heart)")
    for name in ("af_heart", "rms2", "x-slt", "RMS", "nova", None):
        assert outdated_names(name, HOUSE) == ()


def test_a_model_that_has_such_a_name_keeps_it() -> None:
    mine = SimpleNamespace(default_voice="rms", voices=[*HOUSE.voices, Voice("rms", "en-us", "male")])
    assert resolve_alias("rms+slt", mine) == "rms+af_heart"
    assert outdated_names("rms+slt", mine) == ("voice slt (now af_heart)",)
    other = SimpleNamespace(default_voice="x", voices=[Voice("x", "en-us", None)])
    assert (resolve_alias("slt", other), outdated_names("slt", other)) == ("slt", ())


def test_the_language_decides_among_voices_of_a_gender() -> None:
    assert resolve_alias("aura-2-celeste-es", KOKORO) == "ef_dora"
    assert resolve_alias("aura-2-nestor-es", KOKORO) == "em_alex"
    assert resolve_alias("nova", KOKORO, "fr") == "ff_siwis"
    assert resolve_alias("Lily", KOKORO).startswith("bf_")
    assert resolve_alias("Rachel", KOKORO).startswith("af_")


def test_a_man_s_name_is_a_woman_s_voice_where_only_women_speak_the_language() -> None:
    assert resolve_alias("onyx", KOKORO, "fr-fr") == resolve_alias("aura-2-hector-fr", KOKORO) == "ff_siwis"
    assert resolve_alias("nova", HOUSE, "es") == "em_alex"
    assert gender(resolve_alias("onyx", KOKORO, "de"), KOKORO) == "male"


def test_who_has_no_gender_is_the_default_voice_or_the_first_of_the_language() -> None:
    assert find_alias("river").gender is None
    assert resolve_alias("SAz9YHcvj6GT2YYXdXww", KOKORO) == "af_heart"
    assert resolve_alias("aura-9-nobody-en", HOUSE) == "af_heart"
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
