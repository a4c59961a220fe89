from types import SimpleNamespace

from app.voices import OPENAI_VOICES, language_of, resolve_alias
from models.contract import Voice

KOKORO = SimpleNamespace(
    default_voice="af_heart",
    voices=[
        Voice("af_alloy", "en-us", "female"),
        Voice("af_heart", "en-us", "female"),
        Voice("am_echo", "en-us", "male"),
        Voice("bm_fable", "en-gb", "male"),
        Voice("zf_xiaobei", "zh", "female"),
    ],
)
HOUSE = SimpleNamespace(default_voice="rms", voices=[Voice("rms", "en-us", "male"), Voice("slt", "en-us", "female")])


def test_namesakes_come_first() -> None:
    assert [resolve_alias(name, KOKORO) for name in ("alloy", "echo", "fable")] == ["af_alloy", "am_echo", "bm_fable"]


def test_every_openai_name_has_a_voice_of_its_gender() -> None:
    for name, gender in OPENAI_VOICES.items():
        assert resolve_alias(name, HOUSE) == ("rms" if gender == "male" else "slt")
        chosen = resolve_alias(name, KOKORO)
        assert next(voice for voice in KOKORO.voices if voice.id == chosen).gender == gender
        assert not chosen.startswith("z")


def test_other_names_and_blends_pass_through() -> None:
    assert resolve_alias("af_heart(2)+am_echo(1)", KOKORO) == "af_heart(2)+am_echo(1)"
    assert resolve_alias("nobody", KOKORO) == "nobody"


def test_a_model_without_such_a_gender_uses_its_default() -> None:
    only = SimpleNamespace(default_voice="x", voices=[Voice("x", "en-us", None)])
    assert resolve_alias("nova", only) == "x"


def test_language_follows_the_first_voice() -> None:
    assert language_of("zf_xiaobei", KOKORO.voices) == "zh"
    assert language_of("bm_fable(2)+af_heart(1)", KOKORO.voices) == "en-gb"
    assert language_of("nobody", KOKORO.voices) == "en-us"
