"""Download of a catalog model's weights from a Hugging Face hub.

Every file is pinned: revision, sha256 and, where known, size. Files are collected in `<name>.partial` beside their
destination, resumed from there after an interruption, checked, and only then put in place, weights last; a model that
is half pulled never looks installed. Files that no pull wrote are never replaced. Every failure raises HubError with
one line for a person.
"""

from __future__ import annotations

import fcntl
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, constants, get_session, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from tqdm import tqdm  # type: ignore[import-untyped]

from app import __version__
from app.engine.catalog import Entry, PinnedFile, check_file, pulled_record, read_pulled
from app.errors import ServiceError

# Room to leave on the disk besides the files themselves.
HEADROOM_BYTES = 16 << 20
CHUNK_BYTES = 1 << 18
LISTING_TIMEOUT = 30.0
# Most bytes of an answer that is no file: a listing, or an error.
MAX_ANSWER = 8 << 20
# Most bytes of a file whose size is not pinned: such files are small, and only the hub tells their size.
MAX_UNPINNED = 64 << 20
# Sent with requests for files; other requests add the library's own name.
_USER_AGENT = f"nightingale/{__version__}"


class HubError(ServiceError):
    """A pull that cannot be done or finished; the message is one line."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """Result of a pull: files fetched or resumed now, and files that were in place and intact already."""

    fetched: tuple[str, ...]
    intact: tuple[str, ...]


def pull(entry: Entry, directory: Path, *, endpoint: str | None = None, progress: bool = True) -> Pulled:
    """Install the pinned files of `entry` into `directory`.

    `endpoint` is the hub's base URL; None means HF_ENDPOINT or the public hub, as huggingface_hub decides. `progress`
    draws a bar on stderr. Raises HubError; a KeyboardInterrupt leaves what was fetched for the next pull to go on from.
    """
    if entry.repository is None:
        raise HubError(f"model '{entry.name}' is part of the installation; there is nothing to pull")
    if not entry.files:
        raise HubError(f"model '{entry.name}': {entry.install_hint}")
    base = (endpoint or constants.ENDPOINT).rstrip("/")
    if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).netloc:
        raise HubError(f"the hub's address must be an http:// or https:// URL, not '{base}'")
    # A local server tells nobody about its users, and reports each failure itself, in one line.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    # The library's pieces of 10 MB would hold the bar still on a slow line, and be lost to an interruption.
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    # Answers in memory are bounded, and files where they are written. A packed answer could unpack to any size.
    client = get_session()
    client.headers["accept-encoding"] = "identity"
    client.event_hooks = {**client.event_hooks, "response": [_bound_answer]}

    staging = directory.with_name(f"{directory.name}.partial")
    with _explained(base, entry, staging):
        staging.mkdir(parents=True, exist_ok=True)
        with _exclusive(staging):
            intact = [pin.path for pin in entry.files if check_file(directory, pin).state == "ok"]
            wanted = [pin for pin in entry.files if pin.path not in intact]
            _refuse_foreign(entry, wanted, directory)
            if wanted:
                _fetch_all(entry, wanted, staging, base, progress)
                _put_in_place(wanted, staging, directory)
        shutil.rmtree(staging, ignore_errors=True)
    return Pulled(tuple(pin.path for pin in wanted), tuple(intact))


def _refuse_foreign(entry: Entry, wanted: list[PinnedFile], directory: Path) -> None:
    """Raise HubError if files that somebody else put there would be replaced."""
    pulled = read_pulled(directory)
    foreign = [pin.path for pin in wanted if pin.path not in pulled and (directory / pin.path).exists()]
    if foreign:
        raise HubError(
            f"{entry.name}: {len(foreign)} files in {directory} are not the pinned ones, such as {foreign[0]}, and no "
            "pull wrote them: a community checkpoint? Nothing was changed; move them away to pull the pinned files"
        )


def _fetch_all(entry: Entry, wanted: list[PinnedFile], staging: Path, base: str, progress: bool) -> None:
    sizes = _listed_sizes(entry, wanted, base)
    have = {pin.path: _bytes_staged(staging, pin) for pin in wanted}
    total = sum(sizes.values())
    needed = total - sum(have.values())
    free = shutil.disk_usage(staging).free
    if needed + HEADROOM_BYTES > free:
        raise HubError(
            f"{entry.name} needs {_megabytes(needed)} more on the disk of {staging}, which has {_megabytes(free)} free"
        )
    with tqdm(
        total=total,
        initial=sum(have.values()),
        desc=entry.name,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        disable=not progress,
    ) as bar:
        for pin in wanted:
            bar.set_postfix_str(pin.path)
            url = hf_hub_url(cast(str, entry.repository), pin.path, revision=entry.revision, endpoint=base)
            _fetch(url, pin, staging, sizes[pin.path], bar)


def _listed_sizes(entry: Entry, wanted: list[PinnedFile], base: str) -> dict[str, int]:
    """Return the bytes of each wanted file, as the hub lists the pinned revision. Raises HubError unless pins agree."""
    api = HfApi(endpoint=base, token=False, library_name="nightingale", library_version=__version__)
    info = api.model_info(
        cast(str, entry.repository), revision=entry.revision, files_metadata=True, timeout=LISTING_TIMEOUT
    )
    listed = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    sizes: dict[str, int] = {}
    for pin in wanted:
        sibling = listed.get(pin.path)
        if sibling is None:
            raise HubError(f"{base} has no {pin.path} in {entry.repository} at revision {entry.revision}")
        size = pin.size if pin.size is not None else sibling.size
        digest = sibling.lfs.sha256 if sibling.lfs is not None else pin.sha256
        most = MAX_UNPINNED if pin.size is None else pin.size
        if size is None or sibling.size not in (None, size) or digest != pin.sha256 or size > most:
            raise HubError(f"{base} offers a {pin.path} that is not the pinned one; nothing was downloaded")
        sizes[pin.path] = size
    return sizes


def _bound_answer(response: httpx2.Response) -> None:
    # The user agent marks requests for files, also after redirects.
    if response.is_success and response.request.headers.get("user-agent") == _USER_AGENT:
        return
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise HubError(f"{response.url.host} sends packed answers, which were not asked for; nothing was installed")
    response.stream = _Bounded(cast(httpx2.SyncByteStream, response.stream), str(response.url.host))


class _Bounded(httpx2.SyncByteStream):
    """Bytes of an answer. Raises HubError after MAX_ANSWER of them."""

    def __init__(self, inner: httpx2.SyncByteStream, host: str) -> None:
        self._inner = inner
        self._host = host

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._inner:
            size += len(piece)
            if size > MAX_ANSWER:
                raise HubError(f"{self._host} does not come to an end; nothing was installed")
            yield piece

    def close(self) -> None:
        self._inner.close()


class _PartFile:
    """A file that takes `size` bytes, and raises HubError instead of taking more."""

    def __init__(self, file: BinaryIO, name: str, size: int) -> None:
        self._file = file
        self._name = name
        self._size = size
        self.tell, self.seek, self.truncate = file.tell, file.seek, file.truncate

    def write(self, data: bytes) -> int:
        if self.tell() + len(data) > self._size:
            raise _wrong_size(self._name, self._size)
        return self._file.write(data)

    def expect(self, total: int | None) -> None:
        """Check the length that the hub tells. Raises HubError."""
        if total not in (None, self._size):
            raise _wrong_size(self._name, self._size)


def _wrong_size(name: str, size: int) -> HubError:
    return HubError(
        f"{name} arrives with another size than its {size} bytes; it was thrown away, nothing was installed"
    )


def _fetch(url: str, pin: PinnedFile, staging: Path, size: int, bar: tqdm) -> None:
    """Download one file to `staging`, going on from what is there, and check it."""
    final, part = staging / pin.path, _part(staging, pin)
    if final.is_file():
        if check_file(staging, pin).state == "ok":
            return
        final.unlink()
        bar.update(-size)
    part.parent.mkdir(parents=True, exist_ok=True)
    if part.is_file() and part.stat().st_size > size:
        bar.update(-part.stat().st_size)
        part.unlink()

    def advance(total: int | None = None, **_: Any) -> AbstractContextManager[tqdm]:
        """Stand in for tqdm: return a context manager with `update`, as every file advances the one bar."""
        file.expect(total)
        return nullcontext(bar)

    with part.open("ab") as opened:
        file = _PartFile(opened, pin.path, size)
        try:
            http_get(
                url,
                cast(BinaryIO, file),
                resume_size=part.stat().st_size,
                headers={"User-Agent": _USER_AGENT},
                expected_size=size,
                displayed_filename=pin.path,
                tqdm_class=cast(Any, advance),
            )
        except HubError:
            part.unlink()
            raise
    state = check_file(staging, PinnedFile(str(part.relative_to(staging)), pin.sha256, size)).state
    if state != "ok":
        part.unlink()
        raise HubError(f"{pin.path} arrived with the {state}; it was thrown away, and nothing was installed")
    part.replace(final)


def _put_in_place(pins: list[PinnedFile], staging: Path, directory: Path) -> None:
    """Move checked files to the model's folder, the weights last. What changed there since a pull is set aside."""
    record = pulled_record(directory)
    record.parent.mkdir(parents=True, exist_ok=True)
    paths = read_pulled(directory) | {pin.path for pin in pins}
    record.write_text(json.dumps(sorted(paths)), encoding="utf-8")
    # The largest last: with its weights a model counts as installed.
    for pin in sorted(pins, key=lambda pin: (staging / pin.path).stat().st_size):
        target = directory / pin.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            aside = directory.with_name(f"{directory.name}.replaced") / pin.path
            aside.parent.mkdir(parents=True, exist_ok=True)
            target.replace(aside)
        (staging / pin.path).replace(target)


