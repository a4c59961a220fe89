"""Instructions in plain words, such as "slowly, and a bit louder": what a model can do of them, and what it cannot.

A table of words is all there is; nothing is understood beyond it. Each word moves speed, volume or emotion by steps. A
degree before it or at the end of its clause doubles or halves them. A negation makes half a step the other way of each
word until the clause ends: "not too fast" is a little slower. Steps add up, to at most two either way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from app.speech.service import SpeechOptions
from app.text.word_sets import word_set
from models.contract import Sampling, Synthesizer

MAX_STEPS: Final = 2.0
# Of one step; SSML's names of rates and volumes are as far apart.
_SPEED: Final = 0.25
_LOUDER, _SOFTER = 4.0, 6.0  # decibels
_EXAGGERATION, _EMOTION = 0.5, 0.25
_MAX_UNKNOWN: Final = 20
# Speed above which a model of phonemes hardly becomes faster: each phoneme needs a frame. Kokoro is 1.7 to 1.9 times as
# fast at 2, and 2.1 to 2.6 times at 4.
MAX_MODEL_SPEED: Final = 2.0
_MAX_QUOTE_CHARACTERS: Final = 40


class Effect(NamedTuple):
    """Steps of one word: faster, louder, more emotional."""

    speed: float = 0.0
    volume: float = 0.0
    emotion: float = 0.0

    def times(self, factor: float) -> Effect:
        """Return the steps times `factor`."""
        return Effect(*(each * factor for each in self))

    def negated(self, factor: float) -> Effect:
        """Return one step at most of each kind, times `factor`."""
        return Effect(*(min(max(each, -1.0), 1.0) * factor for each in self))


# English; Spanish; French; German; Italian; Portuguese. A phrase of two words is joined by "_".
_EFFECTS: Final[dict[Effect, str]] = {
    Effect(speed=-1.0): """
        slow slower slowly unhurried unhurriedly leisurely lento lenta despacio lentamente lent lente lentement langsam
        langsamer lenti piano_piano devagar""",
    Effect(speed=-2.0): "slowest",
    Effect(speed=1.0): """
        fast faster quick quicker quickly rapid rapidly brisk briskly swift swiftly hurry hurried rush rushed speed_up
        rápido rápida rápidamente deprisa rapidement rapide vite schnell schneller rapido rapida rapidamente veloce
        velocemente depressa""",
    Effect(speed=2.0): "fastest",
    Effect(volume=1.0): """
        loud louder loudly high_volume fuerte alto voz_alta fort laut lauter forte alta_voce voce_alta""",
    Effect(volume=2.0): "loudest shout shouts shouting yell yells yelling scream screams screaming",
    Effect(volume=-1.0): """
        quiet quieter quietly soft softer softly hushed murmur murmurs murmuring low_voice low_volume bajo voz_baja
        suave suavemente doucement voix_basse leise leiser sommesso bassa_voce voce_bassa baixo voz_baixa baixinho""",
    Effect(volume=-2.0): """
        quietest whisper whispers whispered whispering susurra susurrando susurro chuchote chuchotez chuchotant flüster
        flüstere flüstern flüsternd sussurra sussurrando sussurre""",
    Effect(volume=-0.5, emotion=-1.0): "gentle gently",
    Effect(speed=-0.4, emotion=-1.0): """
        calm calmer calmly relaxed relaxing soothing soothingly serene serenely peaceful peacefully tranquil tranquilo
        tranquila calmado calmada calme calmement ruhig entspannt calmo calma calmamente tranquillo""",
    Effect(speed=0.4, emotion=1.0): """
        excited excitedly excitement enthusiastic enthusiastically enthusiasm energetic energetically energy lively
        animated emocionado emocionada entusiasmado entusiasmada animado animada enthousiaste aufgeregt begeistert
        entusiasta empolgado""",
    Effect(emotion=1.0): """
        cheerful cheerfully happy happily joyful joyfully upbeat dramatic dramatically expressive expressively
        passionate passionately emotional emotionally intense angry angrily alegre alegremente feliz joyeux joyeuse
        fröhlich allegro allegra""",
    Effect(emotion=-2.0): "monotone monotonous deadpan emotionless unemotional",
}  # fmt: skip
_WORDS: Final[dict[str, Effect]] = {
    word.replace("_", " "): effect for effect, words in _EFFECTS.items() for word in words.split()
}
_STRONG: Final = "very really extremely super much far highly incredibly muy très sehr molto muito viel"
_WEAK: Final = "slightly somewhat bit little rather fairly poco peu bisschen etwas leicht po' po pouco"
_DEGREES: Final = dict.fromkeys(_STRONG.split(), 2.0) | dict.fromkeys(_WEAK.split(), 0.5)
_NOT: Final = """
    not no don't dont never without avoid isn't doesn't shouldn't sin nunca ne pas sans jamais nicht kein keine ohne nie
    non senza mai não nao sem nem"""
_LESS: Final = "less menos moins weniger meno"
_NEGATIONS: Final = dict.fromkeys(_NOT.split(), -0.5) | dict.fromkeys(_LESS.split(), -1.0)
# Words that end a negation, as punctuation does.
_BREAKS: Final = word_set("and but instead then y pero et mais und aber sondern e ma però mas")
# Words that say nothing by themselves.
_FILLERS: Final = word_set("""
    a an the in with at of to for as it its this that these is are be being been you your i me my we us our please
    kindly speak speaks speaking spoken speech say saying talk talking read reading sound sounds sounding use using make
    keep try do does should would could can want like need let have give voice tone pace rate speed tempo volume level
    manner way style more most too so enough quite or nor up down just possible delivery out it's text everything all
    habla hable lee lea con en un una el la voz tono más demasiado por favor de o
    parle parlez lis lisez avec d'une d'un une le voix ton plus trop ou s'il vous plaît te à
    sprich sprechen sie lies mit einer einem eine ein der die das stimme zu bitte oder mehr rede
    parla parli leggi voce tono più troppo per favore
    fale fala leia com uma um tom mais demais por
