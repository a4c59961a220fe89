import tomllib
from pathlib import Path

import pytest

from app.config import Settings, SettingsError, default_data_dir, is_loopback, load_settings

DEFAULTS = Path(__file__).parents[2] / "configs" / "default.toml"
HOME = {"HOME": "/home/somebody"}


def test_the_documented_defaults_are_the_defaults() -> None:
    assert load_settings(DEFAULTS, HOME) == load_settings(None, HOME)


def test_every_setting_is_documented() -> None:
    text = DEFAULTS.read_text(encoding="utf-8")
    missing = [name for name in Settings.model_fields if f"\n{name} = " not in text and f"\n# {name} = " not in text]
    assert missing == []
    assert set(tomllib.loads(text)) <= set(Settings.model_fields)


def test_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('port = 9001\nhost = "0.0.0.0"\nqueue_size = 3\n')
    assert load_settings(file, HOME).port == 9001
    settings = load_settings(file, HOME | {"PORT": "9002", "HOST": "::1", "NIGHTINGALE_MAX_STREAMS": "7"})
    assert (settings.port, settings.host, settings.queue_size, settings.max_streams) == (9002, "::1", 3, 7)
    assert load_settings(file, HOME | {"PORT": "9002", "NIGHTINGALE_PORT": "9003"}).port == 9003


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("drain_seconds = 1.5\n")
    assert load_settings(None, HOME | {"NIGHTINGALE_SETTINGS": str(file)}).drain_seconds == 1.5


def test_lists_are_separated_by_commas() -> None:
    assert load_settings(None, HOME | {"NIGHTINGALE_PRELOAD": "house, kokoro-82m"}).preload == ("house", "kokoro-82m")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("8 GB", 8 * 10**9),
        ("1.5gb", 1_500_000_000),
        ("512 MiB", 512 << 20),
        ("2K", 2_000),
        (" 7 B ", 7),
        ("0.5 TiB", 1 << 39),
    ],
)
def test_a_budget_of_memory_has_a_unit(text: str, expected: int) -> None:
    assert load_settings(None, HOME | {"NIGHTINGALE_MEMORY_BUDGET": text}).memory_budget == expected
    assert Settings.model_validate({"memory_budget": expected}).memory_budget == expected


@pytest.mark.parametrize("text", ["8 GB GB", "eight", "-1", "1e9", "GB", "1 PB", "9" * 40, "٣ GB", "2000 TiB"])
def test_a_budget_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="memory_budget"):
        load_settings(None, HOME | {"NIGHTINGALE_MEMORY_BUDGET": text})


@pytest.mark.parametrize(
    ("name", "text", "table", "expected"),
    [
        ("idle_unload_seconds", "600", 600, {"default": 600.0}),
        ("idle_unload_seconds", "house=0, whisper-base = 600", {"house": 0, "whisper-base": 600}, None),
        ("idle_unload_seconds", "default=9,house=0", {"default": 9, "house": 0}, None),
        ("pauses", "sentence=0.3", {"sentence": 0.3}, {"sentence": 0.3, "paragraph": 0.9}),
        ("pauses", "sentence=0.3,paragraph=2", {"sentence": 0.3, "paragraph": 2}, None),
    ],
)
def test_seconds_by_name_are_a_table_or_pairs(name: str, text: str, table: object, expected: object) -> None:
    found = [getattr(Settings.model_validate({name: value}), name) for value in (text, table)]
    missing = {"default": 0.0} if name == "idle_unload_seconds" else {}
    assert found == [expected or missing | table] * 2  # type: ignore[operator]
    assert load_settings(None, HOME | {f"NIGHTINGALE_{name.upper()}": text}).model_dump()[name] == found[0]


