"""Recordings as people send them: every accepted format, bad files with their reason, and bombs."""

from __future__ import annotations

import io
import tracemalloc

import av
import numpy as np
import pytest
import soundfile

from app.audio.decode import Recording, decode
from app.audio.encoders import make_encoder
from app.errors import UnusableRecordingError

RATE = 24_000
TONE = 440.0


def tone(seconds: float = 2.0, rate: int = 48_000, level: float = 0.5, channels: int = 1) -> np.ndarray:
    wave = (level * np.sin(2 * np.pi * TONE * np.arange(round(seconds * rate)) / rate)).astype(np.float32)
    return wave if channels == 1 else np.stack([wave] * channels, axis=1)


def written(samples: np.ndarray, rate: int = 48_000, container: str = "WAV", codec: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=codec)
    return file.getvalue()


def muxed(samples: np.ndarray, container: str, codec: str, rate: int = 48_000) -> bytes:
    """By FFmpeg, for what soundfile does not write."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="fltp", layout="mono")
        frame.sample_rate = rate
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def read(data: bytes, max_seconds: float = 30.0) -> Recording:
    return decode(data, sample_rate=RATE, min_seconds=1.0, max_seconds=max_seconds)


def peak_frequency(pcm: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(pcm.size)))
    return float(np.argmax(spectrum)) * RATE / pcm.size


@pytest.mark.parametrize(
    ("container", "codec"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "FLOAT"),
        ("WAV", "ULAW"),
        ("W64", "PCM_16"),
        ("AIFF", "PCM_16"),
        ("CAF", "PCM_16"),
        ("FLAC", "PCM_16"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", None),
    ],
)
def test_formats_come_out_as_the_tone_they_hold(container: str, codec: str | None) -> None:
    recording = read(written(tone(), container=container, codec=codec))
    assert recording.pcm.dtype == np.float32
    assert recording.pcm.ndim == 1
    assert recording.seconds == pytest.approx(2.0, abs=0.06)
    assert not recording.cut
    assert peak_frequency(recording.pcm) == pytest.approx(TONE, abs=1)
    inside = recording.pcm[RATE // 2 : -RATE // 2]
    assert np.abs(inside).max() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("adts", "aac"), ("webm", "libopus")])
def test_formats_of_telephones_and_browsers(container: str, codec: str) -> None:
    recording = read(muxed(tone(), container, codec))
    assert recording.seconds == pytest.approx(2.0, abs=0.1)
    assert peak_frequency(recording.pcm) == pytest.approx(TONE, abs=1)


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav"])
def test_what_this_server_says_can_be_sent_back(name: str) -> None:
    encoder = make_encoder(name, RATE)
    data = encoder.encode(tone(rate=RATE)) + encoder.finish()
    assert peak_frequency(read(data).pcm) == pytest.approx(TONE, abs=1)


def test_channels_are_averaged_and_do_not_clip() -> None:
    stereo = tone(level=0.99, channels=2)
    assert np.abs(read(written(stereo, codec="FLOAT")).pcm).max() == pytest.approx(0.99, abs=0.01)
    stereo[:, 1] = 0
    assert np.abs(read(written(stereo, codec="FLOAT")).pcm).max() == pytest.approx(0.495, abs=0.01)


def test_samples_outside_the_range_are_brought_into_it() -> None:
    wild = tone() * 8
    wild[1000] = np.nan
    wild[2000] = np.inf
    pcm = read(written(wild, codec="FLOAT")).pcm
    assert np.isfinite(pcm).all()
    assert np.abs(pcm).max() <= 1.0


def test_what_lies_beyond_the_limit_is_cut() -> None:
    recording = read(written(tone(5.0)), max_seconds=2.0)
    assert recording.cut
    assert recording.pcm.size == 2 * RATE
    assert not read(written(tone(2.0)), max_seconds=2.0).cut


def test_a_bomb_is_not_unpacked() -> None:
    """Six hours of faint noise-free sound in little FLAC, of which two seconds are decoded."""
    seconds = 6 * 3600
    quiet = np.zeros(8_000 * seconds, np.int16)
    quiet[::4000] = 3000
    data = written(quiet, 8_000, "FLAC")
    unpacked = quiet.nbytes
    del quiet
    tracemalloc.start()
    try:
        recording = read(data, max_seconds=2.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert recording.cut
    assert recording.seconds == pytest.approx(2.0)
    assert most < 4_000_000 < unpacked


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot be read"),
        (b"no audio at all" * 500, "Invalid data"),
        (written(tone(0.5)), "0.50 seconds of audio; at least 1"),
        (written(np.zeros(96_000, np.float32)), "silent"),
        (written(tone(), codec="FLOAT")[:44], "seconds of audio|cannot be read"),
        (written(tone(rate=4_000), rate=4_000), "4000 Hz; accepted is 8000"),
        (written(tone(channels=10)), "10 channels; at most 8"),
    ],
)
def test_bad_files_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnusableRecordingError, match=reason) as caught:
        read(data)
    assert caught.value.status == 400


def test_a_file_of_a_truncated_upload_is_used_as_far_as_it_goes() -> None:
    data = written(tone(4.0))
    assert read(data[: len(data) // 2]).seconds == pytest.approx(2.0, abs=0.1)


def test_a_video_without_sound_is_refused() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for _ in range(20):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    with pytest.raises(UnusableRecordingError, match="no audio"):
        read(file.getvalue())


@pytest.mark.parametrize(
    "playlist",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{path}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {path}\n",
        "ffconcat version 1.0\nfile secret.wav\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 9 RTP/AVP 0\n",
    ],
)
def test_no_file_makes_the_server_open_another(playlist: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "secret.wav"
    secret.write_bytes(written(tone()))
    with pytest.raises(UnusableRecordingError):
        read(playlist.format(path=secret).encode())
