"""Two API keys, and a file of them: one plain, one hashed with limits of its own."""

import hashlib

ADA = "ada-0123456789-0123456789"
BOB = "bob-0123456789-0123456789"
HASHED = "sha256:" + hashlib.sha256(BOB.encode()).hexdigest()
FILE = f"""
ada = "{ADA}"
[bob]
key = "{HASHED}"
characters_per_minute = 60
streams = 1
"""


def bearer(key: str) -> dict[str, str]:
    """Return the headers that send a key."""
    return {"authorization": f"Bearer {key}"}
