"""Client secrets of several processes."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time

import pytest

from app.server.openai.realtime import secrets as client_secrets
from app.server.openai.realtime.secrets import ClientSecret, read_secret, share_key

# Reads what comes in, as another process of the same server does that was given a key.
_READ = """
import sys
from app.server.openai.realtime.secrets import read_secret, share_key
if sys.argv[1]:
    share_key(bytes.fromhex(sys.argv[1]))
found = read_secret(sys.stdin.read())
print(None if found is None else (found.kind, found.owner, found.session))
"""


@pytest.mark.parametrize(("shared", "same"), [(True, True), (True, False), (False, False)])
def test_a_process_reads_the_secrets_of_those_that_share_its_key(
    shared: bool, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_secrets, "_KEY", bytearray(client_secrets._KEY))
    key = secrets.token_bytes(32)
    share_key(key)
    secret = ClientSecret("realtime", "page", {"language": "de"}, int(time.time()) + 60).sign()
    assert read_secret(secret) is not None
    theirs = key if same else secrets.token_bytes(32)
    arguments = [sys.executable, "-c", _READ, theirs.hex() if shared else ""]
    done = subprocess.run(arguments, input=secret, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == str(("realtime", "page", {"language": "de"}) if same else None)
