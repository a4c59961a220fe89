"""Translation by a language model: one message for each sentence, whose answer is the translation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from models.contract import (
    GenerationRequest,
    Hypothesis,
    IsCancelled,
    ModelRequestError,
    Progress,
    Translation,
    TranslationRequest,
)
from models.llm.batch import MAX_SEQUENCES
from models.timeline import Timeline

if TYPE_CHECKING:
    from models.llm.pipeline import MlxLanguageModel

# A translation that is longer has lost its way: it explains, or repeats itself.
TOKENS_PER_SOURCE_TOKEN: Final = 3
SPARE_TOKENS: Final = 32
# Columns: FLORES-200 code, name in prompts, whether Hy-MT2 knows it, and TranslateGemma's code.
_ROWS: Final = [line.split("\t") for line in (Path(__file__).parent / "languages.tsv").read_text().splitlines()]
_NAMES: Final = {row[0]: row[1] for row in _ROWS}
_GEMMA: Final = {row[0]: row[3] for row in _ROWS if row[3]}
_HY: Final = tuple(row[0] for row in _ROWS if row[2])
# The prompts are those of README.md of Tencent-Hunyuan/Hy-MT2, in which Chinese has its own.
_PROMPT: Final = (
    "Translate the following text into {language}. Note that you should only output the translated result without any "
    "additional explanation:\n\n{text}"
)
_PROMPT_CHINESE: Final = "将以下文本翻译为{language}，注意只需要输出翻译后的结果，不要额外解释：\n\n{text}"
_CHINESE: Final = {"zho_Hans": "中文", "zho_Hant": "繁体中文", "yue_Hant": "粤语"}


class LanguageModelTranslator:
    """A translator, as `models.contract.Translator` says, that keeps one hypothesis, whatever `beams` are.

    TranslateGemma's template (`model_type` gemma3) names both languages; other models get the prompt of Hy-MT2.
    """

    max_batch = MAX_SEQUENCES

    def __init__(self, model: MlxLanguageModel, model_type: str) -> None:
        self._model = model
        self._is_gemma = model_type.startswith("gemma3")
        self.languages: Sequence[str] = tuple(_GEMMA) if self._is_gemma else _HY

    def targets(self, source: str) -> Sequence[str]:
        """Return all languages but `source`."""
        return [language for language in self.languages if language != source]

    def check(self, request: TranslationRequest) -> None:
        """Raise ModelRequestError for a request that it cannot serve."""
        if request.alternatives:
            raise ModelRequestError("this model gives one translation; ask for no alternatives")
        self._model.check(self._generation(request))

    def warm(self, progress: Progress) -> None:
        """Compile and run every shape that will be served."""
        self._model.warm(progress)

    def translate(
        self, batch: Sequence[TranslationRequest], timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Translation | None]:
        """Translate a batch at once; yield each translation as soon as it is whole."""
        requests = [self._generation(request) for request in batch]
        writing: dict[int, Any] = {
            at: self._model.generate(each, timeline, cancelled) for at, each in enumerate(requests)
        }
        texts = [""] * len(batch)
        try:
            while writing:
                for index, items in list(writing.items()):
                    item = next(items)
                    if item is None:
                        continue
                    texts[index] += item.text if item.kind == "text" else ""
                    if item.finish_reason is not None:
                        del writing[index]
                        best = Hypothesis(texts[index].strip(), math.nan)
                        yield Translation(index, best, source_tokens=len(requests[index].prompt))
                yield None
        finally:
            for items in writing.values():
                items.close()

    def _generation(self, request: TranslationRequest) -> GenerationRequest:
        """Return the request for the message, written greedily."""
        content: Any
        if self._is_gemma:
            source, target = _GEMMA[request.source], _GEMMA[request.target]
            part = {"type": "text", "source_lang_code": source, "target_lang_code": target, "text": request.text}
            content = [part]
        else:
            chinese = _CHINESE.get(request.target)
            prompt = _PROMPT if chinese is None else _PROMPT_CHINESE
            content = prompt.format(language=chinese or _NAMES[request.target], text=request.text)
        size = len(self._model.encode(request.text))
        return GenerationRequest(
            prompt=self._model.prompt([{"role": "user", "content": content}]),
            max_tokens=TOKENS_PER_SOURCE_TOKEN * size + SPARE_TOKENS,
            stop=("<end_of_turn>",) if self._is_gemma else (),
            owner="translation",
        )
