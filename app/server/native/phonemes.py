"""`POST /v1/phonemes`: the words and phonemes that speak a text, and the origin of each reading. No audio is made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response

from app.errors import ServiceError
from app.server.exchange import Exchange
from app.server.openai.speech import check_text
from app.server.schemas import PhonemesBody, PhonemesReply, TokenEntry
from app.server.state import Services, services
from app.speech.document import read_document
from app.speech.options import PreparedSpeech, SpeechOptions
from app.speech.variants import Variants
from app.text.tokens import join
from app.text.types import Token
from app.threads import REQUESTS

router = APIRouter()


@router.post("/v1/phonemes", response_model=PhonemesReply)
async def phonemes(request: Request, body: PhonemesBody) -> Response:
    """Show the words and phonemes that speak `input`, and the origin of each reading."""
    return PhonemesResponse(services(request), body)


class PhonemesResponse(Exchange):
    """Response with the words and phonemes of a text."""

    def __init__(self, app: Services, body: PhonemesBody) -> None:
        super().__init__(app, characters=len(body.input))
        self._body = body

    def check(self, headers: Headers) -> None:
        """Check the text. Raises EmptyInputError and TextTooLongError."""
        check_text(self._body.input, self.app.settings.max_input_characters)

    async def serve(self) -> None:
        """Send the words and phonemes, or the error that stopped them."""
        reply: Response
        try:
            found = await self._read()
            text = await REQUESTS.run(found.model_dump_json)
            reply = Response(text, media_type="application/json", headers={"cache-control": "no-store"})
        except ServiceError as error:
            reply = self.refusal(error)
        with suppress(TimeoutError):  # the client read nothing
            await self.respond_in_time(reply)

    async def _read(self) -> PhonemesReply:
        spoken: list[str] = []
        phonemes: list[str] = []
        tokens: list[TokenEntry] = []
        speech = await self.app.speech.prepare_phonemes(SpeechOptions.of(self._body))
        async for sentence in self._sentences(speech):
            spoken.append(join(sentence, lambda token: token.spoken))
            phonemes.append(join(sentence, lambda token: token.phonemes))
            # A lexicon may say many words for a short one.
            added = sum(len(token.spoken) - len(token.text) for token in sentence) if speech.lexicons else 0
            self.app.admission.charge_client(max(0, added))
            tokens += [
                TokenEntry(text=token.text, spoken=token.spoken, phonemes=token.phonemes, source=token.source)
                for token in sentence
            ]
        return PhonemesReply(
            spoken=" ".join(filter(None, spoken)), phonemes=" ".join(filter(None, phonemes)), tokens=tokens
        )

    async def _sentences(self, speech: PreparedSpeech) -> AsyncIterator[list[Token]]:
        service, text = self.app.speech, self._body.input
        document = await read_document(service, text, speech, self._body.input_type)
        variants = Variants(service, speech)
        for part in document.parts:
            spans = [(0, len(part.text), part.manner)]
            if part.script is None:
                spans = await variants.parts(part.text, part.style)
            elif not part.text.strip():
                continue
            for start, end, style in spans:
                varied = await variants.prepare(style)
                async for sentence in service.tokens(varied, part.text[start:end], part.script):
                    yield sentence
