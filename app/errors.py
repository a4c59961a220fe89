"""What the service refuses and how it says so.

One error carries everything its renderings need: HTTP status, the `type`, `code` and `param` of OpenAI's error
body (platform.openai.com, "Error codes"), the WebSocket close code (RFC 6455 section 7.4 and the IANA registry), and
`Retry-After`, with `retry-after-ms`, which OpenAI's clients read first.

    ServiceError                    500 server_error, 1011
    ├── InvalidRequestError         400 invalid_request_error, 1008
    │   ├── EmptyInputError         nothing in `input`
    │   ├── NothingToSpeakError     input with no speakable content
    │   ├── TextTooLongError        more than `max_input_characters`
    │   ├── UnknownVoiceError
    │   ├── UnusableRecordingError  a recording that cannot be read, or that no voice can be made from
    │   ├── ConsentMissingError     a voice is cloned only with the speaker's consent
    │   ├── TooManyVoicesError      more than `max_voices`
    │   ├── UnsupportedFormatError  format, or a sample rate the format cannot carry
    │   ├── UnsupportedLanguageError
    │   ├── LanguageNotDetectedError  too little, or too mixed, to tell the language of
    │   ├── OutsideCoverageError    a demonstration model was asked for text it was not made for
    │   ├── MarkupError             malformed `[word](/ipa/)` or `[pause:...]`
    │   ├── ProtocolError           WebSocket message malformed or out of order
    │   ├── UnknownModelError       404
    │   ├── WrongModelKindError     a model that speaks was asked to translate, or the reverse
    │   ├── NotFoundError           404
    │   ├── AuthenticationError     401: no key, or none that is known
    │   ├── PermissionDeniedError   403: what the request's key may not do
    │   ├── CrossSiteError          403: a page of another site had the browser send it
    │   ├── HostNotAllowedError     403: asked for under a name that is not this server's
    │   ├── MethodNotAllowedError   405
    │   ├── BodyTooLargeError       413, 1009
    │   ├── AddressTooLongError     414: the path and query of a request
    │   ├── HeadTooLargeError       431: a request head of too many bytes or headers
    │   └── RequestTimeoutError     408: the head or the body of a request came too slowly
    ├── QuotaExceededError          429 rate_limit_error, 1013, Retry-After
    ├── SaturatedError              429 rate_limit_error, 1013, Retry-After: every process is busy
    ├── UnavailableError            503 service_unavailable, 1013
    │   ├── ModelAbsentError        weights not on this machine; says how to install them
    │   ├── ModelLoadingError       Retry-After
    │   ├── OverloadedError         Retry-After
    │   └── DrainingError           Retry-After, 1012
    ├── StorageError                500: a file cannot be written
    │   └── StorageFullError        507: no room on its disk
    ├── ModelFailedError            500: weights that cannot be used, or a failure inside the model
    └── IdleTimeoutError            408, 1008
"""

from __future__ import annotations

import math
import re
from typing import ClassVar

from app import request_context

# From the beginning of the first absolute path of a line to the last slash: folders may have spaces in their names.
_FOLDERS = re.compile(r"(?<![\w.])/(?:.*/)?")


def without_paths(text: str) -> str:
    """`text` for strangers: of every absolute path only the file's name. What stands between two of them goes, too."""
    return _FOLDERS.sub("", text)


class ServiceError(Exception):
    """Base of everything the service says to a client. `message` is written for the person who called."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"
    param: ClassVar[str | None] = None
    close_code: ClassVar[int] = 1011
    retry_after: ClassVar[float | None] = None

    def __init__(self, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self._param = param
        self._retry_after = retry_after

    def body(self) -> dict[str, str | None]:
        """The inner object of OpenAI's error body: message, type, param, code; and the request's id, within one."""
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
        """HTTP headers that belong to this error."""
        seconds = self._retry_after if self._retry_after is not None else self.retry_after
        if seconds is None:
            return {}
        return {"retry-after": str(math.ceil(seconds)), "retry-after-ms": str(math.ceil(seconds * 1000))}


def _encodable(text: str) -> str:
    """Without the lone surrogates that JSON can carry and UTF-8 cannot: messages quote what clients sent."""
    return text.encode("utf-8", "replace").decode()


class InvalidRequestError(ServiceError):
    """The request cannot be served as it is; sending it again changes nothing."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"
    close_code = 1008


class EmptyInputError(InvalidRequestError):
    """There is no text."""

    code = "empty_input"
    param = "input"


class NothingToSpeakError(InvalidRequestError):
    """There is text, but nothing in it that can be spoken."""

    code = "nothing_to_speak"
    param = "input"


class TextTooLongError(InvalidRequestError):
    """More characters than `max_input_characters`, or than the model takes in one sentence."""

    code = "text_too_long"
    param = "input"


class UnknownVoiceError(InvalidRequestError):
    """The model has no such voice."""

    code = "unknown_voice"
    param = "voice"


class UnusableRecordingError(InvalidRequestError):
    """A recording that no library reads, that holds no speech, or that is too short for the model."""

    code = "unusable_recording"
    param = "audio_sample"


