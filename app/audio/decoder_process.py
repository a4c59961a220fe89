"""Program that decodes recordings for the server: FFmpeg's libraries read them here, where they may crash.

`app.audio.decode` runs this file and speaks to it through pipes. A request is REQUEST and then the bytes of the
recording; a reply is REPLY and then float32 mono samples, or the reason of a refusal in UTF-8. The program ends at the
end of its input. It imports little of `app`, so that it starts fast and stays small.

Limits hold it: memory and CPU time for each recording, no file written, no file opened, no core dumped.
"""

from __future__ import annotations

import io
import struct
from typing import Any, Final, NoReturn

import av

# PyAV imports these once a file has such a stream. It cannot then: no file may be opened.
import av.subtitles.codeccontext
import av.subtitles.stream
import av.video.codeccontext
import av.video.stream
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer

from app.audio.resample import Mixer, Resampler, Samples
from app.isolation.limits import enter, has_memory

MIN_RATE: Final = 8_000
MAX_RATE: Final = 192_000
MAX_CHANNELS: Final = 8
ACCEPTED: Final = "WAV, FLAC, MP3, Ogg (Opus or Vorbis), AAC, MP4 (AAC or ALAC), WebM, AMR, AIFF and CAF"
TOO_MUCH: Final = (
    f"The recording cannot be read: it is damaged, or takes too much memory or time. Accepted are {ACCEPTED}."
)

# Size of the recording in bytes, rate of the samples in Hz, most seconds of them.
REQUEST: Final = struct.Struct("<QId")
# Kind, whether the process takes another recording, size of the rest in bytes.
REPLY: Final = struct.Struct("<B?Q")
WHOLE, CUT, REFUSED = 0, 1, 2
MAX_REASON: Final = 1_000

# Seconds of CPU time for one recording, and for each decoded second of it: ten times the usual.
CPU_SECONDS: Final = 5.0
CPU_SHARE: Final = 0.1
# Bytes for one recording, beside the recording and its samples.
MEMORY: Final = 256 << 20
# Recordings for one process: memory that the libraries leak ends with it.
RECORDINGS: Final = 100

# FFmpeg's names of demuxers and decoders.
_CONTAINERS: Final = "wav,w64,aiff,caf,flac,mp3,ogg,aac,mov,mp4,m4a,3gp,matroska,webm,amr"
_CODECS: Final = (
    "pcm_u8,pcm_s8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,"
    "pcm_f64be,pcm_alaw,pcm_mulaw,adpcm_ms,adpcm_ima_wav,flac,alac,mp3,mp3float,vorbis,opus,libopus,aac,amrnb,amrwb"
)


class RefusedError(Exception):
    """Raised for a recording that cannot be used. The message is written for the person who sent it."""


def decode(data: bytes, sample_rate: int, max_seconds: float) -> tuple[Samples, bool]:
    """Decode the first audio stream, mix its channels to one and resample it.

    Returns float32 samples [n] in [-1, 1] at `sample_rate`, and whether the recording is longer than `max_seconds`.
    The rest is not decoded. Raises RefusedError, and the errors of FFmpeg's libraries for damaged files.
    """
    with av.open(
        io.BytesIO(data),
        "r",
        container_options={"format_whitelist": _CONTAINERS, "codec_whitelist": _CODECS},
        io_open=_refuse_to_open,
        metadata_errors="replace",
    ) as container:
        # FFmpeg names some formats by all their names: "matroska,webm".
        if not set(container.format.name.split(",")) & set(_CONTAINERS.split(",")):
            raise RefusedError(f"The recording is in the format '{container.format.name}'. Accepted are {ACCEPTED}.")
        return _decode_stream(container, _audio_stream(container), sample_rate, max_seconds)


def _audio_stream(container: InputContainer) -> AudioStream:
    if not container.streams.audio:
        raise RefusedError("The recording has no audio in it.")
    stream = container.streams.audio[0]
    # FFmpeg's own list of codecs does not reach this decoder. There is none for a codec that FFmpeg does not know.
    codec = getattr(stream.codec_context, "name", "unknown")
    if codec not in _CODECS.split(","):
        raise RefusedError(f"The recording has the codec '{codec}'. Accepted are {ACCEPTED}.")
    stream.codec_context.thread_count = 1
    return stream


