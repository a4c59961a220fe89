"""Errors that the service tells its clients: one table of class, status, code, parameter and close code.

A class statement is a row of the table; each surface renders a row in its own form. A row has the HTTP status, the
`type`, `code` and `param` of OpenAI's error body (platform.openai.com, "Error codes"), the WebSocket close code (RFC
6455 section 7.4 and the IANA registry), and `Retry-After`, with `retry-after-ms`, which OpenAI's clients read first.
A class inherits what it does not name.
"""

from __future__ import annotations

import errno
import logging
import math
import re
from typing import ClassVar, Final, TypedDict, Unpack

from app import request_context

log = logging.getLogger(__name__)

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))

# From the beginning of the first absolute path of a line to the last slash: folders may have spaces in their names.
_FOLDERS = re.compile(r"(?<![\w.])/(?:.*/)?")


def without_paths(text: str) -> str:
    """Return `text` with every absolute path cut to its file's name, and without the text between two paths."""
    return _FOLDERS.sub("", text)


class ErrorRow(TypedDict, total=False):
    """Row of the table. `code` is unique in this module; `param`: the field of the request that is wrong.

    `retry_after`: seconds after which the client may try again.
    """

    status: int
    type: str
    code: str
    param: str
    close_code: int
    retry_after: float


class ServiceError(Exception):
    """Base of the errors that a client is told. `message` is written for the person who called."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"
    param: ClassVar[str | None] = None
    close_code: ClassVar[int] = 1011
    retry_after: ClassVar[float | None] = None

    def __init_subclass__(cls, **row: Unpack[ErrorRow]) -> None:
        """Set what the row of a subclass names."""
        super().__init_subclass__()
        for name, value in row.items():
            setattr(cls, name, value)

    def __init__(self, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self._param = param
        self._retry_after = retry_after

    def body(self) -> dict[str, str | None]:
        """Return the inner object of OpenAI's error body: message, type, param, code, and the request's id if any."""
        param = self._param or self.param
        body = {
            "message": _encodable(self.message),
            "type": self.type,
            "param": param and _encodable(param),
            "code": self.code,
        }
        request_id = request_context.request_id.get()
        return body if request_id is None else body | {"request_id": request_id}

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers that belong to this error."""
        seconds = self._retry_after if self._retry_after is not None else self.retry_after
        if seconds is None:
            return {}
        return {"retry-after": str(math.ceil(seconds)), "retry-after-ms": str(math.ceil(seconds * 1000))}


def _encodable(text: str) -> str:
    """Return `text` without the lone surrogates that JSON can carry and UTF-8 cannot: messages quote clients."""
    return text.encode("utf-8", "replace").decode()


class InvalidRequestError(
    ServiceError, status=400, type="invalid_request_error", code="invalid_request", close_code=1008
):
    """Raised for a request that cannot be served as it is; sending it again changes nothing."""


class EmptyInputError(InvalidRequestError, code="empty_input", param="input"):
    """Raised where there is no text."""


class NothingToSpeakError(InvalidRequestError, code="nothing_to_speak", param="input"):
    """Raised for a text in which nothing can be spoken."""


class TextTooLongError(InvalidRequestError, code="text_too_long", param="input"):
    """Raised for more characters than `max_input_characters`, or than the model takes in one sentence."""


class UnknownVoiceError(InvalidRequestError, code="unknown_voice", param="voice"):
    """Raised for a voice that the model does not have."""


class UnusableRecordingError(InvalidRequestError, code="unusable_recording", param="audio_sample"):
    """Raised for a recording that no library reads, that holds no speech, or that is too short for the model."""


class ConsentMissingError(InvalidRequestError, code="consent_missing", param="consent"):
    """Raised for an uploaded recording without the statement that its speaker agrees."""


class TooManyVoicesError(InvalidRequestError, code="too_many_voices"):
    """Raised when `max_voices` cloned voices are stored already."""


class UnsupportedFormatError(InvalidRequestError, code="unsupported_format", param="response_format"):
    """Raised for a format that no encoder has, or for a sample rate that the format cannot carry."""


class UnsupportedLanguageError(InvalidRequestError, code="unsupported_language", param="lang"):
    """Raised for a language that cannot be spoken here, or whose extra is not installed."""


class LanguageNotDetectedError(InvalidRequestError, code="language_not_detected", param="source"):
    """Raised for a text whose language cannot be told with enough confidence."""


class OutsideCoverageError(InvalidRequestError, code="outside_coverage", param="text"):
    """Raised for a text that a demonstration model does not cover."""


class InvalidLexiconError(InvalidRequestError, code="invalid_lexicon", param="lexicon"):
    """Raised for a pronunciation lexicon, or an entry, that cannot be read or used."""


class InvalidDocumentError(InvalidRequestError, code="invalid_document", param="file"):
    """Raised for a document that cannot be read, or that holds nothing to speak."""


class MarkupError(InvalidRequestError, code="invalid_markup", param="input"):
    """Raised for malformed markup in the input."""


