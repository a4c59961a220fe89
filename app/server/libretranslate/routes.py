"""LibreTranslate's surface (docs.libretranslate.com), so that its clients work unchanged.

`/translate`, `/detect`, `/languages` and `/frontend/settings`; bodies are JSON or forms, errors `{"error": "..."}`,
confidences percentages. An `api_key` is accepted and not used.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse, Response

from app.errors import InvalidRequestError
from app.observability import metrics
from app.server.forms import read_form
from app.server.native.translate import TranslationExchange
from app.server.state import services
from app.translation.plan import MAX_ALTERNATIVES, Format, TranslatedText, TranslationOptions
from app.translation.stream import TranslationStream
from app.translation.text import codes
from models.timeline import Timeline

router = APIRouter()

# LibreTranslate's codes that are not the usual tags, and its old codes.
_CODES = {"zho_Hans": "zh-Hans", "zho_Hant": "zh-Hant"}
_OLD_CODES = {"zt": "zho_Hant", "pb": "por_Latn"}
_FORMATS: tuple[Format, ...] = ("text", "html")
DETECTIONS = 5
_SURROGATE = re.compile("[\ud800-\udfff]")
# Most fields of a form: the clients of this surface send fewer.
MAX_FIELDS = 10_100


def _body(example: dict[str, Any], fields: dict[str, str], *required: str) -> dict[str, Any]:
    """Describe a body that is read field by field, as JSON or as a form."""
    properties = {name: {"description": about} for name, about in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(required), "examples": [example]}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "/translate",
    openapi_extra=_body(
        {"q": "Where is the train station?", "source": "en", "target": "fr"},
        {
            "q": "the text; a list of texts is accepted too",
            "source": "a code of GET /languages, or `auto`",
            "target": "a code of GET /languages",
            "format": "`text` or `html`; default: `text`",
        },
        "q",
        "target",
    ),
)
async def translate(request: Request) -> Response:
    """Translate `q`, a string or a list."""
    fields = await _fields(request)
    texts, batch = _texts(fields)
    target = _text(fields, "target")
    if not target:
        raise InvalidRequestError("Invalid request: missing target parameter")
    text_format = _text(fields, "format") or "text"
    if text_format not in _FORMATS:
        raise InvalidRequestError(f"{text_format[:40]} format is not supported; accepted are {', '.join(_FORMATS)}")
    source = _text(fields, "source") or "auto"
    options = TranslationOptions(
        target=_OLD_CODES.get(target, target),
        source=_OLD_CODES.get(source, source),
        model=_text(fields, "model") or None,
        alternatives=_alternatives(fields),
        format=text_format,
        # Its clients expect an answer, however uncertain.
        best_guess=True,
    )
    return LibreExchange(services(request), texts, options, batch=batch, detected=source == "auto")


@router.post("/detect", openapi_extra=_body({"q": "Où est la gare ?"}, {"q": "the text"}, "q"))
async def detect(request: Request) -> Response:
    """Detect the languages that `q` may be in."""
    app = services(request)
    texts, _ = _texts(await _fields(request))
    with app.admission.admit(sum(map(len, texts))):
        guesses = await app.translation.detect("\n".join(texts), DETECTIONS, Timeline())
    return JSONResponse([_confidence(guess.language, guess.confidence) for guess in guesses])


@router.get("/languages")
async def languages(request: Request) -> Response:
    """List the languages of the default translation model, each with itself and the languages it translates to."""
    _, translator = await services(request).translation.model(None)
    known = {each: code(each) for each in sorted(filter(codes.known, translator.languages), key=codes.name)}
    listed = []
    for each, tag in known.items():
        able = {each, *translator.targets(each)}
        targets = [target for language, target in known.items() if language in able]
        listed.append({"code": tag, "name": codes.name(each), "targets": targets})
    return JSONResponse(listed)


@router.get("/frontend/settings")
async def settings(request: Request) -> Response:
    """Return the settings that LibreTranslate's clients ask for first."""
    app = services(request)
    return JSONResponse(
        {
            "apiKeys": False,
            "charLimit": app.settings.max_translate_characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": False,
            "language": {
                "source": {"code": "auto", "name": "Auto Detect"},
                "target": {"code": "en", "name": "English"},
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }
    )


class LibreExchange(TranslationExchange):
    """A request of `/translate`."""

    surface: metrics.SurfaceName = "libretranslate"

    def __init__(self, *arguments: Any, batch: bool, detected: bool) -> None:
        super().__init__(*arguments)
        self._batch = batch
        self._detected = detected

    async def answer(self, stream: TranslationStream) -> None:
        """Send everything at once: lists where `q` was one."""
        texts = await stream.texts()
        body: dict[str, Any] = {"translatedText": self._shape([text.text for text in texts])}
        if self.plan.options.alternatives:
            body["alternatives"] = self._shape([[other.text for other in text.alternatives] for text in texts])
        if self._detected:
            body["detectedLanguage"] = self._shape([_detected(text) for text in texts])
        await self.send_json(body)

    def _shape(self, values: Sequence[Any]) -> Any:
        return list(values) if self._batch else values[0]


def code(flores: str) -> str:
    """Return LibreTranslate's code of a language: ISO 639, with a script for Chinese."""
    return _CODES.get(flores, codes.tag(flores))


def _confidence(language: str, confidence: float) -> dict[str, Any]:
    return {"confidence": round(100 * confidence, 1), "language": code(language)}


def _detected(text: TranslatedText) -> dict[str, Any]:
    # A text without words has no language. LibreTranslate calls it English, with confidence 0.
    return _confidence(text.source or "eng_Latn", text.confidence or 0.0)


async def _fields(request: Request) -> Mapping[str, Any]:
    """Return the parameters, from a JSON object, a form, or (as LibreTranslate has it) the query."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        fields: dict[str, Any] = dict(request.query_params)
        given: defaultdict[str, list[str]] = defaultdict(list)
        async with read_form(request, max_files=0, max_fields=MAX_FIELDS) as form:
            for key, value in form.multi_items():
                if not isinstance(value, UploadFile):
                    given[key].append(value)
        return fields | {key: values[0] if len(values) == 1 else values for key, values in given.items()}
    body = await request.body()
    if not body:
        return dict(request.query_params)
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequestError("Invalid request: the body is neither JSON nor a form") from None
    if not isinstance(parsed, dict):
        raise InvalidRequestError("Invalid request: the body must be a JSON object")
    return {name: value for name, value in parsed.items() if value is not None}


def _texts(fields: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return the texts, and whether they came as a list."""
    q = fields.get("q")
    texts: list[Any] = q if isinstance(q, list) else [q]
    if q is None or not texts or not any(texts):
        raise InvalidRequestError("Invalid request: missing q parameter")
    for text in texts:
        if not isinstance(text, str):
            raise InvalidRequestError("Invalid request: q must be a string or a list of strings")
        if _SURROGATE.search(text):
            raise InvalidRequestError("Invalid request: q holds half of a UTF-16 surrogate pair")
    return texts, isinstance(q, list)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise InvalidRequestError(f"Invalid request: {name} must be a string")
    return value.strip()


def _alternatives(fields: Mapping[str, Any]) -> int:
    value = fields.get("alternatives", 0)
    try:
        number = int(value) if isinstance(value, (int, str)) else -1
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_ALTERNATIVES:
        raise InvalidRequestError(f"Invalid request: alternatives must be a number from 0 to {MAX_ALTERNATIVES}")
    return number