def _check(rate: int, channels: int) -> None:
    if not MIN_RATE <= rate <= MAX_RATE:
        raise RefusedError(f"The recording has a sample rate of {rate} Hz; accepted is {MIN_RATE} to {MAX_RATE} Hz.")
    if not 1 <= channels <= MAX_CHANNELS:
        raise RefusedError(f"The recording has {channels} channels; at most {MAX_CHANNELS} are accepted.")


def _decode_stream(
    container: InputContainer, stream: AudioStream, sample_rate: int, max_seconds: float
) -> tuple[Samples, bool]:
    # The sample format only: the rate is soxr's to change, and FFmpeg would add channels up until they clip.
    # Interleaved: PyAV reads past the end of eight planes.
    interleave = av.AudioResampler(format="flt")
    collected: Collected | None = None
    first = 0, 0
    for frame in container.decode(stream):
        found = frame.sample_rate, frame.layout.nb_channels
        if collected is None:
            # The container may have said otherwise; the decoder knows.
            _check(*found)
            first, collected = found, Collected(*found, sample_rate, max_seconds)
        elif found != first:
            raise RefusedError("The recording changes its sample rate or its channels in the middle.")
        for part in interleave.resample(frame):
            collected.put(np.asarray(part.to_ndarray(), np.float32).reshape(-1, found[1]))
        if collected.missing < 0:
            break
    if collected is None:
        raise RefusedError(f"The recording has no audio that can be read. Accepted are {ACCEPTED}.")
    return collected.finish(), collected.missing < 0


class Collected:
    """Samples of a recording, mixed and resampled as they come. Memory holds the result and one second besides.

    `missing` counts the samples that are still wanted; it is negative once the recording is too long. Rates, `source`
    that of the recording and `target` that of the result, in Hz.
    """

    def __init__(self, source: int, channels: int, target: int, max_seconds: float) -> None:
        self.missing = round(max_seconds * source)
        self._channels, self._mixer = channels, Mixer()
        self._resampler = Resampler(source, target)
        self._second = source
        self._parts: list[Samples] = []
        self._waiting = 0
        self._pcm = np.empty(round(max_seconds * target), np.float32)
        self._size = 0

    def put(self, samples: Samples) -> None:
        """Add samples [n, channels]."""
        self._parts.append(samples[: max(0, self.missing)])
        self.missing -= len(samples)
        self._waiting += len(samples)
        if self._waiting >= self._second:
            self._resample()

    def finish(self) -> Samples:
        """Return all samples."""
        self._resample(last=True)
        return self._pcm[: self._size]

    def _resample(self, *, last: bool = False) -> None:
        samples = self._mixer.mix(np.concatenate([np.empty((0, self._channels), np.float32), *self._parts]))
        self._parts.clear()
        self._waiting = 0
        samples = np.clip(np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)
        samples = np.clip(self._resampler.push(samples, last=last), -1.0, 1.0)
        kept = samples[: self._pcm.size - self._size]
        self._pcm[self._size : self._size + kept.size] = kept
        self._size += kept.size


def _refuse_to_open(url: str, flags: int, options: dict[str, Any]) -> NoReturn:
    raise RefusedError("The recording refers to another file.")


def answer(data: bytes, sample_rate: int, max_seconds: float) -> tuple[int, bytes]:
    """Return the kind of the reply to one recording, and its bytes."""
    try:
        pcm, cut = decode(data, sample_rate, max_seconds)
        return CUT if cut else WHOLE, pcm.tobytes()
    except RefusedError as error:
        reason = str(error)
    except MemoryError:
        reason = TOO_MUCH
    except Exception as error:
        # Every exception: a damaged file makes PyAV raise some that its documentation does not name.
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = f"The recording cannot be read: {said}. Accepted are {ACCEPTED}."
    return REFUSED, reason.encode("utf-8", "replace")[:MAX_REASON]


def main() -> None:
    """Answer requests until the input ends, or this process should take no more."""
    limits = enter()
    for count in range(1, RECORDINGS + 1):
        head = limits.requests.read(REQUEST.size)
        if len(head) < REQUEST.size:
            return
        size, sample_rate, max_seconds = REQUEST.unpack(head)
        memory = MEMORY + 2 * size + 16 * round(max_seconds * sample_rate)
        limits.begin(memory, CPU_SECONDS + CPU_SHARE * max_seconds)
        kind, rest = answer(limits.requests.read(size), sample_rate, max_seconds)
        limits.end()
        more = count < RECORDINGS and has_memory(memory // 2)
        limits.replies.write(REPLY.pack(kind, more, len(rest)) + rest)
        limits.replies.flush()
        if not more:
            return


if __name__ == "__main__":
    main()
