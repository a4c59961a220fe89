"""One interface over every output format: float32 in, bytes of ONE continuous stream out, as soon as there are any.

A stream does not say how long it is. Audio that is encoded whole does: WAV in its sizes, FLAC in its number of samples,
with their MD5. (Ogg says it in its last page. MP3 and AAC stay plain sequences of frames, which clients join.)

WAV and PCM are written here; FLAC, MP3, Ogg Opus, AAC (ADTS) and the two laws of ITU-T G.711 (mu-law, A-law) by
FFmpeg's libraries through PyAV. Not safe for calls from two threads at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal, Protocol, get_args

import av
import numpy as np
import numpy.typing as npt
from av.audio.stream import AudioStream
from av.container import OutputContainer

from app.audio.pcm import Coding, to_int16, wav_header
from app.audio.resample import MAX_RATE, MIN_RATE, Resampler
from app.errors import UnsupportedFormatError
from app.threads import REQUESTS

Format = Literal["wav", "pcm", "flac", "mp3", "opus", "aac", "mulaw", "alaw"]
FORMATS: tuple[Format, ...] = get_args(Format)
# Container of mu-law and A-law.
Container = Literal["none", "wav"]

# Coding of the samples behind a WAV header.
CODINGS: dict[Format, Coding] = {"mulaw": "mulaw", "alaw": "alaw"}

Float32 = npt.NDArray[np.float32]


class StreamEncoder(Protocol):
    """Encoder of one stream.

    `encode` returns the bytes that are ready, maybe none. `finish` returns the rest; after it neither may be called.
    `quick`: both only round and copy.
    """

    @property
    def quick(self) -> bool: ...

    def encode(self, pcm: Float32) -> bytes: ...

    def finish(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """Properties of a format: media type, and the sample rates (Hz) that it carries; None: any in [8000, 48000].

    `usual_rate`: rate (Hz) where the request names none; None: the model's. `container`, `codec` and `sample_format`
    are FFmpeg's names. `bit_rate`: bit/s where the request names none.
    """

    media_type: str
    rates: tuple[int, ...] | None = None
    container: str = ""
    codec: str = ""
    sample_format: str = ""
    bit_rate: int = 0
    usual_rate: int | None = None


# kbit/s of MPEG audio layer III: ISO/IEC 11172-3 from 32 kHz on, 13818-3 from 16 kHz on, below that LAME's own.
_MPEG_1_KBITS = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG_2_KBITS = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MPEG_25_KBITS = (8, 16, 24, 32, 40, 48, 56, 64)
# Range of Opus in kbit/s: RFC 6716, section 2.1.1, and libopus's limit for one channel.
_OPUS_KBITS = (6, 256)
# Range of AAC from the first, in kbit/s, to the second, in bits a sample: FFmpeg's encoder keeps to it within a fifth.
_AAC_RANGE = (16, 4)

# The MPEG rates are those of the three MPEG audio versions; Opus's are RFC 6716's.
_MPEG_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
INFO: dict[Format, FormatInfo] = {
    "wav": FormatInfo("audio/wav"),
    "pcm": FormatInfo("audio/pcm"),
    "flac": FormatInfo("audio/flac", None, "flac", "flac", "s16"),
    "mp3": FormatInfo("audio/mpeg", _MPEG_RATES, "mp3", "libmp3lame", "fltp", 96_000),
    "opus": FormatInfo("audio/ogg", (8000, 12000, 16000, 24000, 48000), "ogg", "libopus", "flt", 48_000),
    "aac": FormatInfo("audio/aac", _MPEG_RATES, "adts", "aac", "fltp", 96_000),
    # Telephones carry 8 bits a sample, at 8 kHz unless both ends agree on more.
    "mulaw": FormatInfo("audio/basic", None, "mulaw", "pcm_mulaw", "s16", usual_rate=8000),
    "alaw": FormatInfo("audio/PCMA", None, "alaw", "pcm_alaw", "s16", usual_rate=8000),
}


def check_format(name: str) -> Format:
    """Return `name` if it is a format. Raises UnsupportedFormatError, which lists them."""
    for known in FORMATS:
        if known == name:
            return known
    raise UnsupportedFormatError(f"Unknown audio format {name[:40]!r}; accepted are: {', '.join(FORMATS)}.")


def check_rate(name: Format, rate: int) -> int:
    """Return `rate` if format `name` carries it. Raises UnsupportedFormatError with the accepted values."""
    rates = INFO[name].rates
    if rates is None and not MIN_RATE <= rate <= MAX_RATE:
        raise UnsupportedFormatError(
            f"Sample rate {rate} is out of range for {name}; accepted is {MIN_RATE} to {MAX_RATE} Hz.",
            param="sample_rate",
        )
    if rates is not None and rate not in rates:
        raise UnsupportedFormatError(
            f"Sample rate {rate} does not exist in {name}; accepted are: {', '.join(map(str, rates))}.",
            param="sample_rate",
        )
    return rate


def check_bit_rate(name: Format, rate: int, kbits: int) -> int:
    """Return `kbits`, in kbit/s, as bit/s if format `name` has it at `rate` Hz.

    Raises UnsupportedFormatError with the accepted values.
    """
    if name == "opus":
        least, most = _OPUS_KBITS
        if least <= kbits <= most:
            return kbits * 1000
        accepted = f"{least} to {most}"
    elif name == "aac":
        least, most = _AAC_RANGE[0], _AAC_RANGE[1] * rate // 1000
        if least <= kbits <= most:
            return kbits * 1000
        accepted = f"{least} to {most}"
    elif name == "mp3":
        known = _MPEG_1_KBITS if rate >= 32_000 else _MPEG_2_KBITS if rate >= 16_000 else _MPEG_25_KBITS
        if kbits in known:
            return kbits * 1000
        accepted = ", ".join(map(str, known))
    else:
        raise UnsupportedFormatError(f"{name} has no bit rate to choose.", param="bit_rate")
    raise UnsupportedFormatError(
        f"{name} at {rate} Hz has no bit rate of {kbits} kbit/s; accepted are: {accepted}.", param="bit_rate"
    )


def choose_rate(name: Format, own: int, asked: int | None) -> int:
    """Return the rate in Hz of a stream: `asked`, else the usual rate of format `name`, else `own`, the model's.

    Raises UnsupportedFormatError.
    """
    if asked is None:
        asked = INFO[name].usual_rate or own
    return check_rate(name, asked)


def make_encoder(
    name: Format,
    source_rate: int,
    rate: int | None = None,
    container: Container = "none",
    bit_rate: int | None = None,
    *,
    whole: bool = False,
) -> StreamEncoder:
    """Return an encoder for mono audio.

    Args:
        name: format of the bytes.
        source_rate: sample rate of the audio, in Hz.
        rate: sample rate of the bytes, in Hz; default: `choose_rate`.
        container: "wav" puts a header before mu-law or A-law; other formats have their own.
        bit_rate: bit/s, as `check_bit_rate` returns it. MP3 has it in every frame, Opus and AAC on average.
        whole: the bytes may all come from `finish`, and their headers are exact.

    Raises:
        UnsupportedFormatError: the format does not carry the rate.
    """
    rate = choose_rate(name, source_rate, rate)
    inner: StreamEncoder = _Raw() if name in ("pcm", "wav") else _Compressed(INFO[name], rate, bit_rate, whole)
    coding: Coding | None = "pcm" if name == "wav" else CODINGS.get(name) if container == "wav" else None
    if coding is not None:
        inner = _Headed(partial(wav_header, rate, coding=coding), inner, whole)
    return inner if rate == source_rate else _Resampled(inner, Resampler(source_rate, rate))


class _Raw:
    """Encoder of 16-bit little-endian samples."""

    quick = True

    def encode(self, pcm: Float32) -> bytes:
        return to_int16(pcm).tobytes()

    def finish(self) -> bytes:
        return b""


class _Headed:
    """Encoder that puts a header before the bytes of `inner`, even where there are none.

    `make` returns the header for a number of samples; None: not known yet. With `whole` it is known, since all bytes
    come in the end.
    """

    def __init__(self, make: Callable[[int | None], bytes], inner: StreamEncoder, whole: bool) -> None:
        self.quick = inner.quick
        self._make = make
        self._inner = inner
        self._parts: list[bytes] | None = [] if whole else None
        self._header = b"" if whole else make(None)
        self._samples = 0

    def encode(self, pcm: Float32) -> bytes:
        self._samples += pcm.size
        data = self._inner.encode(pcm)
        if self._parts is None:
            return self._take() + data
        self.quick = self.quick and self._samples <= INLINE_SAMPLES  # the end joins all of them
        self._parts.append(data)
        return b""

    def finish(self) -> bytes:
        data = self._inner.finish()
        if self._parts is None:
            return self._take() + data
        return b"".join((self._make(self._samples), *self._parts, data))

    def _take(self) -> bytes:
        header, self._header = self._header, b""
        return header


class _Resampled:
    """Encoder that resamples before `inner`."""

    quick = False

    def __init__(self, inner: StreamEncoder, resampler: Resampler) -> None:
        self._inner = inner
        self._resampler = resampler

    def encode(self, pcm: Float32) -> bytes:
        return self._inner.encode(self._resampler.push(pcm))

    def finish(self) -> bytes:
        rest = self._resampler.push(np.empty(0, np.float32), last=True)
        return self._inner.encode(rest) + self._inner.finish()


class _Sink(io.RawIOBase):
    """File that FFmpeg can only append to: muxers then write nothing that they would have to correct later."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


