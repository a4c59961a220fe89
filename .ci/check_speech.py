"""Does a WAV file hold this sentence? python check_speech.py FILE SENTENCE; exit status 1 if it does not."""

import re
import sys

import numpy as np
import soundfile
import soxr
from pocketsphinx import Decoder


def main(path: str, sentence: str) -> int:
    pcm, rate = soundfile.read(path, dtype="float32")
    seconds = len(pcm) / rate
    decoder = Decoder(samprate=16_000, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw(
        (np.clip(soxr.resample(pcm, rate, 16_000), -1, 1) * 32767).astype("<i2").tobytes(), full_utt=True
    )
    decoder.end_utt()
    heard = decoder.hyp().hypstr if decoder.hyp() else ""
    said = re.findall(r"[a-z']+", sentence.lower())
    found = sum(word in heard.split() for word in said)
    print(f"{path}: {seconds:.2f} s at {rate} Hz, heard {heard!r}: {found} of {len(said)} words")
    plausible = 0.15 < seconds / len(said) < 0.8
    return 0 if plausible and found >= 0.6 * len(said) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