""")
_TOKEN: Final = re.compile(r"\w+(?:'\w+)*'?|[^\s\w]|\n")
_APOSTROPHES: Final = str.maketrans("’ʼ`", "'''")


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A word of the table, or two, as they were written, and their steps."""

    written: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Instructions:
    """Words of a request that ask for something, and those that are in no table."""

    phrases: tuple[_Phrase, ...] = ()
    unknown: tuple[str, ...] = field(default=())

    @classmethod
    def read(cls, text: str) -> Instructions:
        """Return the instructions of a text, in linear time."""
        phrases: list[_Phrase] = []
        unknown: dict[str, None] = {}
        for clause in _clauses(text):
            found, strange = _read_clause(clause)
            phrases += found
            if len(unknown) < _MAX_UNKNOWN:
                unknown |= dict.fromkeys(strange[:_MAX_UNKNOWN])
        return cls(tuple(phrases), tuple(unknown)[:_MAX_UNKNOWN])

    @property
    def steps(self) -> Effect:
        """Sum of all steps, each within MAX_STEPS."""
        sums = map(sum, zip(*(phrase.effect for phrase in self.phrases), strict=True)) if self.phrases else Effect()
        return Effect(*(min(max(each, -MAX_STEPS), MAX_STEPS) for each in sums))

    def applied(self, options: SpeechOptions, *, speed_given: bool) -> SpeechOptions:
        """Return `options` with what is asked for. A speed that the request gives itself stays."""
        if self.rate != 1.0 and not speed_given:
            options = replace(options, rate=self.rate)
        if emotion := self.steps.emotion:
            options = replace(options, preferred=Sampling(exaggeration=_EXAGGERATION + _EMOTION * emotion))
        return replace(options, gain=self.gain)

    @property
    def rate(self) -> float:
        """Speed that is asked for; 1 is normal."""
        return 1.0 + _SPEED * self.steps.speed

    @property
    def gain(self) -> float:
        """Factor of the samples that is asked for."""
        volume = self.steps.volume
        return float(10.0 ** (volume * (_LOUDER if volume > 0 else _SOFTER) / 20.0))

    def unused(self, synthesizer: Synthesizer, options: SpeechOptions, *, speed_given: bool) -> tuple[str, ...]:
        """Return the options without effect for a model, for `x-ignored`: words, and speed above MAX_MODEL_SPEED."""
        emotional = "exaggeration" in synthesizer.parameters and options.sampling.exaggeration is None
        idle = [
            phrase.written
            for phrase in self.phrases
            if not (
                phrase.effect.volume
                or (phrase.effect.speed and not speed_given and synthesizer.changes_speed)
                or (phrase.effect.emotion and emotional)
            )
        ]
        found = tuple(f"instruction {each}" for each in dict.fromkeys([*idle[:_MAX_UNKNOWN], *self.unknown]))
        fast = (
            options.speed * options.rate > MAX_MODEL_SPEED
            and synthesizer.changes_speed
            and synthesizer.reads == "phonemes"
        )
        return (f"speed above {MAX_MODEL_SPEED:g}", *found) if fast else found


def _clauses(text: str) -> Iterator[list[str]]:
    """Yield the words between punctuation."""
    clause: list[str] = []
    for found in _TOKEN.finditer(text.translate(_APOSTROPHES)):
        written = found.group()
        if written[0].isalnum() or written[0] == "_":
            clause.append(written)
        elif written not in "\"'()-*":
            yield clause
            clause = []
    yield clause


def _read_clause(words: list[str]) -> tuple[list[_Phrase], list[str]]:
    """Return the phrases of one clause, and the runs of words that are in no table."""
    phrases: list[_Phrase] = []
    unknown: list[str] = []
    negation, degree, index, running = 0.0, 0.0, 0, False
    while index < len(words):
        count, effect = _look_up(words, index)
        written = " ".join(words[index : index + count])[:_MAX_QUOTE_CHARACTERS]
        word = written.casefold()
        strange = False
        if effect is not None:
            moved = effect.negated(negation) if negation else effect.times(degree or 1.0)
            phrases.append(_Phrase(written, moved))
            degree = 0.0
        elif word in _DEGREES:
            degree = max(degree, _DEGREES[word])
        elif word in _NEGATIONS:
            negation = _NEGATIONS[word]
        elif word in _BREAKS:
            negation = 0.0
        elif word not in _FILLERS:
            strange = True
            if running and len(unknown[-1]) < _MAX_QUOTE_CHARACTERS:
                unknown[-1] = f"{unknown[-1]} {written}"[:_MAX_QUOTE_CHARACTERS]
            else:
                unknown.append(written)
        running = strange
        index += count
    if degree and phrases:  # "louder, slower a bit"
        phrases[-1] = replace(phrases[-1], effect=phrases[-1].effect.times(degree))
    return phrases, unknown


def _look_up(words: list[str], index: int) -> tuple[int, Effect | None]:
    """Return the number of words of the phrase at `index`, and its steps; None: it is in no table."""
    for count in (2, 1):
        if index + count <= len(words):
            effect = _WORDS.get(" ".join(words[index : index + count]).casefold())
            if effect is not None:
                return count, effect
    return 1, None