@pytest.mark.parametrize("text", ["house", "house=", "=3", "house=soon", "house=-1", "house=nan"])
@pytest.mark.parametrize("name", ["idle_unload_seconds", "pauses"])
def test_seconds_that_cannot_be_read_are_refused(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load_settings(None, HOME | {f"NIGHTINGALE_{name.upper()}": text})


def test_empty_variables_are_ignored() -> None:
    assert load_settings(None, HOME | {"PORT": "", "NIGHTINGALE_QUEUE_SIZE": ""}).port == 8000


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PORT": "http"}, ["PORT", "port", "integer"]),
        ({"PORT": "70000"}, ["port", "65535"]),
        ({"NIGHTINGALE_TRANSLATION_BITS": "16"}, ["NIGHTINGALE_TRANSLATION_BITS", "0, 4 or 8"]),
        ({"NIGHTINGALE_WARMUP": "maybe"}, ["NIGHTINGALE_WARMUP", "'full' or 'none'"]),
        ({"NIGHTINGALE_PROT": "1"}, ["NIGHTINGALE_PROT", "prot", "accepted are", "port"]),
    ],
)
def test_a_wrong_variable_is_named_in_one_line(environ: dict[str, str], expected: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, HOME | environ)
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in expected), message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("qeue_size = 3", "unknown setting 'qeue_size'"),
        ("queue_size = 0", "greater than or equal to 1"),
        ('queue_size = "many"', "valid integer"),
        ("queue_size = = 3", "not valid TOML"),
        ("idle_seconds = nan", "setting 'idle_seconds'"),
        ("chatterbox = { bits = 5 }", "setting 'chatterbox.bits'"),
        ("chatterbox_bits = 8", "setting 'chatterbox_bits' is now 'bits' of the table 'chatterbox'"),
    ],
)
def test_a_wrong_file_is_named_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file, HOME)
    message = str(caught.value)
    assert "\n" not in message
    assert expected in message
    assert str(file) in message


def test_an_absent_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read settings file"):
        load_settings(tmp_path / "none.toml", HOME)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings(None, HOME).port = 1


def test_data_directory_of_each_platform() -> None:
    assert default_data_dir(HOME, "linux") == Path("/home/somebody/.local/share/nightingale")
    assert default_data_dir(HOME | {"XDG_DATA_HOME": "/data"}, "linux") == Path("/data/nightingale")
    assert default_data_dir(HOME | {"XDG_DATA_HOME": "data"}, "linux").is_relative_to("/home/somebody")
    assert default_data_dir(HOME, "darwin") == Path("/home/somebody/Library/Application Support/nightingale")


def test_origins_are_a_list_too() -> None:
    environ = HOME | {"NIGHTINGALE_CORS_ORIGINS": "https://a.example, HTTP://B.example:8080"}
    assert load_settings(None, environ).cors_origins == ("https://a.example", "http://b.example:8080")


def test_addresses_of_this_machine() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"))


@pytest.mark.parametrize("origin", ["example.com", "https://example.com/path", "https://a, https://b", ""])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="without a path"):
        Settings(cors_origins=(origin,))


def test_options_of_chatterbox_are_a_table() -> None:
    settings = load_settings(None, HOME | {"NIGHTINGALE_CHATTERBOX": "bits=8,draft=lookup"})
    assert settings.chatterbox.model_dump() == {"bits": 8, "cache_bits": 0, "steps": 0, "draft": "lookup"}


def test_another_language_server_has_an_address_and_a_model() -> None:
    settings = load_settings(None, {"NIGHTINGALE_LLM": "url=http://127.0.0.1:11434/v1,model=qwen3:4b", "HOME": "/"})
    assert settings.llm == {"url": "http://127.0.0.1:11434/v1", "model": "qwen3:4b"}
    for wrong in ("qwen3", "url=127.0.0.1,model=qwen3", "url=http://127.0.0.1/v1", "url=http://h/v1,model=a,colour=b"):
        with pytest.raises(SettingsError, match="llm"):
            load_settings(None, {"NIGHTINGALE_LLM": wrong, "HOME": "/"})
