"""Output module of speech-dispatcher against a real server process: by the daemon's own lines, and by a real daemon."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from tests.processes import PATIENCE, metric, run, total, wait_until

TEXT = "Please open the window and close the door."
CANCELLED = "nightingale_requests_total.*cancelled"
LONG = " ".join(f"This is sentence number {count} of a long text." for count in range(200))


class Module:
    """The process of the module, and the daemon's end of its pipes."""

    def __init__(self, url, folder, **options):
        conf = folder / "nightingale.conf"
        conf.write_text("".join(f'{key} "{value}"\n' for key, value in {"Url": url, **options}.items()))
        command, pipe = [sys.executable, "-P", "-m", "app", "speech-dispatcher", str(conf)], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    def write(self, *lines):
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def line(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read().decode()
        return line.removesuffix(b"\n")

    def reply(self):
        """Lines up to the one whose code is followed by a space."""
        lines = [self.line()]
        while lines[-1][3:4] != b" ":
            lines.append(self.line())
        return lines

    def ask(self, *lines):
        self.write(*lines)
        return self.reply()[-1].decode()

    def start(self):
        assert self.ask("INIT") == "299 OK LOADED SUCCESSFULLY"
        assert self.ask("AUDIO") == "207 OK RECEIVING AUDIO SETTINGS"
        assert self.ask("audio_output_method=server", ".") == "203 OK AUDIO INITIALIZED"
        return self

    def set(self, **values):
        assert self.ask("SET") == "203 OK RECEIVING SETTINGS"
        return self.ask(*(f"{name}={value}" for name, value in values.items()), ".")

    def speak(self, text, kind="SPEAK"):
        assert self.ask(kind) == "202 OK RECEIVING MESSAGE"
        return self.ask(*(f".{line}" if line.startswith(".") else line for line in text.split("\n")), ".")

    def events(self):
        """Events and audio up to the end of the message."""
        events, pcm = [], b""
        while not events or events[-1] not in ("702 END", "703 STOP", "704 PAUSE"):
            lines = self.reply()
            if lines[-1] == b"705 AUDIO":
                assert b"705-sample_rate=24000" in lines
                data = lines[-2].partition(b"705-AUDIO\0")[2]
                pcm += re.sub(rb"\x7d(.)", lambda found: bytes([found[1][0] ^ 0x20]), data, flags=re.DOTALL)
                if not events or events[-1] != "audio":
                    events.append("audio")
            else:
                events.append((lines[0] if len(lines) > 1 else lines[-1]).decode())
        return events, np.frombuffer(pcm, "<i2")

    def end(self):
        """Close the pipes, and return what the module has logged."""
        log = self.process.communicate(timeout=PATIENCE)[1].decode()
        assert self.process.returncode == 0, log
        assert "Traceback" not in log
        return log


@pytest.fixture
def module(server, tmp_path):
    started = Module(server, tmp_path).start()
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.communicate()


def test_a_session_of_the_daemon(module, share_heard):
    module.write("LIST VOICES")
    assert [line.decode() for line in module.reply()] == [
        "200-af_heart\ten-US\tfemale",
        "200-am_michael\ten-US\tmale",
        "200-bf_emma\ten-GB\tfemale",
        "200-bm_fable\ten-GB\tmale",
        "200-em_alex\tes\tmale",
        "200-ff_siwis\tfr-FR\tfemale",
        "200-if_sara\tit\tfemale",
        "200-pm_alex\tpt-BR\tmale",
        "200 OK VOICE LIST SENT",
    ]
    assert module.ask("LIST VOICES de") == "304 CANT LIST VOICES"
    assert module.set(rate=0, voice="female1", language="en", synthesis_voice="NULL") == "203 OK SETTINGS RECEIVED"
    first, second = TEXT, "She has lived in the city for twenty years."
    assert module.speak(f'<speak>{first}<mark name="__spd_0"/> {second}</speak>') == "200 OK SPEAKING"
    events, pcm = module.events()
    assert events == ["701 BEGIN", "audio", "700-__spd_0", "audio", "702 END"]
    assert share_heard(f"{first} {second}", pcm, 24_000) >= 0.5

    lengths = []
    for values in ({"rate": 60}, {"pitch": 60}, {"volume": -50}):
        assert module.set(**{"rate": 0, "pitch": 0, "volume": 100, **values}) == "203 OK SETTINGS RECEIVED"
        assert module.speak(f"<speak>{TEXT}</speak>") == "200 OK SPEAKING"
        lengths.append(module.events()[1])
    fast, high, soft = lengths
    assert fast.size < 0.75 * soft.size
    assert high.size == pytest.approx(soft.size, rel=0.15)
    assert np.abs(soft).max() < 0.5 * np.abs(high).max()

    for kind, message in (("CHAR", "A"), ("CHAR", "."), ("KEY", "shift_a"), ("SOUND_ICON", "new-mail")):
        assert module.speak(message, kind) == "200 OK SPEAKING"
        events, pcm = module.events()
        assert (events, pcm.size > 0) == (["701 BEGIN", "audio", "702 END"], True)
    assert module.ask("QUIT") == "210 OK QUIT"
    assert module.end() == ""


def test_messages_that_nobody_would_send(module):
    assert module.speak('<speak>...<mark name="__spd_0"/></speak>') == "200 OK SPEAKING"
    assert module.events()[0] == ["701 BEGIN", "700-__spd_0", "702 END"]
    for text in ("<speak>this & <b>that</speak>", "<speak xml:lang='xx'>Hello.</speak>", "plain & <words", "a\n.\n.b"):
        assert module.speak(text) == "200 OK SPEAKING"
        events, pcm = module.events()
        assert (events[-1], pcm.size > 0) == ("702 END", True), text
    assert module.speak("") == "301 ERROR CANT SPEAK"
    assert module.speak("x" * (3 << 20)) == "301 ERROR CANT SPEAK"
    assert module.set(rate="fast") == "303 ERROR INVALID PARAMETER OR VALUE"
    assert module.set(nothing="1") == "303 ERROR INVALID PARAMETER OR VALUE"
    assert module.ask("NOTHING") == "300 ERR UNKNOWN COMMAND"
    # More than the server takes at once.
    assert module.speak(f"<speak>{' ' * 20_000}Hello.</speak>") == "200 OK SPEAKING"
    assert module.events()[0] == ["701 BEGIN", "audio", "702 END"]
    # What cannot be divided ends the message, and the next one is spoken.
    assert module.speak(f"<speak><p>{'many words ' * 9_000}</p></speak>") == "200 OK SPEAKING"
    assert module.events()[0] == ["701 BEGIN", "703 STOP"]
    module.write("STOP", "PAUSE")
    assert module.speak("<speak>Hello.</speak>") == "200 OK SPEAKING"
    assert module.events()[0] == ["701 BEGIN", "audio", "702 END"]
    module.end()


def test_stop_and_pause(module, server):
    before = total(server, CANCELLED)
    assert module.speak(f"<speak>{LONG}</speak>") == "200 OK SPEAKING"
    assert module.reply() == [b"701 BEGIN"]
    module.write("STOP")
    events, _ = module.events()
    assert events[-1] == "703 STOP"
    wait_until(lambda: total(server, CANCELLED) > before)
    # At once, before anything is spoken.
    assert module.speak(f"<speak>{LONG}</speak>") == "200 OK SPEAKING"
    module.write("STOP")
    assert module.events()[0][-1] == "703 STOP"

    marked = "".join(f'Sentence {count}.<mark name="__spd_{count}"/> ' for count in range(100))
    assert module.speak(f"<speak>{marked}</speak>") == "200 OK SPEAKING"
    module.write("PAUSE")
    events, _ = module.events()
    assert events[-1] == "704 PAUSE"
    assert events[-2].startswith("700-__spd_")
    assert len(events) < 150
    module.end()


def test_a_server_that_comes_later(server, tmp_path):
    module = Module("http://127.0.0.1:9", tmp_path).start()
    assert module.ask("LIST VOICES") == "304 CANT LIST VOICES"
    assert module.speak("<speak>Hello.</speak>") == "301 ERROR CANT SPEAK"
    assert "no server answers at http://127.0.0.1:9; start one with: nightingale serve" in module.end()


def test_spd_say_speaks_through_a_real_daemon(server, tmp_path, program, share_heard):
    daemon, say = program("speech-dispatcher"), program("spd-say")
    runtime = tmp_path / "run"
    (runtime / "log").mkdir(parents=True)
    runtime.chmod(0o700)
    # ALSA without a device: what is played goes into a file.
    sound = tmp_path / "sound.raw"
    (tmp_path / ".asoundrc").write_text(
        f'pcm.!default {{ type file slave.pcm "null" file "{sound}" format "raw" }}\nctl.!default {{ type null }}\n'
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}
    environment |= {"LC_ALL": "C.UTF-8", "SPEECHD_ADDRESS": f"unix_socket:{runtime}/socket"}
    command = [sys.executable, "-m", "app", "speech-dispatcher", "--install", "--default", "--url", server]
    run(*command, env=environment).check_returncode()
    conf = tmp_path / ".config" / "speech-dispatcher" / "speechd.conf"
    conf.write_text(conf.read_text() + 'AudioOutputMethod "alsa"\n')
    running = subprocess.Popen(
        [daemon, "-s", "-t", "0", "-S", f"{runtime}/socket", "-P", f"{runtime}/pid", "-L", f"{runtime}/log"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        listed = partial(run, say, "-o", "nightingale", "-L", env=environment)
        wait_until(lambda: running.poll() is not None or "af_heart" in listed().stdout)
        assert running.poll() is None, list((runtime / "log").iterdir())
        run(say, "-w", TEXT, env=environment)
        assert share_heard(TEXT, np.fromfile(sound, "<i2"), 24_000) >= 0.5

        before = total(server, CANCELLED)
        # The daemon itself takes seconds to look for signs in a longer text.
        waiting = subprocess.Popen([say, "-w", LONG[:4_000]], env=environment)
        wait_until(lambda: metric(server, "nightingale_active_streams") > 0)
        run(say, "-S", env=environment)
        assert waiting.wait(PATIENCE) == 0
        wait_until(lambda: total(server, CANCELLED) > before)
    finally:
        running.terminate()  # its clients end with it
        running.wait(PATIENCE)
