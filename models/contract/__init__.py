"""Contract between `models` and `app`: the methods of a model family, its requests, results and errors.

PCM crosses it as float32 numpy in [-1, 1]; no `mx.array` does, because MLX arrays belong to the thread
that made them. Every method of a model is called on the one thread that owns MLX.
"""

from models.contract.calls import (
    IsCancelled,
    Pcm,
    Progress,
    WarmupStep,
    warm_up,
)
from models.contract.errors import (
    Cancelled,
    InputTooLongError,
    ModelError,
    ModelRequestError,
    OutsideCoverageError,
    UnknownLanguageError,
    UnknownVoiceError,
    UnusableReferenceError,
    WeightsError,
    WeightsMissingError,
)
from models.contract.generation import (
    ChatMessage,
    FinishReason,
    GeneratedText,
    GenerationRequest,
    LanguageModel,
    TokenLogprob,
    TokenSampling,
    Tool,
    ToolCall,
)
from models.contract.model import (
    Description,
    Model,
    ModelKind,
    ModelSpec,
)
from models.contract.recognition import (
    RecognitionRequest,
    RecognitionTask,
    RecognizedSegment,
    RecognizedToken,
    RecognizedWord,
    Recognizer,
)
from models.contract.speech import (
    MAX_SPEED,
    MIN_SPEED,
    SAMPLING_RANGES,
    AudioChunk,
    BatchItem,
    BatchSynthesizer,
    Conditioning,
    Reads,
    Sampling,
    SpeechRequest,
    Synthesizer,
    TokenSynthesizer,
    Voice,
    VoiceCloner,
)
from models.contract.translation import (
    Hypothesis,
    Translation,
    TranslationRequest,
    Translator,
)
