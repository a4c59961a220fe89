"""How people leave the dictionary: phonemes of a line as they are said in a hurry, or somewhere else.

The product's front end gives each word in its full form. A speaker has habits, drawn once for a line, and follows each
of them in a drawn share of its places.
"""

from __future__ import annotations

import re

import numpy as np

# Words that lose their vowel or an end where nothing stresses them.
_WEAK = {
    "ænd": "ənd ən n", "and": "ənd ən", "ʌv": "əv ə", "ɒv": "əv ə", "fɔɹ": "fəɹ", "fɔː": "fə", "wʌz": "wəz",
    "wɒz": "wəz", "bˌʌt": "bət", "bʌt": "bət", "ðæt": "ðət", "ðat": "ðət", "hæd": "həd əd", "had": "həd əd",
    "hæv": "həv əv", "hav": "həv əv", "hæz": "həz əz", "haz": "həz əz", "hɪm": "ɪm", "hˌɪm": "ɪm", "hɪz": "ɪz",
    "hɜɹ": "ɜɹ həɹ", "hɜː": "ɜː", "hi": "i", "hiː": "iː", "kæn": "kən", "kan": "kən", "æz": "əz", "az": "əz",
    "æt": "ət", "at": "ət", "ju": "jə", "juː": "jə", "jʊɹ": "jəɹ", "jɔːɹ": "jəɹ", "fɹʌm": "fɹəm", "fɹɒm": "fɹəm",
    "ðˌɛm": "ðəm əm", "ðɛm": "ðəm əm", "ɔɹ": "əɹ", "ɔː": "ə", "wɜɹ": "wəɹ", "wɜː": "wə", "ɑɹ": "əɹ", "ɑː": "ə",
    "wʊd": "wəd əd", "ʃʊd": "ʃəd", "kʊd": "kəd", "wɪl": "əl", "ʌs": "əs", "tu": "tə", "tuː": "tə", "ðɛn": "ðən",
    "sˌʌm": "səm", "ɪt": "ət", "ˌɪt": "ət", "ɪn": "ən", "ɪz": "əz", "mI": "mə", "mˌI": "mə",
}  # fmt: skip
_CONSONANT = "bdfhjklmnpstvwzðŋɡɹʃʒθʤʧ"
_VOWEL = "aeiouAIOQWYæɑɒɔəɛɜɪʊʌᵊᵻ"
# Sounds that are said otherwise: in a hurry, in an accent, by a child.
_HABITS = (
    (re.compile(rf"(?<=[{_CONSONANT}])[td](?= [{_CONSONANT}])"), ("",)),  # last night, cold day
    (re.compile(r"(?<=[nsf])[td](?=s?[ ,.?!]|s$)"), ("",)),
    (re.compile(r"(?<=ɪ)ŋ(?=[ ,.?!]|$)"), ("n",)),
    (re.compile(rf"(?<=[{_VOWEL}ɹ])t(?=[əɪᵻᵊi])"), ("T", "d")),
    (re.compile("T"), ("t", "d")),
    (re.compile(r"t(?= |[,.?!])"), ("ʔ",)),
    (re.compile(rf"ɹ(?![{_VOWEL}ˈˌ])"), ("",)),  # no R behind a vowel
    (re.compile("(?<=[ˈˌ])ɑ(?!ɹ)"), ("ɔ", "a")),
    (re.compile("ɔ(?!ɹ)"), ("ɑ",)),
    (re.compile("æ"), ("a", "ɛ")),
    (re.compile("ʌ"), ("ə", "ʊ", "ɑ")),
    (re.compile("ɪ"), ("i", "ə", "ɛ")),
    (re.compile("ɛ(?!ɹ)"), ("ɪ", "A", "æ")),
    (re.compile("[Oo]"), ("ɔ", "Q")),
    (re.compile("A"), ("ɛ", "I")),
    (re.compile("I"), ("ɑ", "Y")),
    (re.compile("i"), ("ɪ",)),
    (re.compile("[uʊ]"), ("ʊ", "u")),
    (re.compile("ð"), ("d", "v", "z")),
    (re.compile("θ"), ("t", "f", "s")),
    (re.compile("(?<![a-zA-Zɐ-ʯː])h"), ("",)),
    (re.compile("z(?=[ ,.?!]|$)"), ("s",)),
    (re.compile("[ˈˌ]"), ("", "ˌ", "ˈ")),
)
_SPREAD = 0.35  # most of a habit's places that follow it
MANY = 4  # habits of a speaker, on average


def _places(text: str, rng: np.random.Generator, share: float, found: re.Pattern[str], said: tuple[str, ...]) -> str:
    def other(place: re.Match[str]) -> str:
        return said[int(rng.integers(len(said)))] if rng.random() < share else place[0]

    return found.sub(other, text)


def loosened(phonemes: str, rng: np.random.Generator) -> str:
    """Return the phonemes of a line in the manner of a drawn speaker."""
    weak = rng.random()
    words = []
    for word in phonemes.split(" "):
        forms = _WEAK.get(word, "").split()
        words.append(forms[int(rng.integers(len(forms)))] if forms and rng.random() < weak else word)
    text = " ".join(words)
    for number in rng.permutation(len(_HABITS))[: rng.poisson(MANY)].tolist():
        found, said = _HABITS[number]
        text = _places(text, rng, float(rng.uniform(0.05, _SPREAD)), found, said)
    if rng.random() < 0.3:  # a pause between words that no comma asks for, or none where one does
        text = _places(text, rng, 0.08, re.compile(r"(?<=[^,.?! ]) (?=[^ ])"), (", ",))
    if rng.random() < 0.3:
        text = _places(text, rng, 0.4, re.compile(", "), (" ",))
    return text
