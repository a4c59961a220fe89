"""Output module of speech-dispatcher, without a daemon: its settings, texts, audio events and installation."""

from __future__ import annotations

import re
import stat
import xml.etree.ElementTree as ET

import pytest

from app.cli.command import CommandError
from app.main import main
from app.screen_reader import install as installation
from app.screen_reader import message
from app.screen_reader.install import ModuleOptions, install, read_options
from app.screen_reader.parameters import Parameters, speakers
from app.screen_reader.protocol import audio_events

VOICES = speakers(
    [
        {"id": "am_michael", "name": "am_michael", "language": "en-us", "gender": "male", "model": "house"},
        {"id": "af_heart", "name": "af_heart", "language": "en-us", "gender": "female", "model": "house"},
        {"id": "ff_siwis", "name": "ff_siwis", "language": "fr-fr", "gender": "female", "model": "kokoro-82m"},
        {"id": "voice_1", "name": "Ann", "language": None, "gender": None, "model": None},
        {"id": "voice_2", "name": "Ann", "language": None, "gender": None, "model": None},
    ]
)


def parameters(**values: str) -> Parameters:
    chosen = Parameters()
    assert all(chosen.set(name, value) for name, value in values.items())
    return chosen


def voice(default: str | None = None, **values: str) -> str:
    found = parameters(**values).speaker(VOICES, default)
    assert found is not None
    return found.name


def parsed(ssml: str) -> ET.Element:
    return ET.fromstring(ssml)  # noqa: S314 - it is the module's own


def spoken(ssml: str) -> str:
    return "".join(parsed(ssml).itertext())


def text(ssml: str, **changed: object) -> str:
    options: dict[str, object] = {"spelling": False, "punctuation": "none", "capitals": False, "language": "en-us"}
    return message.text_message(ssml, **{**options, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, "am_michael"),
        ({"voice": "female1"}, "af_heart"),
        ({"voice": "FEMALE2", "language": "en"}, "af_heart"),
        ({"language": "fr"}, "ff_siwis"),
        ({"language": "fr-CA"}, "ff_siwis"),
        ({"language": "de"}, "am_michael"),
        ({"synthesis_voice": "af_heart", "voice": "male1"}, "af_heart"),
        ({"synthesis_voice": "slt", "voice": "male1"}, "af_heart"),  # its name before
        ({"synthesis_voice": "nobody"}, "am_michael"),
        ({"synthesis_voice": "voice_2"}, "voice_2"),
        ({"synthesis_voice": "NULL", "language": "NULL"}, "am_michael"),
    ],
)
def test_voice_of_the_settings(chosen, expected):
    assert voice(**chosen) == expected


def test_the_usual_voice_gives_way_to_a_choice():
    assert voice("af_heart", voice="male1", language="en") == "af_heart"
    assert voice("slt") == "af_heart"
    assert voice("af_heart", voice="male2") == "am_michael"
    assert voice("af_heart", language="fr") == "ff_siwis"


def test_voices_of_one_label_are_told_apart():
    assert [each.name for each in VOICES] == ["am_michael", "af_heart", "ff_siwis", "voice_1", "voice_2"]
    assert VOICES[0].line == "am_michael\ten-US\tmale"
    assert VOICES[3].line == "voice_1\tnone\tnone"


def test_rate_pitch_and_volume():
    usual = parameters().start(VOICES[0])
    assert (usual["speed"], usual["voice"], usual["model"]) == (1.0, "am_michael", "house")
    assert "sample_rate" not in usual
    assert parameters(rate="100").start(None)["speed"] == 3
    assert parameters(rate="-400").start(None)["speed"] == pytest.approx(1 / 3, abs=1e-3)
    high = parameters(pitch="100")
    started = high.start(None)
    # Played at 24 kHz it lasts as long as before.
    assert started["sample_rate"] / started["speed"] == pytest.approx(24_000, rel=1e-3)
    assert (started["sample_rate"], high.play_rate(started["sample_rate"])) == (16_971, 24_000)
    assert parameters(volume="-100").gain == 0
    assert parameters().gain == 1


@pytest.mark.parametrize(
    ("name", "value"), [("rate", "fast"), ("spelling_mode", "maybe"), ("punctuation_mode", ""), ("nothing", "1")]
)
def test_settings_that_are_refused(name, value):
    assert not Parameters().set(name, value)


def test_text_is_left_as_it_is():
    ssml = '<speak>One &amp; two.<mark name="__spd_0"/> NASA!</speak>'
    assert text(ssml) == ssml
    assert text(ssml, punctuation="all", capitals=True, language="fr-fr") == ssml


def test_punctuation_capitals_and_spelling():
    ssml = '<speak>A &amp; b, c.<mark name="__spd_0"/> Dear NASA</speak>'
    assert text(ssml, punctuation="some") == '<speak>A  and  b, c.<mark name="__spd_0"/> Dear NASA</speak>'
    assert text(ssml, punctuation="all") == ('<speak>A  and  b comma, c dot.<mark name="__spd_0"/> Dear NASA</speak>')
    assert text(ssml, capitals=True).endswith(" capital Dear capital NASA</speak>")
    spelled = parsed(text(ssml, spelling=True))
    assert [each.tag for each in spelled] == ["say-as", "mark", "say-as"]
    assert spelled[0].text == "A & b, c."


def test_characters_that_xml_does_not_have():
    parsed(text("<speak>a\x01b\x0b\ufffe c</speak>"))
    parsed(message.icon_message("a\x02<b"))
    parsed(message.key_message("\x1b", capitals=True, language="en"))
    parsed(message.key_message("a\x00b_<", capitals=True, language="en"))


