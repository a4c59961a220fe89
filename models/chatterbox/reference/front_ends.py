"""Resamplers, loudness, mel spectrograms and filterbanks: the inputs of the networks that hear a recording.

Of the two resamplers each is used where the reference uses it: the encoders' results depend on it. librosa's (soxr,
high quality) brings a recording to 24 kHz and, for T3's prompt and its voice encoder, to 16 kHz. torchaudio's (a sinc
cut off by a Hann window, whose transition band starts well below the lower Nyquist frequency) makes the 16 kHz for
S3Gen's tokenizer and speaker encoder: with another one the speaker vector is another.

Turbo's recordings are set to a fixed integrated loudness (ITU-R BS.1770-4). Weighting is by the two biquads of
pyloudnorm, which the reference package uses (Bristow-Johnson's cookbook: a shelf of 4 dB at 1.5 kHz, a high pass at
38 Hz), then blocks of 400 ms every 100, gated at -70 LUFS and at 10 below their mean. The biquads are applied as a
product of spectra: their responses die out within the silence appended.

Kaldi's log filterbanks are CAM++'s input: frames of 25 ms every 10, whole ones only, without dither. Pcm is not scaled
to 16 bits.

Sources: librosa 0.11 core/audio.py `resample`; torchaudio 2.11 functional.py `resample`, after Smith, "Digital Audio
Resampling", ccrma.stanford.edu/~jos/resample; chatterbox 0.1.7 models/s3gen/utils/mel.py,
models/s3tokenizer/s3tokenizer.py, models/voice_encoder/melspec.py, and models/s3gen/xvector.py `extract_feature`;
torchaudio 2.11 compliance/kaldi.py `fbank` with its defaults but 80 bins, itself after Kaldi's feat/feature-fbank.cc.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import soxr
from numpy.lib.stride_tricks import sliding_window_view

from models.layers.mel import Doubles, Floats, MelBank

_ZEROS = 6  # zero crossings of the sinc on either side
_ROLLOFF = 0.99  # of the lower Nyquist frequency
_RATE, _FRAME, _HOP, _POINTS = 16_000, 400, 160, 512
_LOW = 20.0
_EMPHASIS = 0.97
_FLOOR = float(np.finfo(np.float32).eps)
BLOCK = 0.4  # seconds
_STEP = 0.25  # of a block
_SILENCE = -70.0  # LUFS
_OFFSET = -0.691
_TAIL = 0.25  # seconds after which the slower biquad, of 4 ms, is below any rounding

Pair = tuple[list[float], list[float]]


def resample_soxr(pcm: Floats, source: int, target: int) -> Floats:
    """Resample pcm [N] from `source` to `target` Hz -> [ceil(N * target / source)]."""
    if source == target:
        return pcm
    size = -(-len(pcm) * target // source)
    found: Floats = soxr.resample(pcm, source, target, quality="HQ")[:size]
    return np.pad(found, (0, size - len(found)))


def resample_hann(pcm: Floats, source: int, target: int) -> Floats:
    """Resample pcm [N] from `source` to `target` Hz -> [ceil(N * target / source)]; silence beyond both ends."""
    if source == target:
        return pcm
    common = math.gcd(source, target)
    step, phases = source // common, target // common
    kernel, width = _hann_kernel(step, phases)
    padded = np.pad(pcm, (width, width + step))
    rows = sliding_window_view(padded, len(kernel))[::step]
    found: Floats = (rows @ kernel).reshape(-1)
    return found[: -(-len(pcm) * phases // step)]


@lru_cache(maxsize=8)
def _hann_kernel(step: int, phases: int) -> tuple[Floats, int]:
    """Return taps [K, phases] for each output phase of `step` input samples, and how many precede the first."""
    cutoff = min(step, phases) * _ROLLOFF
    width = math.ceil(_ZEROS * step / cutoff)
    offsets = np.arange(-width, width + step) / step
    # The phases are divided in single precision, as the reference does.
    starts = (np.arange(0, -phases, -1, dtype=np.float32) / np.float32(phases)).astype(np.float64)
    at = np.clip((starts[:, None] + offsets) * cutoff, -_ZEROS, _ZEROS)
    taps = np.sinc(at) * np.cos(at * (math.pi / _ZEROS / 2)) ** 2 * (cutoff / step)
    return np.ascontiguousarray(taps.T.astype(np.float32)), width


def prompt_mel(pcm: Floats, mels: int = 80) -> Floats:
    """Return S3Gen's log-mel of 24 kHz pcm [N], [N // 480, mels]; frames are centered on half a hop."""
    bank = MelBank(24_000, 1920, 480, mels, (1920 - 480) // 2)
    found: Floats = np.log(np.maximum(bank.spectrogram(pcm, lambda power: np.sqrt(power + 1e-9)), np.float32(1e-5)))
    return found


def token_mel(pcm: Floats, mels: int = 128) -> Floats:
    """Return the tokenizer's log-mel of 16 kHz pcm [N], [N // 160, mels], within 8 decades of its loudest value."""
    bank = MelBank(16_000, 400, 160, mels, 200)
    log = np.log10(np.maximum(bank.spectrogram(pcm)[:-1], np.float32(1e-10)))
    found: Floats = (np.maximum(log, log.max() - 8) + 4) / 4
    return found


def voice_mel(pcm: Floats, mels: int = 40) -> Floats:
    """Return the voice encoder's mel power of 16 kHz pcm [N], [1 + N // 160, mels], linear."""
    bank = MelBank(16_000, 400, 160, mels, 200)
    return bank.spectrogram(pcm)


def kaldi_fbank(pcm: Floats, mels: int = 80) -> Floats:
    """Transform 16 kHz pcm [N], N >= 400, to [1 + (N - 400) // 160, mels], each bin's mean over time removed."""
    frames = sliding_window_view(pcm.astype(np.float64), _FRAME)[::_HOP]
    frames = frames - frames.mean(axis=1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    # Povey's window: Hann's to a power, without its wide skirts.
    window = (0.5 - 0.5 * np.cos(2 * math.pi * np.arange(_FRAME) / (_FRAME - 1))) ** 0.85
    spectrum = np.fft.rfft((frames - _EMPHASIS * before) * window, _POINTS)
    power = spectrum.real**2 + spectrum.imag**2
    log = np.log(np.maximum(power @ _filters(mels), _FLOOR))
    found: Floats = (log - log.mean(axis=0)).astype(np.float32)
    return found


@lru_cache(maxsize=4)
def _filters(mels: int) -> Doubles:
    """Return triangles equally wide in mels (1127 ln(1 + f / 700)), of height one: [257, mels]; none at Nyquist."""
    low, high = (1127.0 * math.log1p(frequency / 700.0) for frequency in (_LOW, _RATE / 2))
    corners = np.linspace(low, high, mels + 2)
    bins = 1127.0 * np.log1p(np.arange(_POINTS // 2 + 1) * (_RATE / _POINTS) / 700.0)[:, None]
    rising = (bins - corners[:-2]) / (corners[1:-1] - corners[:-2])
    falling = (corners[2:] - bins) / (corners[2:] - corners[1:-1])
    found: Doubles = np.maximum(0.0, np.minimum(rising, falling))
    return found


def set_loudness(pcm: Floats, rate: int, target: float) -> Floats:
    """Set the loudness of pcm [N] at `rate` Hz to `target` LUFS; leave it if no block is louder than -70 LUFS."""
    loudness = integrated_loudness(pcm, rate)
    return pcm * np.float32(10 ** ((target - loudness) / 20)) if math.isfinite(loudness) else pcm


def integrated_loudness(pcm: Floats, rate: int) -> float:
    """Return the gated loudness in LUFS of pcm [N] at `rate` Hz, N at least a block; minus infinity for silence."""
    weighted = _weight(pcm.astype(np.float64), rate)
    count = int(np.round((len(pcm) / rate - BLOCK) / (BLOCK * _STEP))) + 1
    starts = np.arange(count) * _STEP
    first = (BLOCK * starts * rate).astype(int)
    last = np.minimum((BLOCK * (starts + 1) * rate).astype(int), len(pcm))
    energy = np.concatenate([[0.0], np.cumsum(weighted**2)])
    power = (energy[last] - energy[first]) / (BLOCK * rate)
    loud = power >= 10 ** ((_SILENCE - _OFFSET) / 10)
    if not loud.any():
        return -math.inf
    gate = power[loud].mean() / 10
    return _OFFSET + 10 * math.log10(power[loud & (power > gate)].mean())


def _weight(pcm: Doubles, rate: int) -> Doubles:
    size = 1 << (len(pcm) + int(_TAIL * rate)).bit_length()
    turn = np.exp(-2j * math.pi * np.fft.rfftfreq(size))
    response: npt.NDArray[np.complex128] = np.ones_like(turn)
    for above, below in (_shelf(4.0, 1500.0, rate), _high_pass(0.5, 38.0, rate)):
        response *= np.polynomial.polynomial.polyval(turn, above) / np.polynomial.polynomial.polyval(turn, below)
    found: Doubles = np.fft.irfft(np.fft.rfft(pcm, size) * response, size)[: len(pcm)]
    return found


def _shelf(gain: float, frequency: float, rate: int) -> Pair:
    """Return a high shelf of `gain` dB, Q 1 / sqrt(2): coefficients above and below the line, of z^0, z^-1, z^-2."""
    a, w = 10 ** (gain / 40), 2 * math.pi * frequency / rate
    cosine, slope = math.cos(w), 2 * math.sqrt(a) * math.sin(w) / math.sqrt(2)
    above = [a * (a + 1 + (a - 1) * cosine + slope), -2 * a * (a - 1 + (a + 1) * cosine)]
    below = [a + 1 - (a - 1) * cosine + slope, 2 * (a - 1 - (a + 1) * cosine)]
    return [*above, a * (a + 1 + (a - 1) * cosine - slope)], [*below, a + 1 - (a - 1) * cosine - slope]


def _high_pass(q: float, frequency: float, rate: int) -> Pair:
    w = 2 * math.pi * frequency / rate
    cosine, alpha = math.cos(w), math.sin(w) / (2 * q)
    half = (1 + cosine) / 2
    return [half, -2 * half, half], [1 + alpha, -2 * cosine, 1 - alpha]
