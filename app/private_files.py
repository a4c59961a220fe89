"""Files of the data directory that only their owner may read: documents, recordings, and what was made of them."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_FOLDERS: Final = ("jobs", "lexicons", "speech-cache", "voices")
_OTHERS: Final = 0o077


def make_private(data_dir: Path) -> None:
    """Let this process make files that others cannot read, and close those that an earlier one left open.

    Weights of models are public: they keep their modes.
    """
    os.umask(_OTHERS)
    for name in _FOLDERS:
        for folder, _, files in os.walk(data_dir / name):
            for path in (Path(folder), *(Path(folder, file) for file in files)):
                try:
                    mode = path.lstat().st_mode
                    if mode & _OTHERS and not path.is_symlink():
                        path.chmod(mode & ~_OTHERS)
                except OSError as error:  # it belongs to another user, or is gone
                    log.warning("%s may be read by others: %s", path, error.strerror)