class ConsentMissingError(InvalidRequestError):
    """Whoever uploads a recording has not said that its speaker agrees."""

    code = "consent_missing"
    param = "consent"


class TooManyVoicesError(InvalidRequestError):
    """As many cloned voices as `max_voices` allows are stored already."""

    code = "too_many_voices"


class UnsupportedFormatError(InvalidRequestError):
    """No encoder of that name, or a sample rate it cannot carry."""

    code = "unsupported_format"
    param = "response_format"


class UnsupportedLanguageError(InvalidRequestError):
    """A language that cannot be spoken here, or whose extra is not installed."""

    code = "unsupported_language"
    param = "lang"


class LanguageNotDetectedError(InvalidRequestError):
    """The language of a text cannot be told with enough confidence."""

    code = "language_not_detected"
    param = "source"


class OutsideCoverageError(InvalidRequestError):
    """A demonstration model does not cover the text."""

    code = "outside_coverage"
    param = "text"


class MarkupError(InvalidRequestError):
    """Markup in the input is malformed."""

    code = "invalid_markup"
    param = "input"


class ProtocolError(InvalidRequestError):
    """A WebSocket message that is malformed or arrives in the wrong state."""

    code = "protocol_error"


class UnknownModelError(InvalidRequestError):
    """The catalog has no model of that name."""

    status = 404
    code = "model_not_found"
    param = "model"


class WrongModelKindError(InvalidRequestError):
    """The model exists and does something else: it speaks where translation is asked for, or the reverse."""

    code = "wrong_model_kind"
    param = "model"


class NotFoundError(InvalidRequestError):
    """No such path."""

    status = 404
    code = "not_found"


class AuthenticationError(InvalidRequestError):
    """This server wants a key, and the request has none that it knows."""

    status = 401
    code = "invalid_api_key"

    def headers(self) -> dict[str, str]:
        """With the challenge that belongs to this status (RFC 9110 section 11.6.1)."""
        return super().headers() | {"www-authenticate": "Bearer"}


class PermissionDeniedError(InvalidRequestError):
    """The request's key may use this, but not change it."""

    status = 403
    code = "permission_denied"


class HostNotAllowedError(InvalidRequestError):
    """The header `Host` is no name of this server: a page of another site may have it resolve to this address."""

    status = 403
    code = "host_not_allowed"


class CrossSiteError(InvalidRequestError):
    """A browser says that a page of another site sends this: its visitor has not asked for it."""

    status = 403
    code = "cross_site"


class MethodNotAllowedError(InvalidRequestError):
    """The path exists, but not with this method."""

    status = 405
    code = "method_not_allowed"


class BodyTooLargeError(InvalidRequestError):
    """An HTTP body or WebSocket frame above its limit."""

    status = 413
    code = "body_too_large"
    close_code = 1009


class AddressTooLongError(InvalidRequestError):
    """The path and the query of a request are longer than any that is served."""

    status = 414
    code = "address_too_long"


class HeadTooLargeError(InvalidRequestError):
    """The head of a request has too many bytes, or too many headers (RFC 6585 section 5)."""

    status = 431
    code = "head_too_large"


class RequestTimeoutError(InvalidRequestError):
    """The head or the body of a request came too slowly."""

    status = 408
    code = "request_timeout"


class QuotaExceededError(ServiceError):
    """The request's key has used up what it may have for now."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"
    close_code = 1013


class SaturatedError(ServiceError):
    """Every one of several processes is busy, and enough requests wait for one already."""

    status = 429
    type = "rate_limit_error"
    code = "saturated"
    close_code = 1013
    retry_after = 1


class UnavailableError(ServiceError):
    """The request is fine, but cannot be served now."""

    status = 503
    type = "service_unavailable"
    code = "unavailable"
    close_code = 1013


class ModelAbsentError(UnavailableError):
    """The model is in the catalog, but its weights are not on this machine."""

    code = "model_not_installed"
    param = "model"


class ModelLoadingError(UnavailableError):
    """The model is being loaded or warmed."""

    code = "model_loading"
    param = "model"
    retry_after = 2


class OverloadedError(UnavailableError):
    """Queues are full, or what is being spoken leaves no room for more."""

    code = "overloaded"
    retry_after = 1


class DrainingError(UnavailableError):
    """The server is shutting down."""

    code = "draining"
    close_code = 1012
    retry_after = 5


class StorageError(ServiceError):
    """Something could not be written to the data directory, or to that of temporary files."""

    code = "storage_failed"


class StorageFullError(StorageError):
    """The disk is full (RFC 4918 section 11.5)."""

    status = 507
    code = "storage_full"


class ModelFailedError(ServiceError):
    """The model could not be loaded, or failed on this request."""

    code = "model_failed"


def model_failed(name: str, cause: Exception) -> ModelFailedError:
    """That a model failed on a request. Of the `cause`, its `__cause__`, the message says only the kind."""
    error = ModelFailedError(f"Model '{name}' failed: {type(cause).__name__}.")
    error.__cause__ = cause
    return error


class IdleTimeoutError(ServiceError):
    """A WebSocket client sent nothing, or read nothing, for too long."""

    status = 408
    type = "invalid_request_error"
    code = "idle_timeout"
    close_code = 1008
