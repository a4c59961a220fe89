"""`POST /v1/phonemes`: the words and phonemes that speak a text, and the origin of each reading. No audio is made."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.errors import DrainingError, ServiceError
from app.server.disconnect import ClientGoneError, until_gone
from app.server.error_responses import error_response
from app.server.routes.speech import check_text
from app.server.schemas import PhonemesBody, PhonemesReply, TokenEntry
from app.server.state import Services, services
from app.speech.service import SpeechOptions
from app.text.tokens import join

router = APIRouter()


@router.post("/v1/phonemes", response_model=PhonemesReply)
async def phonemes(request: Request, body: PhonemesBody) -> Response:
    """Show the words and phonemes that speak `input`, and the origin of each reading."""
    return PhonemesResponse(services(request), body)


class PhonemesResponse(Response):
    """The whole life of one request: check, read, answer; cancelled as soon as the client goes."""

    def __init__(self, app: Services, body: PhonemesBody) -> None:
        super().__init__()
        self._app = app
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        admission = self._app.admission
        try:
            check_text(self._body.input, self._app.settings.max_input_characters)
            admission.admit(len(self._body.input))
        except ServiceError as error:
            await error_response(error)(scope, receive, send)
            return
        try:
            await until_gone(receive, admission.aborted(), self._serve(scope, receive, send))
        except ClientGoneError:
            return
        except DrainingError as error:
            await error_response(error)(scope, receive, send)
        finally:
            admission.release()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply: Response
        try:
            reply = JSONResponse((await self._read()).model_dump(), headers={"cache-control": "no-store"})
        except ServiceError as error:
            reply = error_response(error)
        try:
            async with asyncio.timeout(self._app.settings.stall_seconds):
                await reply(scope, receive, send)
        except TimeoutError:
            return  # the client read nothing

    async def _read(self) -> PhonemesReply:
        body = self._body
        options = SpeechOptions(model=body.model, voice=body.voice, lang=body.lang, any_language=body.any_language)
        spoken: list[str] = []
        phonemes: list[str] = []
        tokens: list[TokenEntry] = []
        async for sentence in self._app.speech.tokens(body.input, options):
            spoken.append(join(sentence, lambda token: token.spoken))
            phonemes.append(join(sentence, lambda token: token.phonemes))
            tokens += [
                TokenEntry(text=token.text, spoken=token.spoken, phonemes=token.phonemes, source=token.source)
                for token in sentence
            ]
        return PhonemesReply(
            spoken=" ".join(filter(None, spoken)), phonemes=" ".join(filter(None, phonemes)), tokens=tokens
        )
