"""Voice packs, blends and names."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from models.backend import mx
from models.contract import UnknownVoiceError, WeightsError, WeightsMissingError
from models.kokoro.voices import LANGUAGES, describe, load_voices, parse_blend, spoken_languages, style
from tests.models.kokoro.builder import TINY, voice_pack

WIDTH = 4
# Every row tells its own index.
LONG = np.repeat(np.arange(510, dtype=np.float32)[:, None], WIDTH, axis=1)
PACKS = {"long": LONG, "one": np.full((1, WIDTH), 1000, dtype=np.float32)}


@pytest.mark.parametrize(("phonemes", "row"), [(1, 0), (2, 1), (50, 49), (509, 508), (510, 509)])
def test_row_n_minus_1_serves_n_phonemes(phonemes: int, row: int) -> None:
    """Trap: several runtimes are one row off. The boundary tokens do not count."""
    assert style("long", PACKS, phonemes).tolist() == [[row] * WIDTH]


def test_a_pack_of_one_row_serves_every_length() -> None:
    assert style("one", PACKS, 1).tolist() == style("one", PACKS, 510).tolist() == [[1000] * WIDTH]


@pytest.mark.parametrize(
    ("voice", "expected"),
    [
        ("a", [("a", 1.0)]),
        ("a+b", [("a", 0.5), ("b", 0.5)]),
        ("a(2)+b(1)", [("a", 2 / 3), ("b", 1 / 3)]),
        (" a (2) + b ( 0.5 ) ", [("a", 0.8), ("b", 0.2)]),
        ("a(0)+b", [("a", 0.0), ("b", 1.0)]),
        ("a+a", [("a", 0.5), ("a", 0.5)]),
    ],
)
def test_blends(voice: str, expected: list[tuple[str, float]]) -> None:
    found = parse_blend(voice, {"a": LONG, "b": LONG})
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [weight for _, weight in found] == pytest.approx([weight for _, weight in expected])


def test_a_blend_is_the_weighted_mean_of_rows() -> None:
    assert style("long(3)+one(1)", PACKS, 11)[0, 0] == pytest.approx((3 * 10 + 1000) / 4)


@pytest.mark.parametrize(
    ("voice", "message"),
    [
        ("nobody", "unknown voice 'nobody'; this model has a, b"),
        ("a+nobody(2)", "unknown voice 'nobody'"),
        ("", "not a name or a blend"),
        ("a+", "not a name or a blend"),
        ("a(2", "not a name or a blend"),
        ("a(-1)", "not a name or a blend"),
        ("a(1e400)", "not a name or a blend"),
        ("a b", "not a name or a blend"),
        ("a(0)", "add up to zero"),
        (f"a({'9' * 400})+b", "add up to no number"),  # not NaN: such a weight is infinite in floating point
        ("+".join("a" * 9), "a blend of 9 voices; at most 8"),
    ],
)
def test_bad_voices_are_named(voice: str, message: str) -> None:
    with pytest.raises(UnknownVoiceError, match=message):
        parse_blend(voice, {"a": LONG, "b": LONG})


def test_names_tell_language_and_gender() -> None:
    assert (describe("af_heart").language, describe("af_heart").gender) == ("en-us", "female")
    assert (describe("bm_george").language, describe("bm_george").gender) == ("en-gb", "male")
    assert (describe("df_anna").language, describe("dm_daniel").gender) == ("de", "male")
    assert describe("zf_xiaoni").language == "zh"
    assert (describe("plain").language, describe("plain").gender) == ("en-us", None)


def test_a_folder_of_official_files(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "golden/tiny.pt", tmp_path / "af_tiny.pt")
    mx.save_safetensors(str(tmp_path / "bm_other.safetensors"), {"voice": mx.ones((3, 1, 12), dtype=mx.float16)})
    packs = load_voices(tmp_path, 12)
    assert sorted(packs) == ["af_tiny", "bm_other"]
    assert np.array_equal(packs["af_tiny"], voice_pack(TINY, seed=1, rows=12))
    assert packs["bm_other"].shape == (3, 12)
    assert packs["bm_other"].dtype == np.float32


def test_one_file_of_many_voices(tmp_path: Path) -> None:
    path = tmp_path / "voices.safetensors"
    mx.save_safetensors(str(path), {"a": mx.ones((1, 12)), "b": mx.zeros((510, 1, 12))})
    assert {name: pack.shape for name, pack in load_voices(path, 12).items()} == {"a": (1, 12), "b": (510, 12)}


@pytest.mark.parametrize("shape", [(510, 1, 11), (24,), (2, 2, 2, 12), (12, 5), (), (0, 1, 12)])
def test_a_pack_of_another_shape_is_named(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "voices.safetensors"
    mx.save_safetensors(str(path), {"odd": mx.zeros(shape)})
    with pytest.raises(WeightsError, match=r"voice odd has shape .*, not \[rows, 1, 12\]"):
        load_voices(path, 12)


def test_no_voices(tmp_path: Path) -> None:
    with pytest.raises(WeightsMissingError, match="no voice packs"):
        load_voices(tmp_path, 12)
    with pytest.raises(WeightsMissingError, match="does not exist"):
        load_voices(tmp_path / "voices.safetensors", 12)


def test_a_voice_file_holds_one_array(tmp_path: Path) -> None:
    mx.save_safetensors(str(tmp_path / "a.safetensors"), {"x": mx.ones((1, 12)), "y": mx.ones((1, 12))})
    with pytest.raises(WeightsError, match="holds one array, not 2"):
        load_voices(tmp_path, 12)


@pytest.mark.parametrize("voice", ["x" * 50_000, "(" * 50_000, "a(0)" + "+a(0)" * 15 + " " * 50_000])
def test_a_refusal_quotes_the_beginning_of_a_long_name(voice: str) -> None:
    with pytest.raises(UnknownVoiceError) as refused:
        parse_blend(voice, {"a": LONG})
    assert len(str(refused.value)) < 200


def test_german_is_a_language_of_checkpoints_whose_voices_are_named_for_it() -> None:
    assert spoken_languages(["af_heart", "plain"]) == LANGUAGES
    assert spoken_languages(["af_heart", "dm_daniel", "df_anna"]) == (*LANGUAGES, "de")
