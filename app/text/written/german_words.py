"""Words that decide the forms of German: months, days, the endings of ordinals, titles."""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set
from app.text.written.tables import WORDS

MONTHS: Final = {
    **{name: number for number, name in enumerate(WORDS["de"].months, start=1)},
    **{"Jan": 1, "Jän": 1, "Jänner": 1, "Feb": 2, "Mrz": 3, "Apr": 4, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9},
    **{"Sept": 9, "Okt": 10, "Nov": 11, "Dez": 12},
}
DAYS: Final = {
    **{"Mo": "Montag", "Di": "Dienstag", "Mi": "Mittwoch", "Do": "Donnerstag", "Fr": "Freitag", "Sa": "Samstag"},
    "So": "Sonntag",
}
# Words before an ordinal that give it the ending -en, and those that give it -e.
WEAK: Final = word_set(
    "v am im vom zum zur beim dem den des einem einen einer eines meinem meinen meiner seinem seinen seiner ihrem "
    "ihren ihrer unserem unseren unserer deinem deinen keinem keinen keiner diesem diesen jedem jeden bis ab seit nach "
    "unterm"
)
STRONG_E: Final = word_set(
    "der die das diese dieses dieser jede jedes jeder ins ans aufs fürs durchs eine meine seine ihre unsere deine keine"
)
ARTICLES: Final = ((WEAK | STRONG_E) - word_set("ab nach bis seit eine")) | word_set("mein dein sein unser ihr kein")
"""Words before an ordinal that make a number at the end of a sentence one."""
PREPOSITIONS: Final = word_set(
    "an auf aus außer bei hinter in mit nach neben seit über unter von vor während wegen zu zwischen trotz statt "
    "anfang mitte ende gegenüber innerhalb außerhalb"
)
NEUTER: Final = word_set(
    "jahr jahrhundert jahrtausend kapitel mal quartal halbjahr semester spiel tor kind buch viertel drittel "
    "obergeschoss stockwerk rennen bataillon gebot bild album "
    "land haus team ziel lied wort werk stück geschäft gleis zimmer wochenende treffen tier gesetz"
)
NEUTER_ENDING: Final = re.compile(r"^[A-ZÄÖÜ][a-zäöüß]+(?:chen|lein|um|ment|o|tor|jahr|buch|spiel|mal)$")
FEMININE: Final = re.compile(r"(?:ung|heit|keit|schaft|ion|tät|e|Liga|Bundesliga|Halbzeit|Woche)$")
# Words that go on after an ordinal that begins a new word in capitals.
ORDERED: Final = word_set(
    "jahrhundert jahrtausend klasse stock stockwerk etage platz kapitel weltkrieg liga bundesliga mal tag woche monat "
    "halbzeit quartal semester halbjahr fc auflage obergeschoss lebensjahr geburtstag jahrestag advent runde rang "
    "absatz minute stunde sekunde spieltag etappe satz gang sieg treffer versuch og obergeschoss ug teil schritt preis"
) | {name.lower() for name in MONTHS}
KINGS: Final = word_set(
    "Ludwig Friedrich Wilhelm Karl Heinrich Otto Georg Elisabeth Katharina Napoleon Pius Benedikt Leopold Maximilian "
    "Philipp Alexander Nikolaus Konrad Rudolf Sigismund Johannes Gustav"
)
QUEENS: Final = word_set(
    "Elisabeth Elisabeths Katharina Maria Margarethe Beatrix Christina Viktoria Victoria Kleopatra Anna Isabella"
)
DATIVE: Final = word_set("von mit unter bei nach zu vor seit gegenüber dem")
ACCUSATIVE: Final = word_set("für gegen durch ohne um den")
TITLES: Final = word_set(
    "König Kaiser Papst Zar Königin Kaiserin Zarin Prinz Herzog Sultan Fürst Graf Kurfürst Heinrich"
)
NOMINATIVE: Final = re.compile(r"(?:us|es|as|is|os)$")
PARTS: Final = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅛": (1, 8)}
# Nouns that are feminine, though their ending does not say so.
FEMININES: Final = word_set(
    "Person Zwiebel Kartoffel Nuss Nacht Hand Frau Mutter Tochter Schwester Stadt Firma Minute Packung Tafel Regel "
    "Zahl Wahl Fahrt Tür Spur Hälfte Saison Mannschaft Ausgabe Art Antwort Million Uhr Bank Kraft Gabel Schachtel "
    "Schüssel Oma Pizza Cola Mail SMS App Paprika Insel"
)
# Words before digits that are read one by one, and the text between.
CODED: Final = word_set(
    "PIN Code TAN BLZ ISBN Passwort Kontonummer Kundennummer Bestellnummer Rechnungsnummer Auftragsnummer Konto Kto. "
    "Sendungsnummer Ticketnummer Buchungsnummer Artikelnummer Mitgliedsnummer Matrikelnummer Seriennummer Kto.-Nr. "
    "Kd.-Nr. Best.-Nr. Art.-Nr. Rg.-Nr. Zugangscode Bestätigungscode Steuernummer Personalnummer"
)
LINKS: Final = (" ", ": ", " lautet ", " ist ", " lautet: ", " Nr. ")
# Ends of words before the number of a house or seat, whose letter is no unit: "Königstr. 1A".
HOUSED: Final = (
    *(
        "str.",
        "Str.",
        "straße",
        "Straße",
        "weg",
        "Weg",
        "platz",
        "Platz",
        "allee",
        "gasse",
        "ring",
        "Nr.",
        "damm",
        "ufer",
    ),
    *("Zimmer", "Haus", "Block", "Gate", "Reihe", "Sitz", "Raum", "Wagen"),
)
# Short names of books of the Bible, before a chapter and verse.
BIBLE: Final = {
    "Joh": "Johannes", "Mt": "Matthäus", "Mk": "Markus", "Lk": "Lukas", "Röm": "Römer", "Kor": "Korinther",
    "Gen": "Genesis", "Ex": "Exodus", "Ps": "Psalm", "Jes": "Jesaja", "Offb": "Offenbarung", "Apg": "Apostelgeschichte",
    "Gal": "Galater", "Eph": "Epheser", "Phil": "Philipper", "Hebr": "Hebräer", "Jak": "Jakobus", "Petr": "Petrus",
    "Mose": "Mose", "Jer": "Jeremia", "Spr": "Sprüche",
}  # fmt: skip
# Nouns after the stroke of a rate.
RATES: Final = {
    **{
        name: name for name in ("Monat", "Jahr", "Tag", "Woche", "Nacht", "Person", "Stück", "Stunde", "Minute", "Kopf")
    },
    **{
        name: name
        for name in ("Sekunde", "Quartal", "Liter", "Kilo", "Einwohner", "Seite", "Portion", "Zimmer", "User")
    },
    **{"Mon.": "Monat", "J.": "Jahr", "Pers.": "Person", "Wo.": "Woche", "mtl.": "Monat", "d": "Tag", "a": "Jahr"},
}
PROPORTIONS: Final = word_set("verhältnis seitenverhältnis maßstab format bildformat mischungsverhältnis quote")
LASTING: Final = word_set(
    "dauert dauerte dauer fahrzeit fahrtzeit laufzeit spielzeit gesamtzeit zeit in nach etwa ca rund circa knapp fast "
    "über läuft lief brauchte braucht benötigt arbeitszeit von"
)
# Abbreviations of adjectives, which take an ending before a noun.
ADJECTIVES: Final = word_set(
    "sog. Sog. ehem. Ehem. dt. Dt. engl. frz. ital. österr. ev. kath. techn. wiss. öffentl. staatl. städt. lfd. allg. "
    "lat. griech. stv. stellv."
)
OPERATORS: Final = {
    "==": "gleich", "!=": "ungleich", ">=": "größer oder gleich", "<=": "kleiner oder gleich", "&&": "und",
    "||": "oder", "≠": "ungleich", "∞": "unendlich", "√": "Wurzel aus", "~": "etwa", "*": "mal",
}  # fmt: skip
GREEK: Final = {
    "α": "Alpha", "β": "Beta", "γ": "Gamma", "δ": "Delta", "ε": "Epsilon", "ζ": "Zeta", "η": "Eta", "θ": "Theta",
    "ι": "Jota", "κ": "Kappa", "λ": "Lambda", "μ": "Mü", "ν": "Nü", "ξ": "Xi", "ο": "Omikron", "π": "Pi", "ρ": "Rho",
    "σ": "Sigma", "ς": "Sigma", "τ": "Tau", "υ": "Ypsilon", "φ": "Phi", "χ": "Chi", "ψ": "Psi", "ω": "Omega",
}  # fmt: skip

