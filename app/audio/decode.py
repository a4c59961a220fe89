"""Recordings that people send: whatever FFmpeg's libraries read, down to mono samples at one rate.

What is decoded is bounded while it is decoded: a small file can hold hours, or a rate that nobody can hear. Only
audio formats are opened, and none of them may open another file or address.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import av
import numpy as np
import numpy.typing as npt
import soxr
from av.container import InputContainer

from app.audio.resample import MIN_RATE
from app.errors import UnusableRecordingError

MAX_RATE: Final = 192_000
MAX_CHANNELS: Final = 8
# A louder sample than this must be in a recording: microphones make more noise than that.
SILENCE: Final = 1e-3

# FFmpeg's names of demuxers and decoders.
_CONTAINERS: Final = "wav,w64,aiff,caf,flac,mp3,ogg,aac,mov,mp4,m4a,3gp,matroska,webm"
_CODECS: Final = (
    "pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,"
    "pcm_alaw,pcm_mulaw,adpcm_ms,adpcm_ima_wav,flac,alac,mp3,mp3float,vorbis,opus,libopus,aac"
)
_READABLE: Final = "WAV, FLAC, MP3, Ogg (Opus or Vorbis), AAC, MP4 (AAC or ALAC), WebM, AIFF and CAF"


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """`pcm`: float32 mono [samples] in [-1, 1] at `sample_rate`. `cut`: the file held more."""

    pcm: npt.NDArray[np.float32]
    sample_rate: int
    cut: bool = False

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.pcm.size / self.sample_rate


def decode(data: bytes, *, sample_rate: int, min_seconds: float, max_seconds: float) -> Recording:
    """Decode a recording, mix its channels to one and resample it; what lies beyond `max_seconds` is not decoded.

    Blocks. Raises UnusableRecordingError with the reason: no audio, an unknown or damaged file, too many channels, a
    rate outside [8000, 192000] Hz, silence, or less than `min_seconds`.
    """
    try:
        with av.open(
            io.BytesIO(data),
            "r",
            container_options={"format_whitelist": _CONTAINERS, "codec_whitelist": _CODECS},
            io_open=_refuse_to_open,
        ) as container:
            pcm, rate, cut = _decode(container, max_seconds)
    except UnusableRecordingError:
        raise
    except (OSError, ValueError, EOFError, LookupError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UnusableRecordingError(f"The recording cannot be read: {reason}. Accepted are {_READABLE}.") from error
    pcm = np.clip(np.nan_to_num(pcm, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)
    if rate != sample_rate:
        pcm = np.clip(soxr.resample(pcm, rate, sample_rate), -1.0, 1.0).astype(np.float32)
    recording = Recording(pcm, sample_rate, cut)
    if recording.seconds < min_seconds:
        raise UnusableRecordingError(
            f"The recording has {recording.seconds:.2f} seconds of audio; at least {min_seconds:g} are needed."
        )
    if float(np.abs(pcm).max()) < SILENCE:
        raise UnusableRecordingError("The recording is silent.")
    return recording


def _decode(container: InputContainer, max_seconds: float) -> tuple[npt.NDArray[np.float32], int, bool]:
    """Samples [n] of the first audio stream, their rate, and whether there was more."""
    if not container.streams.audio:
        raise UnusableRecordingError("The recording has no audio in it.")
    stream = container.streams.audio[0]
    rate, channels = stream.rate or 0, stream.channels
    if not MIN_RATE <= rate <= MAX_RATE:
        raise UnusableRecordingError(
            f"The recording has a sample rate of {rate} Hz; accepted is {MIN_RATE} to {MAX_RATE} Hz."
        )
    if not 1 <= channels <= MAX_CHANNELS:
        raise UnusableRecordingError(f"The recording has {channels} channels; at most {MAX_CHANNELS} are accepted.")
    wanted = round(max_seconds * rate)
    # The sample format only: the rate is soxr's to change, and FFmpeg would add channels up until they clip.
    plane = av.AudioResampler(format="fltp")
    parts: list[npt.NDArray[np.float32]] = []
    size = 0
    for frame in container.decode(stream):
        for planes in plane.resample(frame):
            samples = planes.to_ndarray().mean(axis=0, dtype=np.float32)
            parts.append(samples)
            size += samples.size
        if size > wanted:
            break
    pcm = np.concatenate(parts)[:wanted] if parts else np.empty(0, np.float32)
    return pcm, rate, size > wanted


def _refuse_to_open(url: str, flags: int, options: dict[str, Any]) -> NoReturn:
    raise UnusableRecordingError("The recording refers to another file.")