def _part(staging: Path, pin: PinnedFile) -> Path:
    return staging / f"{pin.path}.part"


def _bytes_staged(staging: Path, pin: PinnedFile) -> int:
    for path in (staging / pin.path, _part(staging, pin)):
        if path.is_file():
            return path.stat().st_size
    return 0


@contextmanager
def _exclusive(staging: Path) -> Iterator[None]:
    """Keep two pulls of one model apart. The lock goes with the process."""
    with (staging / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HubError("another pull of this model is running") from None
        yield


@contextmanager
def _explained(base: str, entry: Entry, staging: Path) -> Iterator[None]:
    """Raise failures of the network, the hub or the disk as HubError, in one line."""
    where = f"{entry.repository} at revision {entry.revision}"
    try:
        yield
    except OfflineModeIsEnabled:
        raise HubError("HF_HUB_OFFLINE is set, so nothing can be pulled") from None
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise HubError(f"{base} has no {where}") from None
    except EntryNotFoundError as error:
        raise HubError(f"{base} lacks a file of {where}: {str(error).splitlines()[0]}") from None
    except HfHubHTTPError as error:
        raise HubError(f"{base} answered {error.response.status_code} for {where}; try again later") from None
    except (httpx2.HTTPError, ConnectionError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise HubError(f"cannot reach {base}: {reason}; run the command again to go on from here") from None
    except OSError as error:
        if error.errno is None:
            raise HubError(
                f"the download from {base} was cut short; run the command again to go on from here"
            ) from None
        raise HubError(f"cannot write to {error.filename or staging}: {error.strerror}") from None
    except ValueError as error:
        # The hub answered with something else than its JSON.
        raise HubError(f"{base} does not answer like a Hugging Face hub: {str(error).splitlines()[0]}") from None


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
