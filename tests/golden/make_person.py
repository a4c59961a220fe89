"""Write person.ogg: a person, for tests that need one. Run from the repository with the path of the recording.

John F. Kennedy's inaugural address of 1961, a work of the government of the United States, in the public domain: the
recording `tests/jfk.flac` of github.com/openai/whisper.
"""

from __future__ import annotations

import sys
from pathlib import Path

import soundfile
import soxr

from tests.golden.make_spoken import RATE

if __name__ == "__main__":
    pcm, rate = soundfile.read(sys.argv[1], dtype="float32", always_2d=True)
    found = soxr.resample(pcm.mean(axis=1), rate, RATE)
    file = Path(__file__).with_name("person.ogg")
    soundfile.write(file, found, RATE, format="OGG", subtype="OPUS", compression_level=0.95)