@pytest.mark.parametrize(
    ("character", "said"),
    [("a", "a"), ("A", "capital A"), (".", "dot"), (" ", "space"), ("space", "space"), ("é", "é"), ("☃", "snowman")],
)
def test_character(character, said):
    assert spoken(message.character_message(character, capitals=True, language="en-us")) == said


@pytest.mark.parametrize(
    ("key", "said"),
    [("shift_a", "shift a"), ("Return", "Return"), ("_", "underscore"), ("control_<", "control less than")],
)
def test_key(key, said):
    assert spoken(message.key_message(key, capitals=False, language="en-us")) == said


def test_marks_and_words_of_broken_markup():
    broken = '<speak>a & b <mark name=\'x\'/><mark foo="1" name="y&amp;z"/> &lt;c <b></speak>'
    assert message.marks_of(broken) == ["x", "y&z"]
    assert " ".join(message.plain_text(broken).split()) == "a & b <c"


def test_a_long_document_in_parts():
    sentences = [f'Sentence {count} &amp; more.<mark name="__spd_{count}"/> ' for count in range(800)]
    ssml = f"<speak>{''.join(sentences)}{'word ' * 4_000}{'x' * 9_000}</speak>"
    found = message.parts(ssml)
    assert len(found) > 5
    assert all(len(each) < 8_100 for each in found)
    assert "".join(map(spoken, found)) == spoken(ssml)
    assert [name for each in found for name in message.marks_of(each)] == message.marks_of(ssml)
    nested = f"<speak><p>{'word ' * 4_000}</p></speak>"
    assert message.parts(nested) == [nested]
    assert message.parts("<speak>short</speak>") == ["<speak>short</speak>"]
    for odd in ("<" * 9_000, "x" * 9_000, f"<speak>{'x' * 9_000}", f"before <speak>{'x' * 9_000}</speak>"):
        assert message.parts(odd) == [odd]


def test_audio_events_can_be_read_back():
    pcm = bytes(range(256)) * 200
    events = list(audio_events(pcm, 24_000))
    assert len(events) > 3
    heard = b""
    for event in events:
        head, _, rest = event.partition(b"705-AUDIO\0")
        payload, end = rest.split(b"\n", 1)
        assert end == b"705 AUDIO\n"
        piece = re.sub(rb"\x7d(.)", lambda found: bytes([found[1][0] ^ 0x20]), payload, flags=re.DOTALL)
        assert f"705-num_samples={len(piece) // 2}\n".encode() in head
        heard += piece
    assert heard == pcm


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "local" / "share"))
    monkeypatch.setattr(installation, "_SYSTEM", tmp_path / "system.conf")
    return tmp_path


def test_install_twice(home, capsys):
    command = ["speech-dispatcher", "--install", "--url", "http://127.0.0.1:9000/", "--voice", "af_heart"]
    assert main(command) == 0
    program = home / "local" / "libexec" / "speech-dispatcher-modules" / "sd_nightingale"
    assert program.stat().st_mode & stat.S_IXUSR
    options = home / "config" / "speech-dispatcher" / "modules" / "nightingale.conf"
    assert read_options(options) == ModuleOptions("http://127.0.0.1:9000", None, "af_heart")
    # The daemon finds the module by itself.
    assert not (home / "config" / "speech-dispatcher" / "speechd.conf").exists()
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.count("unchanged") == 2
    options.write_text(options.read_text() + "# mine\n")
    assert main(["speech-dispatcher", "--install", "--voice", "am_michael"]) == 0
    assert read_options(options) == ModuleOptions("http://127.0.0.1:9000", None, "am_michael")
    assert "# mine\n" in options.read_text()


def test_install_keeps_the_lines_of_others(home):
    path = home / "config" / "speech-dispatcher" / "speechd.conf"
    path.parent.mkdir(parents=True)
    mine = '# my file\n#AddModule "a" "b"\n  AddModule "espeak" "sd_espeak" "espeak.conf"\nDefaultModule espeak'
    path.write_text(mine)
    install(ModuleOptions(), default=False)
    changed = path.read_text()
    assert changed.startswith(f"{mine}\n")
    assert changed.count('AddModule "nightingale"') == 1
    assert "DefaultModule nightingale" not in changed
    install(ModuleOptions(), default=True)
    install(ModuleOptions(), default=True)
    assert path.read_text().startswith(changed)
    assert path.read_text().splitlines()[-1] == "DefaultModule nightingale"
    assert path.read_text().count("DefaultModule nightingale") == 1


def test_the_users_configuration_begins_as_a_copy_of_the_systems(home):
    (home / "system.conf").write_text("SymbolsPreproc all\n")
    install(ModuleOptions(), default=True)
    assert (
        (home / "config" / "speech-dispatcher" / "speechd.conf").read_text().startswith("SymbolsPreproc all\n# Added")
    )


def test_options_that_cannot_be_read(tmp_path):
    path = tmp_path / "nightingale.conf"
    assert read_options(path) == ModuleOptions()
    path.write_text("# a\n\nUrl http://127.0.0.1:1\nSpeed 3\n")
    with pytest.raises(
        CommandError, match="line 4: 'Speed' is not an option; accepted are: Url, KeyFile, DefaultVoice"
    ):
        read_options(path)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--voice", "af_heart"], "need --install"),
        (["--install", "--voice", 'a"b'], "cannot be written"),
        (["--install", "FILE"], "takes no FILE"),
    ],
)
def test_wrong_usage(arguments, reason, home, capsys):
    assert main(["speech-dispatcher", *arguments]) == 2
    assert reason in capsys.readouterr().err
    assert list(home.iterdir()) == []
