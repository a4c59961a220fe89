"""Recordings as people send them: every accepted format, bad files with their reason, and bombs."""

from __future__ import annotations

import asyncio
import io
import random
import tracemalloc
from collections.abc import Callable, Iterator

import av
import numpy as np
import pytest

from app.audio import decoder_process
from app.audio.decode import AudioDecoder, Recording
from app.audio.decoder_process import ACCEPTED
from app.audio.encoders import make_encoder
from app.audio.samples import SampleReader
from app.errors import UnusableRecordingError
from tests.app.audio.recordings import (
    REFUSED_CODECS,
    TONE,
    corpus,
    giant_frame,
    many_samples,
    mutated,
    muxed,
    tone,
    written,
)

RATE = 24_000
Read = Callable[[bytes], Recording]


@pytest.fixture(scope="module")
def decoder() -> Iterator[AudioDecoder]:
    with AudioDecoder(sample_rate=RATE, min_seconds=1.0, max_seconds=30.0) as decoder:
        yield decoder


@pytest.fixture
def read(decoder: AudioDecoder) -> Read:
    return lambda data: asyncio.run(decoder.decode(data))


@pytest.fixture(scope="module")
def read_two_seconds() -> Iterator[Read]:
    with AudioDecoder(sample_rate=RATE, min_seconds=1.0, max_seconds=2.0) as decoder:
        yield lambda data: asyncio.run(decoder.decode(data))


def peak_frequency(pcm: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(pcm.size)))
    return float(np.argmax(spectrum)) * RATE / pcm.size


