"""Program that calls espeak-ng for `app.text.espeak`: some long words make it write past its memory.

Its first line holds the voices by language as JSON. A request is a line: the voice, NUL and a text; its reply is a line
of IPA, or VOICE_FAILED. A copy of the process calls the library. Where that dies, the reply is empty, and another copy
goes on. The program ends with its input.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path

VOICE_FAILED = "!"
# Seconds that one text may take.
SECONDS = 2
# Numbers of speak_lib.h: espeak_AUDIO_OUTPUT, the options of espeak_Initialize, espeakCHARS and espeakPHONEMES.
_SYNCHRONOUS = 2
_DONT_EXIT = 0x8000
_UTF8 = 1
_TIED_IPA = 0x02 | 1 << 7 | 0x361 << 8


class _Voice(ctypes.Structure):
    """The first fields of espeak_VOICE; `languages` begins with a byte of priority."""

    _fields_ = (("name", ctypes.c_char_p), ("languages", ctypes.c_char_p), ("identifier", ctypes.c_char_p))


def main(library: str, data: str) -> None:
    """Load the library, tell its voices and answer requests. Exits with the reason if it does not start."""
    if not (Path(data) / "phontab").is_file():
        sys.exit(f"there is no espeak-ng data in {data}")
    calls = ctypes.CDLL(library)
    calls.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))
    calls.espeak_TextToPhonemes.restype = ctypes.c_char_p
    if calls.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), _DONT_EXIT) <= 0:
        sys.exit(f"espeak-ng does not start with the data in {data}")
    # Several voices may speak a language. espeak-ng lists its preferred one first.
    voices: dict[str, str] = {}
    listed = calls.espeak_ListVoices(None)
    while listed and listed[0]:
        voice = listed[0].contents
        voices.setdefault(voice.languages[1:].decode(), voice.identifier.decode())
        listed = ctypes.cast(ctypes.addressof(listed[0]) + ctypes.sizeof(ctypes.c_void_p), type(listed))
    _reply(json.dumps(voices))
    # What a copy says when it dies is not read.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (copy := os.fork()) and os.waitpid(copy, 0)[1]:
        _reply("")
    if not copy:
        _answer(calls)


def _answer(calls: ctypes.CDLL) -> None:
    current = line = b""
    while part := os.read(0, 65_536):
        line += part
        if part[-1:] != b"\n":
            continue
        voice, _, text = line[:-1].partition(b"\0")
        line = b""
        signal.alarm(SECONDS)
        left, found = ctypes.c_char_p(text), list[str]()
        if voice != current and calls.espeak_SetVoiceByName(voice):
            left, found, voice = ctypes.c_char_p(), [VOICE_FAILED], b""
        current = voice
        while left.value is not None:
            found.append((calls.espeak_TextToPhonemes(ctypes.byref(left), _UTF8, _TIED_IPA) or b"").decode())
        signal.alarm(0)
        _reply(" ".join(found))


def _reply(line: str) -> None:
    with os.fdopen(1, "wb", closefd=False) as replies:
        replies.write(line.replace("\n", " ").encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
