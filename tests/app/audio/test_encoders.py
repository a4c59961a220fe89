"""Every format is decoded back by FFmpeg's decoders and compared with what went in."""

import hashlib
import io
import struct
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from app.audio.encoders import FORMATS, INFO, Format, check_bit_rate, check_format, check_rate, make_encoder
from app.errors import UnsupportedFormatError

RATE = 24_000
Float = npt.NDArray[np.float32]


def melody(seconds: float = 2.0) -> Float:
    """A tone whose pitch and level change, so that content, not only level, is compared."""
    time = np.arange(round(seconds * RATE)) / RATE
    frequency = np.where(time < seconds / 2, 440.0, 880.0)
    level = np.where(time < seconds / 2, 0.5, 0.25)
    return (level * np.sin(2 * np.pi * np.cumsum(frequency) / RATE)).astype(np.float32)


def encode(name: Format, pcm: Float, rate: int | None = None, piece: int = 7001, **chosen: Any) -> list[bytes]:
    encoder = make_encoder(name, RATE, rate, **chosen)
    parts = [encoder.encode(pcm[start : start + piece]) for start in range(0, pcm.size, piece)]
    return [*parts, encoder.finish()]


def decode(name: Format, data: bytes, rate: int) -> Float:
    if name == "pcm":
        return np.frombuffer(data, "<i2").astype(np.float32) / 32767
    # G.711's bytes have no header that would say what they are.
    raw = {"format": name, "options": {"sample_rate": str(rate)}} if name in ("mulaw", "alaw") else {}
    with av.open(io.BytesIO(data), **raw) as container:
        stream = container.streams.audio[0]
        assert stream.rate == (48_000 if name == "opus" else rate)
        decoded = [frame.to_ndarray().reshape(-1) for frame in container.decode(audio=0)]
    pcm = np.concatenate(decoded)
    return pcm.astype(np.float32) / 32768 if pcm.dtype.kind == "i" else pcm.astype(np.float32)


def pitch(pcm: Float, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(pcm.size)))
    return float(np.argmax(spectrum)) * rate / pcm.size


@pytest.mark.parametrize(
    ("name", "rate"),
    [(name, rate) for name in FORMATS for rate in INFO[name].rates or (8_000, 16_000, 22_050, RATE, 44_100, 48_000)],
)
def test_round_trip(name: Format, rate: int) -> None:
    pcm = melody()
    decoded = decode(name, b"".join(encode(name, pcm, rate)), rate)
    real = 48_000 if name == "opus" else rate
    # MP3 and AAC carry the codec's delay and whole frames: at most two frames of 1152 samples and the delay.
    assert pcm.size / RATE - 0.001 <= decoded.size / real <= pcm.size / RATE + 3500 / rate
    first, second = decoded[int(0.2 * real) : int(0.8 * real)], decoded[int(1.2 * real) : int(1.8 * real)]
    assert pitch(first, real) == pytest.approx(440, abs=3)
    assert pitch(second, real) == pytest.approx(880, abs=3)
    share = 0.02 if name in ("wav", "pcm", "flac") else 0.08
    assert np.sqrt(np.mean(first**2)) == pytest.approx(0.5 / np.sqrt(2), rel=share)
    assert np.sqrt(np.mean(second**2)) == pytest.approx(0.25 / np.sqrt(2), rel=share)


@pytest.mark.parametrize("name", ["wav", "pcm", "flac"])
def test_lossless_formats_return_every_sample(name: Format) -> None:
    pcm = np.random.default_rng(1).uniform(-1, 1, 10_000).astype(np.float32)
    decoded = decode(name, b"".join(encode(name, pcm)), RATE)
    scale = 1 if name == "pcm" else 32768 / 32767
    assert np.array_equal(np.rint(decoded * scale * 32767), np.rint(pcm * 32767))


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_come_while_audio_goes_in(name: Format) -> None:
    parts = encode(name, melody(3.0), piece=RATE // 2)
    assert all(parts[:5]), [len(part) for part in parts]


@pytest.mark.parametrize("name", FORMATS)
def test_one_stream_whatever_the_pieces(name: Format) -> None:
    pcm = melody(1.0)
    sizes = {decode(name, b"".join(encode(name, pcm, piece=piece)), RATE).size for piece in (100, 999, pcm.size)}
    assert len(sizes) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_no_audio_at_all_ends_cleanly(name: Format) -> None:
    data = make_encoder(name, RATE).finish()
    assert isinstance(data, bytes)
    assert name != "wav" or len(data) == 44


@pytest.mark.parametrize("name", ["mp3", "opus", "aac"])
def test_samples_beyond_full_scale_are_clipped(name: Format) -> None:
    loud = melody(0.5) * 10
    decoded = decode(name, b"".join(encode(name, loud)), RATE)
    assert np.abs(decoded).max() < 2.0


@pytest.mark.parametrize(
    ("name", "codes"),
    # Tables 1a and 2a of ITU-T G.711: digital silence, and full scale of either sign.
    [("mulaw", (0xFF, 0x80, 0x00)), ("alaw", (0xD5, 0xAA, 0x2A))],
)
def test_the_codes_are_those_of_g711(name: Format, codes: tuple[int, int, int]) -> None:
    encoder = make_encoder(name, 8_000)
    assert tuple(encoder.encode(np.array([0.0, 1.0, -1.0], np.float32)) + encoder.finish()) == codes


def test_unknown_format_lists_what_is_accepted() -> None:
    with pytest.raises(UnsupportedFormatError, match="wav, pcm, flac, mp3, opus, aac, mulaw, alaw"):
        check_format("midi")


def test_rates_a_format_cannot_carry_are_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="8000 to 48000"):
        check_rate("wav", 96_000)
    with pytest.raises(UnsupportedFormatError, match="accepted are: 8000, 12000"):
        check_rate("opus", 44_100)
    for name, info in INFO.items():
        for rate in info.rates or (8_000, 11_111, 48_000):
            assert check_rate(name, rate) == rate


