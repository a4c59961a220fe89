"""Sentences with figures, times, dates, money, codes and initials, as the product's front end says them."""

# ruff: noqa: SIM905  (word lists read better as text)

from __future__ import annotations

import random
import re
from collections.abc import Callable

from app.speech.verification import spoken_text
from app.text.planner import get_phonemizer
from training import words

TEMPLATES = """
The meeting begins at {time} on {date}.
Flight {code} to {place} leaves from gate {code} at {time}.
The train number {small} was {small} minutes late.
It costs {money}, or {money} with the tax.
Your order {code} will arrive on {date}.
The {initials} said that {percent} of the {large} people agreed.
Call {phone} before {time}, please.
In {year} there were {large} of them, and in {year} only {small}.
She lives at {small} {place} Street, on the {ordinal} floor.
The temperature is {signed} degrees, and {percent} of the sky is clear.
Is it {decimal} {unit} or {decimal} {unit}?
He was born on {date} {year}.
The {initials} and the {initials} met in {place} at {time}.
Chapter {small} begins on page {large}.
We drove {decimal} {unit} in {small} hours and {small} minutes.
Room {code} is on the {ordinal} floor of building {letter}.
The code is {phone}, and then {letter} {letter} {small}.
They won {small} to {small} in {year}.
The price rose from {money} to {money}, by {percent}.
{small} plus {small} is not {large}.
Version {decimal} of the {initials} came in {year}.
At {time} the {ordinal} bus goes to {place}.
Turn to channel {small} at {time}!
The {ordinal} of {month} is a {day}.
My {initials} file has {large} {unit}.
""".strip().splitlines()
PLACES = "Paris London Boston Dublin Oxford Vienna Chicago Denver Berlin Madrid Sydney Toronto Park Mill".split()
UNITS = "kg km cm mm mph miles meters liters grams pounds inches feet seconds hours GB MB Hz kHz".split()
# Not A and I, which are words, too.
LETTERS = "BCDEFGHJKLMNOPQRSTUVWXYZ"


class FigureWriter:
    """Writes sentences from one random stream; equal seeds give equal sentences."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._phonemizer = rng, get_phonemizer("en-us")
        integer, choose = rng.randint, rng.choice
        self._slots: dict[str, Callable[[], str]] = {
            "time": lambda: choose((f"{integer(1, 12)}:{integer(0, 59):02}", f"{integer(1, 12)} o'clock")),
            "date": lambda: f"{choose(words.MONTHS)} {integer(1, 28)}",
            "month": lambda: choose(words.MONTHS),
            "day": lambda: choose(words.WEEKDAYS),
            "year": lambda: str(integer(1700, 2049)),
            "small": lambda: str(integer(2, 99)),
            "large": lambda: str(integer(100, choose((999, 9999, 999_999)))),
            "signed": lambda: str(integer(-30, 40)),
            "decimal": lambda: f"{integer(0, 99)}.{integer(1, 99)}",
            "percent": lambda: f"{integer(1, 100)}%",
            "ordinal": lambda: self._ordinal(integer(1, 31)),
            "money": lambda: f"${integer(1, choose((99, 9999)))}" + choose(("", f".{integer(5, 99):02}")),
            "phone": lambda: " ".join(str(integer(0, 9)) for _ in range(integer(3, 7))),
            "code": lambda: "".join(choose(LETTERS) for _ in range(integer(1, 2))) + str(integer(1, 999)),
            "initials": lambda: "".join(choose(LETTERS) for _ in range(integer(2, 4))),
            "letter": lambda: choose(LETTERS),
            "place": lambda: choose(PLACES),
            "unit": lambda: choose(UNITS),
        }

    @staticmethod
    def _ordinal(number: int) -> str:
        ending = "th" if 10 < number < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
        return f"{number}{ending}"

    def sentence(self) -> str:
        """Return a sentence in words alone."""
        filled = re.sub(r"\{(\w+)\}", lambda slot: self._slots[slot[1]](), self._rng.choice(TEMPLATES))
        return spoken_text(filled, self._phonemizer)
