"""Recordings for tests: the formats that people send, files that lie about their size, and damage."""

from __future__ import annotations

import io
import random
import struct

import av
import numpy as np
import soundfile

TONE = 440.0
# Container, codec, channels and rate: FFmpeg reads them, and they are not on the list.
REFUSED_CODECS = (
    ("matroska", "ac3", "stereo", 48_000),
    ("matroska", "mp2", "mono", 48_000),
    ("matroska", "wavpack", "mono", 24_000),
    ("matroska", "tta", "mono", 24_000),
    ("mov", "adpcm_ima_qt", "mono", 24_000),
    ("wav", "adpcm_yamaha", "mono", 24_000),
    ("wav", "g722", "mono", 16_000),
)


def tone(seconds: float = 2.0, rate: int = 48_000, level: float = 0.5, channels: int = 1) -> np.ndarray:
    """A sine of TONE Hz, float32 [samples] or [samples, channels]."""
    wave = (level * np.sin(2 * np.pi * TONE * np.arange(round(seconds * rate)) / rate)).astype(np.float32)
    return wave if channels == 1 else np.stack([wave] * channels, axis=1)


def written(samples: np.ndarray, rate: int = 48_000, container: str = "WAV", codec: str | None = None) -> bytes:
    """A file by libsndfile."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=codec)
    return file.getvalue()


def muxed(samples: np.ndarray, container: str, codec: str, rate: int = 48_000, layout: str = "mono") -> bytes:
    """A file by FFmpeg, for what libsndfile does not write. `samples`: [samples], one channel, mixed into `layout`."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate)
        stream.layout = layout
        # Some encoders take blocks of one size only.
        size = stream.codec_context.frame_size or 4_096
        convert = av.AudioResampler(stream.format, layout, rate, frame_size=size)
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="fltp", layout="mono")
        frame.sample_rate = rate
        for part in (*convert.resample(frame), *convert.resample(None)):
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    return file.getvalue()


def many_samples(claimed: int = 88_000_000) -> bytes:
    """An MP4 of 25 KB whose tables claim `claimed` samples: FFmpeg keeps 24 bytes or more for each."""
    data = bytearray(muxed(tone(1.0), "mp4", "aac"))
    for name, values in ((b"stsz", (1, claimed)), (b"stts", (1, claimed)), (b"stsc", (1, 1, claimed))):
        place = data.index(name) + 8  # after version and flags
        struct.pack_into(f">{len(values)}I", data, place, *values)
    return bytes(data)


def giant_frame(claimed: int = 16_700_000) -> bytes:
    """An MP4 of ALAC in six channels, a frame of which claims `claimed` samples."""
    data = bytearray(muxed(tone(1.0, 24_000), "mp4", "alac", 24_000, "5.1"))
    struct.pack_into(">I", data, data.rindex(b"alac") + 8, claimed)
    return bytes(data)


def corpus() -> dict[str, bytes]:
    """Short recordings in every container and codec that is accepted, and in some that are not, by name."""
    found = {}
    for container, codecs in {
        "WAV": "PCM_U8 PCM_16 PCM_24 PCM_32 FLOAT DOUBLE ULAW ALAW MS_ADPCM IMA_ADPCM GSM610",
        "W64": "PCM_16",
        "AIFF": "PCM_S8 PCM_16 FLOAT",
        "CAF": "PCM_16 ALAC_16",
        "FLAC": "PCM_16 PCM_24",
        "OGG": "VORBIS OPUS",
        "MP3": "MPEG_LAYER_III",
        "AU": "PCM_16",
    }.items():
        for codec in codecs.split():
            found[f"{container}-{codec}"] = written(tone(1.2, 24_000), 24_000, container, codec)
    for channels in range(2, 9):
        for container in ("WAV", "FLAC", "OGG"):
            found[f"{container}-{channels}"] = written(tone(1.2, 24_000, channels=channels), 24_000, container)
    for container, codec, layout, rate in (
        ("mp4", "aac", "mono", 48_000),
        ("mp4", "aac", "7.1", 48_000),
        ("mp4", "alac", "stereo", 48_000),
        ("adts", "aac", "stereo", 24_000),
        ("webm", "libopus", "mono", 48_000),
        ("matroska", "alac", "mono", 24_000),
        ("mov", "pcm_s16be", "stereo", 24_000),
        ("ogg", "libopus", "7.1", 48_000),
        *REFUSED_CODECS,
    ):
        found[f"{container}-{codec}-{layout}"] = muxed(tone(1.2, rate), container, codec, rate, layout)
    found["ogg-chained"] = found["OGG-VORBIS"] + found["OGG-2"]
    found["many-samples"] = many_samples()
    found["giant-frame"] = giant_frame()
    return found


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` with damage of one to eight kinds; half of it in the first 512 bytes, where headers are."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if not made:
            break
        place = chance.randrange(min(len(made), 512) if chance.random() < 0.5 else len(made))
        kind = chance.randrange(6)
        if kind == 0:
            made[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            value = chance.choice((0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, chance.getrandbits(32)))
            made[place : place + 4] = value.to_bytes(4, chance.choice(("little", "big")))
        elif kind == 2:
            del made[place : place + chance.randint(1, 64)]
        elif kind == 3:
            made[place:place] = chance.randbytes(chance.randint(1, 64))
        elif kind == 4:
            other = chance.randrange(len(made))
            made[place : place + 64] = made[other : other + 64]
        else:
            del made[max(place, 64) :]
    return bytes(made)