_LAST_NUMBER: Final = re.compile(r"(?:([^\W\d_]+)\s+)?(?<![\w.,:])\d{1,4}\.$")
_LISTED: Final = re.compile(
    r"[\w)][,;:(]\s?\d{1,2}\.$|\d\.(?:,| und| u\.| oder| bis| sowie)\s\d{1,4}\.$"
)  # "2. Etage, 1. Tür"
_FIRST_WORD: Final = re.compile(r"[^\W\d_]+")
# Words that often begin a sentence, in small letters.
_STARTS: Final = word_set(
    "der die das er sie es wir ich ihr man ein eine dann danach da dort hier jetzt heute aber und doch denn in im am "
    "an auf bei mit nach von vor zu zum für wer was wo wie wann warum wenn weil so auch noch nun alle "
    "kein keine dies diese dieser"
)
_SPAN: Final = re.compile(r"[–-](?=\w)")
CROWD: Final = (
    r"(?:Nutzern?|Usern?|Followern?|Aufrufen?|Views|Abonnent(?:en)?|Downloads|Klicks|Menschen|Einwohnern?|Zuschauern?|Kunden"
    r"|Euro|Dollar|Likes|Stimmen|Besuchern?|Fans|Leuten?)\b"
)
"""What is counted in millions."""


def ordinal_continues(stem: str, following: str) -> bool:
    """Return whether a sentence goes on after a full stop at the end of `stem`: an ordinal, or a day in a span."""
    if _SPAN.match(following):
        return True
    found, first = _LAST_NUMBER.search(stem), _FIRST_WORD.match(following)
    if found is None or first is None:
        return False
    before, after = (found.group(1) or "").lower(), first.group().lower()
    if after in ORDERED or before in ARTICLES:
        return True
    return (before in ("ein", "als") or _LISTED.search(stem) is not None) and after not in _STARTS