@pytest.mark.parametrize(
    ("rate", "kbits"),
    [(8_000, 8), (8_000, 64), (16_000, 8), (22_050, 32), (24_000, 160), (44_100, 32), (44_100, 128), (48_000, 320)],
)
def test_every_frame_of_mp3_has_the_bit_rate_asked_for(rate: int, kbits: int) -> None:
    data = b"".join(encode("mp3", melody(), rate, bit_rate=check_bit_rate("mp3", rate, kbits)))
    samples = 1152 if rate > 24_000 else 576  # of a frame of layer III: MPEG 1, and the two later versions
    with av.open(io.BytesIO(data)) as container:
        sizes = {packet.size for packet in container.demux(audio=0) if packet.size}
    # A byte more in some of them keeps the average.
    assert sizes
    assert all(abs(size - samples * kbits * 125 / rate) < 1 for size in sizes)


@pytest.mark.parametrize(
    ("name", "rate", "kbits", "share", "more"),
    [
        # The encoder varies with the signal, and Ogg's pages come on top.
        *(("opus", 48_000, kbits, 0.1, 2) for kbits in (6, 32, 64, 192, 256)),
        # FFmpeg's keeps less closely to it than libopus.
        *(
            ("aac", rate, kbits, 0.2, 0)
            for rate, kbits in ((8_000, 16), (8_000, 32), (24_000, 16), (24_000, 96), (48_000, 128))
        ),
    ],
)
def test_the_bit_rate_is_the_one_asked_for_on_average(
    name: Format, rate: int, kbits: int, share: float, more: float
) -> None:
    # Noise needs all the bits there are.
    noise = np.random.default_rng(2).uniform(-0.5, 0.5, 4 * RATE).astype(np.float32)
    data = b"".join(encode(name, noise, rate, bit_rate=check_bit_rate(name, rate, kbits)))
    assert len(data) * 8 / 4 / 1000 == pytest.approx(kbits, rel=share, abs=more)


@pytest.mark.parametrize(
    ("name", "rate", "kbits", "accepted"),
    [
        ("mp3", 44_100, 100, "accepted are: 32, 40, 48"),
        ("mp3", 44_100, 8, "accepted are: 32, 40, 48"),
        ("mp3", 24_000, 320, "accepted are: 8, 16, 24, .*, 160"),
        ("mp3", 8_000, 96, "accepted are: 8, .*, 64"),
        ("aac", 24_000, 15, "accepted are: 16 to 96"),
        ("aac", 24_000, 97, "accepted are: 16 to 96"),
        ("opus", 48_000, 5, "accepted are: 6 to 256"),
        ("opus", 48_000, 257, "accepted are: 6 to 256"),
        ("pcm", 24_000, 128, "no bit rate"),
    ],
)
def test_bit_rates_a_format_does_not_have_are_refused(name: Format, rate: int, kbits: int, accepted: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=accepted):
        check_bit_rate(name, rate, kbits)


# What is encoded whole says how long it is.


def whole(name: Format, pcm: Float, rate: int, **chosen: Any) -> bytes:
    return b"".join(encode(name, pcm, rate, whole=True, **chosen))


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, RATE, 44_100, 48_000])
@pytest.mark.parametrize(("name", "width"), [("wav", 2), ("mulaw", 1), ("alaw", 1)])
def test_sizes_of_a_whole_wav_are_exact(name: Format, width: int, rate: int) -> None:
    for seconds in (0.0, 0.0123, 1.001):
        data = whole(name, melody(seconds), rate, container="wav")
        riff, body = struct.unpack("<4xI32xI", data[:44])
        assert (riff, body) == (len(data) - 8, len(data) - 44)
        assert body == pytest.approx(seconds * rate * width, abs=2 * width)


@pytest.mark.parametrize("rate", [8_000, 16_000, RATE, 48_000])
def test_a_whole_flac_has_its_length_and_its_md5(rate: int) -> None:
    data = whole("flac", melody(), rate)
    read, found = soundfile.read(io.BytesIO(data), dtype="int16")
    assert found == rate
    assert read.size == pytest.approx(2 * rate, abs=2)
    # STREAMINFO: RFC 9639 section 8.2.
    assert int.from_bytes(data[21:26], "big") & (1 << 36) - 1 == read.size
    assert data[26:42] == hashlib.md5(read.astype("<i2").tobytes()).digest()  # noqa: S324
    assert b"".join(encode("flac", melody(), rate))[42:] == data[42:]


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "pcm"])
def test_the_others_are_the_same_whole_or_streamed(name: Format) -> None:
    streamed, complete = b"".join(encode(name, melody())), whole(name, melody(), RATE)
    assert len(streamed) == len(complete)
    assert np.array_equal(decode(name, streamed, RATE), decode(name, complete, RATE))
