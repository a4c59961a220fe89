import io
import struct
import wave

import numpy as np
import pytest

from app.audio.pcm import frames, to_int16, wav_header


def test_full_scale_is_symmetric_and_clipped() -> None:
    samples = to_int16(np.array([1.0, -1.0, 1.5, -7.0, 0.0], np.float32))
    assert samples.tolist() == [32767, -32767, 32767, -32767, 0]
    assert samples.dtype == np.dtype("<i2")


def test_rounds_to_nearest_not_toward_zero() -> None:
    step = 1 / 32767
    assert to_int16(np.array([0.6 * step, -0.6 * step, 0.4 * step], np.float32)).tolist() == [1, -1, 0]


def test_what_is_not_a_number_is_silence() -> None:
    assert to_int16(np.array([np.nan, np.inf, -np.inf], np.float32)).tolist() == [0, 32767, -32767]


def test_wav_header_of_known_length_is_read_by_the_standard_library() -> None:
    data = to_int16(np.linspace(-1, 1, 1000, dtype=np.float32)).tobytes()
    with wave.open(io.BytesIO(wav_header(24_000, 1000) + data)) as wav:
        assert (wav.getnchannels(), wav.getsampwidth(), wav.getframerate(), wav.getnframes()) == (1, 2, 24_000, 1000)
        assert wav.readframes(2000) == data


def test_wav_header_of_unknown_length_says_so() -> None:
    header = wav_header(16_000, None)
    assert len(header) == 44
    assert struct.unpack("<I", header[4:8])[0] == struct.unpack("<I", header[40:44])[0] == 0xFFFFFFFF


@pytest.mark.parametrize("size", [1, 3, 10, 11])
def test_frames_join_to_the_whole(size: int) -> None:
    data = bytes(range(10))
    cut = list(frames(data, size))
    assert b"".join(cut) == data
    assert max(map(len, cut)) <= size


def test_frames_of_nothing_are_none() -> None:
    assert list(frames(b"", 4)) == []