@pytest.mark.parametrize(
    ("container", "codec"),
    [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAV", "ULAW"), ("W64", "PCM_16"), ("AIFF", "PCM_16"),
     ("CAF", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", None)],
)  # fmt: skip
def test_formats_come_out_as_the_tone_they_hold(read: Read, container: str, codec: str | None) -> None:
    recording = read(written(tone(), container=container, codec=codec))
    assert recording.pcm.dtype == np.float32
    assert recording.pcm.ndim == 1
    assert recording.seconds == pytest.approx(2.0, abs=0.06)
    assert not recording.cut
    assert peak_frequency(recording.pcm) == pytest.approx(TONE, abs=1)
    inside = recording.pcm[RATE // 2 : -RATE // 2]
    assert np.abs(inside).max() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("container", "codec", "layout"),
    [("mp4", "aac", "mono"), ("adts", "aac", "mono"), ("webm", "libopus", "mono"), ("mp4", "aac", "7.1"),
     ("ogg", "libopus", "7.1")],
)  # fmt: skip
def test_formats_of_telephones_and_browsers(read: Read, container: str, codec: str, layout: str) -> None:
    recording = read(muxed(tone(), container, codec, layout=layout))
    assert recording.seconds == pytest.approx(2.0, abs=0.1)
    assert peak_frequency(recording.pcm) == pytest.approx(TONE, abs=1)


@pytest.mark.parametrize(
    ("head", "frame"), [(b"#!AMR\n", b"\x3c" + b"\x5a" * 31), (b"#!AMR-WB\n", b"\x44" + b"\x5a" * 60)]
)
def test_voice_memos_of_telephones(read: Read, head: bytes, frame: bytes) -> None:
    # No library here writes AMR: these are frames of 20 ms, of any bits.
    assert read(head + frame * 100).seconds == pytest.approx(2.0)


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav"])
def test_what_this_server_says_can_be_sent_back(read: Read, name: str) -> None:
    encoder = make_encoder(name, RATE)
    data = encoder.encode(tone(rate=RATE)) + encoder.finish()
    assert peak_frequency(read(data).pcm) == pytest.approx(TONE, abs=1)


def test_channels_are_averaged_and_do_not_clip(read: Read) -> None:
    stereo = tone(level=0.99, channels=2)
    assert np.abs(read(written(stereo, codec="FLOAT")).pcm).max() == pytest.approx(0.99, abs=0.01)
    stereo[:, 1] = 0
    assert np.abs(read(written(stereo, codec="FLOAT")).pcm).max() == pytest.approx(0.495, abs=0.01)


@pytest.mark.parametrize(
    ("container", "signs"),
    [("WAV", (1, -1)), ("MP3", (1, -1)), ("WAV", (1, -0.9)), ("WAV", (0.5, -0.5, 1, -1)), ("FLAC", (0, 1, -1))],
)
def test_channels_that_cancel_are_heard(read: Read, container: str, signs: tuple[float, ...]) -> None:
    samples = (tone(level=0.8)[:, np.newaxis] * np.array(signs)).astype(np.float32)
    pcm = read(written(samples, container=container)).pcm
    assert peak_frequency(pcm) == pytest.approx(TONE, abs=1)
    assert np.abs(pcm[RATE // 2 : -RATE // 2]).max() == pytest.approx(0.8, abs=0.05)
    raw = np.tile((samples * 32767).astype("<i2"), (2, 1)).tobytes()
    reader = SampleReader("pcm16", 48_000, 48_000, channels=len(signs))
    heard = np.concatenate([reader.push(raw[at : at + 7_000]) for at in range(0, len(raw), 7_000)])
    assert np.abs(heard).max() == pytest.approx(0.8, abs=0.05)


def test_samples_outside_the_range_are_brought_into_it(read: Read) -> None:
    wild = tone() * 8
    wild[1000] = np.nan
    wild[2000] = np.inf
    pcm = read(written(wild, codec="FLOAT")).pcm
    assert np.isfinite(pcm).all()
    assert np.abs(pcm).max() <= 1.0


def test_what_lies_beyond_the_limit_is_cut(read_two_seconds: Read) -> None:
    recording = read_two_seconds(written(tone(5.0)))
    assert recording.cut
    assert recording.pcm.size == 2 * RATE
    assert not read_two_seconds(written(tone(2.0))).cut


def test_a_bomb_is_not_unpacked() -> None:
    """An hour of faint noise-free sound in little FLAC, of which two seconds are decoded."""
    seconds = 3600
    quiet = np.zeros(8_000 * seconds, np.int16)
    quiet[::4000] = 3000
    data = written(quiet, 8_000, "FLAC")
    unpacked = quiet.nbytes
    del quiet
    tracemalloc.start()
    try:
        pcm, cut = decoder_process.decode(data, RATE, 2.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cut
    assert pcm.size == 2 * RATE
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
def test_bad_files_are_refused_with_the_reason(read: Read, data: bytes, reason: str) -> None:
    with pytest.raises(UnusableRecordingError, match=reason) as caught:
        read(data)
    assert caught.value.status == 400


def test_a_file_of_a_truncated_upload_is_used_as_far_as_it_goes(read: Read) -> None:
    data = written(tone(4.0))
    assert read(data[: len(data) // 2]).seconds == pytest.approx(2.0, abs=0.1)


def film(*, sound: bool) -> bytes:
    """Two seconds of black pictures, and of a tone."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as output:
        picture = output.add_stream("mpeg4", rate=10)
        picture.width = picture.height = 32
        picture.pix_fmt = "yuv420p"
        streams = [picture]
        if sound:
            streams.append(output.add_stream("pcm_s16le", rate=RATE))
            streams[1].layout = "mono"
        output.mux(picture.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")))
        if sound:
            samples = (tone(rate=RATE)[np.newaxis] * 32_767).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            frame.sample_rate = RATE
            output.mux(streams[1].encode(frame))
        for stream in streams:
            output.mux(stream.encode(None))
    return file.getvalue()


def test_a_video_without_sound_is_refused(read: Read) -> None:
    with pytest.raises(UnusableRecordingError, match="no audio"):
        read(film(sound=False))


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
    """Not even in a process that may open files."""
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "secret.wav"
    secret.write_bytes(written(tone()))
    kind, reason = decoder_process.answer(playlist.format(path=secret).encode(), RATE, 30.0)
    assert kind == decoder_process.REFUSED
    assert b"cannot be read" in reason


@pytest.mark.parametrize("container", ["WAV", "FLAC", "OGG"])
@pytest.mark.parametrize("channels", range(1, 9))
def test_every_number_of_channels_is_averaged(read: Read, container: str, channels: int) -> None:
    """Eight ended the process that decoded them."""
    levels = np.linspace(0.2, 0.9, channels)
    samples = tone(1.5, level=1.0)[:, np.newaxis] * levels
    recording = read(written(samples.astype(np.float32), container=container))
    assert peak_frequency(recording.pcm) == pytest.approx(TONE, abs=1)
    inside = recording.pcm[RATE // 2 : -RATE // 2]
    if container != "OGG":  # of six channels Vorbis takes one for a subwoofer's
        assert np.abs(inside).max() == pytest.approx(levels.mean(), abs=0.03)


@pytest.mark.parametrize(("container", "codec", "layout", "rate"), REFUSED_CODECS)
def test_other_codecs_are_refused_by_name(read: Read, container: str, codec: str, layout: str, rate: int) -> None:
    with pytest.raises(UnusableRecordingError, match=codec) as caught:
        read(muxed(tone(rate=rate), container, codec, rate, layout))
    assert ACCEPTED in caught.value.message


def chained(*channels: int) -> bytes:
    """Ogg files one after the other, which is a file of Ogg, too (RFC 3533, section 4)."""
    return b"".join(written(tone(channels=each), container="OGG") for each in channels)


def without_bits() -> bytes:
    data = bytearray(written(tone()))
    data[34:36] = b"\0\0"
    return bytes(data)


@pytest.mark.parametrize(
    "data", [chained(1, 2), without_bits(), many_samples(), giant_frame()], ids=["chained", "bits", "many", "giant"]
)
def test_strange_files_are_refused_with_what_is_accepted(read: Read, data: bytes) -> None:
    for _ in range(3):
        with pytest.raises(UnusableRecordingError) as caught:
            read(data)
        assert ACCEPTED in caught.value.message
    assert read(written(tone())).seconds == pytest.approx(2.0)


def test_a_chain_of_the_same_kind_is_one_recording(read: Read) -> None:
    assert read(chained(1, 1)).seconds == pytest.approx(4.0, abs=0.1)


def test_what_is_beside_the_sound_does_no_harm(read: Read) -> None:
    """A film, and a tag that is not in UTF-8."""
    assert read(film(sound=True)).seconds == pytest.approx(2.0, abs=0.1)
    data = written(tone())
    tag = b"LIST" + (20).to_bytes(4, "little") + b"INFOINAM" + (8).to_bytes(4, "little") + b"Zo\xeb\xff\xfe \xe9\0"
    tagged = data[:36] + tag + data[36:]
    assert read(tagged).seconds == pytest.approx(2.0, abs=0.1)


def test_no_damage_brings_more_than_a_refusal(read: Read) -> None:
    """The short form of tests/faults/test_recordings.py."""
    chance = random.Random(1)
    recordings = list(corpus().values())
    for number in range(124):
        try:
            recording = read(mutated(recordings[number % len(recordings)], chance))
        except UnusableRecordingError:
            continue
        assert np.isfinite(recording.pcm).all()
        assert 1.0 <= recording.seconds <= 30.0
        assert np.abs(recording.pcm).max() <= 1.0