class ProtocolError(InvalidRequestError, code="protocol_error"):
    """Raised for a WebSocket message that is malformed or arrives in the wrong state."""


class UnknownModelError(InvalidRequestError, status=404, code="model_not_found", param="model"):
    """Raised for a model name that the catalog does not have."""


class WrongModelKindError(InvalidRequestError, code="wrong_model_kind", param="model"):
    """Raised for a model that speaks where translation is asked for, or the reverse."""


class NotFoundError(InvalidRequestError, status=404, code="not_found"):
    """Raised for a path that does not exist."""


class AuthenticationError(InvalidRequestError, status=401, code="invalid_api_key"):
    """Raised for a request without a key that this server knows."""

    def headers(self) -> dict[str, str]:
        """Return them with the challenge that belongs to this status (RFC 9110 section 11.6.1)."""
        return super().headers() | {"www-authenticate": "Bearer"}


class PermissionDeniedError(InvalidRequestError, status=403, code="permission_denied"):
    """Raised for a change that the request's key may not make."""


class HostNotAllowedError(InvalidRequestError, status=403, code="host_not_allowed"):
    """Raised for a header `Host` that is no name of this server.

    A page of another site may have made that name resolve to this address (DNS rebinding).
    """


class CrossSiteError(InvalidRequestError, status=403, code="cross_site"):
    """Raised for a request that a page of another site had the browser send, which its visitor did not ask for."""


class MethodNotAllowedError(InvalidRequestError, status=405, code="method_not_allowed"):
    """Raised for a path that exists, but not with this method."""


class BodyTooLargeError(InvalidRequestError, status=413, code="body_too_large", close_code=1009):
    """Raised for an HTTP body or a WebSocket frame above its limit."""


class AddressTooLongError(InvalidRequestError, status=414, code="address_too_long"):
    """Raised for a path and query that are longer than any that is served."""


class HeadTooLargeError(InvalidRequestError, status=431, code="head_too_large"):
    """Raised for a request head of too many bytes, or too many headers (RFC 6585 section 5)."""


class RequestTimeoutError(InvalidRequestError, status=408, code="request_timeout"):
    """Raised for a head or a body that comes too slowly."""


class QuotaExceededError(
    ServiceError, status=429, type="rate_limit_error", code="rate_limit_exceeded", close_code=1013
):
    """Raised for a key that has used up its quota for now."""


class SaturatedError(
    ServiceError, status=429, type="rate_limit_error", code="saturated", close_code=1013, retry_after=1
):
    """Raised when every one of several processes is busy, and enough requests wait for one already."""


class UnavailableError(ServiceError, status=503, type="service_unavailable", code="unavailable", close_code=1013):
    """Raised for a correct request that cannot be served now."""


class LanguageServerError(UnavailableError, status=502, code="language_server_error"):
    """Raised where the server of the setting `llm` fails, refuses or breaks off."""


class ModelAbsentError(UnavailableError, code="model_not_installed", param="model"):
    """Raised for a model of the catalog whose weights are not on this machine."""


class ModelLoadingError(UnavailableError, code="model_loading", param="model", retry_after=2):
    """Raised while the model is loaded, warmed or unloaded."""


class ModelTooLargeError(UnavailableError, code="model_too_large", param="model"):
    """Raised for a model that needs more memory than `memory_budget`."""


class ModelMemoryError(UnavailableError, code="model_memory", param="model", retry_after=5):
    """Raised while the models in use leave no room in `memory_budget` for one more."""


class OverloadedError(UnavailableError, code="overloaded", retry_after=1):
    """Raised when queues are full, or the streams being spoken leave no room for more."""


class DrainingError(UnavailableError, code="draining", close_code=1012, retry_after=5):
    """Raised while the server shuts down."""


class StorageError(ServiceError, code="storage_failed"):
    """Raised when a file cannot be written to the data directory, or to that of temporary files."""


class StorageFullError(StorageError, status=507, code="storage_full"):
    """Raised when the disk is full (RFC 4918 section 11.5)."""


def storage_error(failed: str, error: OSError) -> StorageError:
    """Log what `failed` and why, and return the error that tells it; a StorageFullError if no room is left."""
    log.error("%s: %s", failed, error)
    kind = StorageFullError if error.errno in _FULL else StorageError
    return kind(f"{failed}: {error.strerror or error}.")


class ModelFailedError(ServiceError, code="model_failed"):
    """Raised when the model could not be loaded, or failed on this request."""


def model_failed(name: str, cause: BaseException) -> ModelFailedError:
    """Return the error for a model that failed on a request. The message names only the type of its `cause`."""
    error = ModelFailedError(f"Model '{name}' failed: {type(cause).__name__}.")
    error.__cause__ = cause
    return error


class IdleTimeoutError(ServiceError, status=408, type="invalid_request_error", code="idle_timeout", close_code=1008):
    """Raised when a WebSocket client sent nothing, or read nothing, for too long."""