class _Compressed:
    """Encoder of any FFmpeg codec in any streamable container."""

    quick = False

    def __init__(self, info: FormatInfo, rate: int, bit_rate: int | None, whole: bool) -> None:
        # A muxer goes back in a file to write the length into its head.
        self._sink = io.BytesIO() if whole else _Sink()
        options = {"write_xing": "0", "id3v2_version": "0", "page_duration": "100000", "flush_packets": "1"}
        accepted = {"mp3": ("write_xing", "id3v2_version"), "ogg": ("page_duration",)}.get(info.container, ())
        self._container: OutputContainer = av.open(
            self._sink,
            "w",
            format=info.container,
            container_options={key: options[key] for key in (*accepted, "flush_packets")},
            buffer_size=4096,
        )
        stream = self._container.add_stream(info.codec, rate=rate)
        if not isinstance(stream, AudioStream):
            raise TypeError(f"{info.codec} is not an audio codec")
        stream.layout = "mono"
        stream.format = info.sample_format
        if bit_rate or info.bit_rate:
            stream.bit_rate = bit_rate or info.bit_rate
        self._stream = stream
        self._rate = rate
        self._position = 0
        self._format = info.sample_format

    def encode(self, pcm: Float32) -> bytes:
        if pcm.size:
            samples = to_int16(pcm) if self._format == "s16" else np.clip(np.nan_to_num(pcm, nan=0.0), -1.0, 1.0)
            frame = av.AudioFrame.from_ndarray(samples[np.newaxis, :], format=self._format, layout="mono")
            frame.sample_rate = self._rate
            frame.pts = self._position
            frame.time_base = Fraction(1, self._rate)
            self._position += pcm.size
            self._container.mux(self._stream.encode(frame))
        return self._sink.take() if isinstance(self._sink, _Sink) else b""

    def finish(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take() if isinstance(self._sink, _Sink) else self._sink.getvalue()


# Two seconds at 24 kHz: some tens of microseconds for encoders that only round.
INLINE_SAMPLES = 48_000


async def encode(encoder: StreamEncoder, pcm: Float32 | None, *, last: bool = False) -> bytes:
    """Return `pcm` encoded, and the end of the stream with `last` or without `pcm`."""

    def work() -> bytes:
        begun = b"" if pcm is None else encoder.encode(pcm)
        return begun + encoder.finish() if last or pcm is None else begun

    if encoder.quick and (pcm is None or pcm.size <= INLINE_SAMPLES):
        return work()
    return await REQUESTS.run(work)
