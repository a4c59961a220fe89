"""Generation service: check a conversation against a language model, and turn it into tokens."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from app.config import Settings
from app.engine.admission import Admission, key_name
from app.engine.catalog import Catalog
from app.engine.model_loader import ModelLoads, Progress
from app.engine.service_errors import service_error
from app.engine.worker import ModelWorker
from app.errors import InvalidRequestError, ModelAbsentError
from app.generation.options import GenerationOptions, PreparedGeneration, characters
from app.text.executor import RoundRobinThread
from models.contract import ChatMessage, GenerationRequest, InputTooLongError, LanguageModel, ModelRequestError

if TYPE_CHECKING:
    import httpx2

# Names of OpenAI's models that answer: clients that know no other name get the default language model.
OPENAI_PREFIXES = ("gpt-", "o1", "o3", "o4", "chatgpt-")
TOKEN_CHARACTERS = 32  # of a text's tokens, on average, at most


class GenerationService:
    """Prepares messages to be written, and holds the parts that their streams use."""

    def __init__(
        self, settings: Settings, catalog: Catalog, worker: ModelWorker, loads: ModelLoads, admission: Admission
    ) -> None:
        self.worker = worker
        # Connections to the server that answers in conversations; None: a model of this one does.
        self.remote: httpx2.AsyncClient | None = None
        self.remote_model = settings.llm.get("model", "")
        if settings.llm:
            from app.generation.remote import make_client  # a client of HTTP, which no other start needs

            self.remote = make_client(settings.llm["url"], settings.llm.get("key"))
        self.admission = admission
        self._catalog = catalog
        self._loads = loads
        # Tokens of a long conversation must hold up neither the event loop nor those of a short one.
        self._thread = RoundRobinThread("chat")

    async def close(self) -> None:
        """End the thread besides the model's, and the connections."""
        self._thread.close()
        if self.remote is not None:
            await self.remote.aclose()

    def model_name(self, name: str | None) -> str:
        """Return the catalog's name for a client's name of a model. Raises UnknownModelError and ModelAbsentError."""
        lower = "" if name is None else name.strip().lower()
        if lower and lower in self._catalog:
            return self._catalog.resolve(lower)
        if name is not None and lower and not lower.startswith(OPENAI_PREFIXES):
            return self._catalog.resolve(name)
        default = self._catalog.default_language_model()
        if default is None:
            raise ModelAbsentError(
                "No language model is installed. Install one with: nightingale models import PATH, where PATH is a "
                "GGUF or a folder in mlx-lm's layout; 'nightingale models list' names some."
            )
        return default

    def conversation_model(self, name: str | None) -> str:
        """Return the name of the model that answers in conversations. Raises as `model_name` does."""
        return self.model_name(name) if self.remote is None else self.remote_model

    async def model(self, name: str | None, progress: Progress | None = None) -> tuple[str, LanguageModel]:
        """Return a warm model, which the request holds, and its name. Raises as `ModelLoads.obtain` does."""
        state = await self._loads.obtain(self.model_name(name), "text-generation", progress)
        return state.name, state.ready_language_model()

    async def prepare(self, options: GenerationOptions, progress: Progress | None = None) -> PreparedGeneration:
        """Check `options`; the request holds its model. Raises ServiceError."""
        name, model = await self.model(options.model, progress)
        if not options.messages:
            raise InvalidRequestError("The conversation is empty: there is nothing to answer.", param="messages")
        if options.tools and not model.takes_tools:
            raise InvalidRequestError(
                f"Model '{name}' has no form for calls of tools; leave 'tools' out.", param="tools"
            )
        try:
            prompt = await self._prompt(model, options)
            usual = model.sampling
            request = GenerationRequest(
                prompt=prompt,
                max_tokens=options.max_tokens,
                stop=options.stop,
                temperature=usual.temperature if options.temperature is None else options.temperature,
                top_p=usual.top_p if options.top_p is None else options.top_p,
                top_k=usual.top_k if options.temperature is None and options.top_p is None else 0,
                min_p=options.min_p,
                presence_penalty=options.presence_penalty,
                frequency_penalty=options.frequency_penalty,
                logit_bias=options.logit_bias,
                logprobs=options.logprobs,
                tools=options.tools,
                owner=key_name(),
            )
            model.check(request)
        except ModelRequestError as error:
            raise service_error(error, f"Model '{name}': ", text_param="messages") from error
        return PreparedGeneration(model=name, language_model=model, request=request)

    async def _prompt(self, model: LanguageModel, options: GenerationOptions) -> tuple[int, ...]:
        messages = options.messages
        # Of the context a quarter at most is kept for the answer.
        limit = model.context - min(options.max_tokens, model.context // 4)
        most = TOKEN_CHARACTERS * model.context
        while options.truncate and characters(messages) > most and (shorter := _without_oldest(messages)) != messages:
            messages = shorter
        if characters(messages) > most:  # its tokens would take gigabytes and minutes, to be refused by their number
            raise InputTooLongError(f"the conversation has {characters(messages)} characters; at most {most} are read")
        while True:
            prompt = await self._thread.run(partial(model.prompt, messages, options.tools, reasoning=options.reasoning))
            if not options.truncate or len(prompt) < limit or (shorter := _without_oldest(messages)) == messages:
                return prompt
            messages = shorter


def _without_oldest(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    """Return a conversation without its oldest quarter: many turns then share the beginning of their prompts.

    The instructions and the last message stay, and an answer does not stay without its question.
    """
    head = messages[:1] if messages[0].get("role") == "system" else ()
    rest = messages[len(head) :]
    rest = rest[min(max(1, len(rest) // 4), len(rest) - 1) :]
    while len(rest) > 1 and rest[0].get("role") != "user":
        rest = rest[1:]
    return (*head, *rest)
