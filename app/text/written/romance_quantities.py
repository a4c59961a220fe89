"""Numbers, fractions, powers, sizes and money of Spanish, French, Italian and Portuguese."""

from __future__ import annotations

import re
from typing import Final

from app.text.written.language import LanguageWords, Money, Noun, either
from app.text.written.quantities import (
    FRACTIONS,
    MAX_DIGITS,
    count,
    counted,
    join,
    number_words,
    range_words,
    rate_words,
    read_sign,
    signed,
    sum_words,
    unit_words,
)
from app.text.written.romance_letters import LOWERED, is_feminine, letter_name, spell
from app.text.written.romance_times import NUMBERED, dial_words, hyphened
from app.text.written.rules import Match, Reading, Spoken

_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_PLURAL: Final = re.compile(r"(?<!\bme)(?<=[aeo])s$|(?<=mes|.er)es$")
_NOUN: Final = re.compile(r"\s(mil\s)?([a-zà-ÿ]{3,20})(?![\w'])")
_CALLED: Final = re.compile(
    r"\b(?:tel|teléfono|telefono|telefone|tfno|tél|téléphone|fax|cell?|cell?ular\w*|m[óo]v|móvil|llam\w* al?"
    r"|whatsapp|fone|ligue|chiam\w*|appel\w*)[.:]*\s$",
    re.IGNORECASE,
)
"""Words before a telephone number."""
_SEATS: Final = re.compile(
    r"\b(?:asiento|siège|place|posto|sedile|assento|poltrona|puerta|porta|porte|gate|uscita|sortie|salida|saída|aula|sala"
    r"|salle|classe?|l[ií]nea|ligne|linha|piso|depto\.?|interno|int\.|apto?\.?|bloque|bloco|bus|n[º°.]|n\.º)\s$",
    re.IGNORECASE,
)
"""Nouns whose number may have a letter: seat 14A."""
_SIZED: Final = re.compile(r"\b(?:fotos?|lona|tela|placa|quadro|papel|ripa)\s$")
_RELAY: Final = re.compile(r"(?:50|100|200|400)\s?m(?!\w)")
_MAX_ROOMS: Final = 20  # "3 hab." are rooms, "300 hab." inhabitants


# Numbers


def read_number_of_noun(match: Match, language: LanguageWords) -> Reading:
    """Read a number by the gender of the noun after it: `21 personas`."""
    number = match["number"]
    plain = number.replace(".", "") if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", number) else number
    words = number_words(language, number)
    following = _NOUN.match(match.string, match.end)
    if following is None or number[0] == "0" or not plain.isdecimal() or len(plain) > MAX_DIGITS:
        return words
    value, noun = int(plain), following[2]
    if noun in language.sets["no_nouns"]:
        return words
    if language.tag == "it":
        one = _italian_one(language, noun)
        if value != 1:
            return words
        return (match.start, following.end(), f"un'{noun}") if one == "un'" else one
    thousands = language.gendered and (following[1] is not None or noun == "mil")
    if noun == "mil" or (language.gendered and not thousands and (value == 1) == noun.endswith("s")):
        return language.cardinal(value, "m") if thousands else words
    return language.cardinal(value, "f" if is_feminine(language, noun) else "m")


def _italian_one(language: LanguageWords, noun: str) -> str:
    """Return the Italian "one" before a noun."""
    if noun[-1] == "i":
        return "uno"
    if is_feminine(language, noun):
        return "un'" if noun[0] in "aeiou" else "una"
    return "uno" if re.match(r"s[^aeiouàèìòù]|z|gn|ps|x|y", noun) else "un"


def read_spaced_number(match: Match, language: LanguageWords) -> str:
    """Read a number whose thousands spaces separate, by the gender of the noun after it: `12 000 personas`."""
    feminine = language.gendered and is_feminine(language, match["noun"])
    return language.cardinal(int(match["number"].replace(" ", "")), "f" if feminine else "m")


def read_range_or_number(match: Match, language: LanguageWords) -> str | None:
    """Read a range. The number of a law or an article with a hyphen is none: article 14-1, law 2015-29."""
    first, last, unit, rate = match["first"], match["last"], match["unit"], match["per"]
    before, french = match.before[-20:], language.tag == "fr-fr"
    if first.isdecimal() and last.isdecimal() and int(first) > int(last) and NUMBERED.search(before):
        return hyphened(language, int(first), int(last))
    if _CALLED.search(before) and unit is None:
        return dial_words(language, match.text)
    words = range_words(match, language)
    if words is None:
        # A score of basketball: the numbers are near each other.
        score = unit is None and re.fullmatch(r"[1-9]\d{1,2}[-–][1-9]\d{1,2}", match.text)
        to = f" {language.words['to']} "
        near = score and int(first) < 2 * int(last)
        return f"{number_words(language, first)}{to}{number_words(language, last)}" if near else None
    if rate == "h" and unit == "km" and french:
        return f"{words} à l'heure"
    if rate in language.units and unit not in language.money:
        return f"{words} {language.words['per']} {language.units[rate].one}"
    return f"{words} {each(language, rate)}" if rate else words


def read_percent(match: Match, language: LanguageWords) -> str:
    """Read a percentage, `5 %`. With a dash after it, it begins a range."""
    after = language.words["to" if match["dash"] else "percent"]
    return signed(match, language, f"{number_words(language, match['amount'])} {after}")


def read_per_thousand(match: Match, language: LanguageWords) -> str:
    """Read thousandths: `5 ‰`."""
    return f"{number_words(language, match['amount'])} {language.words['per_thousand']}"


def read_ratio(match: Match, language: LanguageWords) -> str:
    """Read two numbers with a colon between: `16:9`."""
    first, last = number_words(language, match["first"]), number_words(language, match["last"].replace(" ", "."))
    return f"{first} {language.words['to']} {last}"


def read_versus(match: Match, language: LanguageWords) -> str:
    """Read a score, or a size, with an "x" between: `2 x 1`, `4x4`."""
    drive = match["first"] + match["last"] == "44" or _SIZED.search(match.string, 0, match.start)
    between = language.words["by" if drive and " " not in match.text else "to"]
    return f"{number_words(language, match['first'])} {between} {number_words(language, match['last'])}"


def read_again(match: Match, language: LanguageWords) -> str:
    """Read the number of a house with "bis": `12bis`."""
    return f"{language.cardinal(int(match['number']))} {match['word']}"


def read_decade(match: Match, language: LanguageWords) -> str:
    """Read decades: `los 80s y 90s`."""
    first = language.cardinal(int(match["first"]))
    return first if match["link"] is None else first + match["link"] + language.cardinal(int(match["last"]))


def read_aged(match: Match, language: LanguageWords) -> str:
    """Read an Italian age: `18enne`."""
    years = language.cardinal(int(match["years"])).replace("tré", "tre")
    return f"{years if years.endswith('tre') else years[:-1]}enn{match['ending']}"


def read_times(match: Match, language: LanguageWords) -> str:
    """Read how many times: `3x`."""
    value = int(match["number"])
    return language.words["one_time"] if value == 1 else f"{language.cardinal(value, 'f')} {language.words['times']}"


def read_thousands(match: Match, language: LanguageWords) -> str:
    """Read thousands or millions without a currency: `10k`, `2M vistas`."""
    if match["scale"]:
        return number_words(language, match["scaled"], language.scales[match["scale"]])
    words = number_words(language, match["amount"], language.scales["M" if match["millions"] else "k"])
    return "mille" if words in ("uno mila", "un mila") else words


# Fractions


def read_mixed(match: Match, language: LanguageWords) -> Spoken:
    """Read a half before a noun, and whole numbers with a fraction, by the gender of the noun: `2 ½ horas`."""
    top, bottom = FRACTIONS[match["sign"]] if match["sign"] else (int(match["top"]), int(match["bottom"]))
    unit = language.units.get(match["unit"] or "")
    if unit is not None:
        return match.but_last_stop(_fraction_of_unit(match, language, unit, top, bottom))
    whole, noun, half = match["whole"], match["noun"] or "", (top, bottom) == (1, 2)
    before_noun = match.end - (len(noun) + 1 if noun else 0)
    if whole == "1":
        italian = re.sub("(?<!mes)e$", "a", re.sub("i$", "o", noun.replace("mesi", "mese")))
        noun = italian if language.tag == "it" else _PLURAL.sub("", noun)
    if top == bottom and not whole:
        words = f"{language.cardinal(top)} {language.words['out_of']} {language.cardinal(bottom)}"
        return match.start, before_noun, words
    counts = bool(noun) and noun not in language.sets["no_nouns"]
    plural = language.tag == "it" and whole not in (None, "1")
    feminine = counts and (noun[-1] == "e" if plural else is_feminine(language, noun))
    if not whole:
        words = _half(language, feminine) if half and counts else language.part(top, bottom)
        return match.start, before_noun, words
    number = language.cardinal(int(whole), "f" if feminine else "m" if counts else None)
    tail = _and_fraction(language, top, bottom, feminine)
    if not counts:
        return match.start, before_noun, f"{number} {tail}"
    number = _italian_one(language, noun) if language.tag == "it" and whole == "1" else number
    return match.start, match.end, f"{number} {noun} {tail}".replace("' ", "'")


def _half(language: LanguageWords, feminine: bool) -> str:
    return language.words["half_f" if feminine else "half_m"]


def _and_fraction(language: LanguageWords, top: int, bottom: int, feminine: bool) -> str:
    """Return the words of a fraction behind a whole number."""
    if (top, bottom) == (1, 2):
        return language.words["and_half_f" if feminine else "and_half_m"]
    return f"{language.words['half_link']} {language.part(top, bottom)}"


def _fraction_of_unit(match: Match, language: LanguageWords, unit: Noun, top: int, bottom: int) -> str:
    feminine = unit.gender == "f"
    if match["whole"]:
        number = int(match["whole"])
        noun = unit.one if number == 1 else unit.many
        return f"{language.cardinal(number, unit.gender)} {noun} {_and_fraction(language, top, bottom, feminine)}"
    if (top, bottom) == (1, 2):
        return f"{_half(language, feminine)} {unit.one}"
    elided = language.tag in ("fr-fr", "it") and unit.one[0] in "aeiouhé"
    link = "d'" if elided else f"{language.words['of']} "
    return f"{language.part(top, bottom)} {link}{unit.one}"


def read_and_half(match: Match, language: LanguageWords) -> str:
    """Read a half after what was counted: two hours and a half."""
    noun = match.word_before
    feminine = noun.endswith("e") and noun != "mese" if language.tag == "it" else is_feminine(language, noun)
    return _and_fraction(language, 1, 2, feminine)


# Formulas


def read_power(match: Match, language: LanguageWords) -> Spoken:
    """Read a power: `10²`, `x^n`."""
    base, words = match["base"], language.words
    exponent = match["exponent"].translate(_SUPERSCRIPTS).lstrip("^").replace("−", "-")
    power = {"2": words["squared"], "3": words["cubed"]}.get(exponent)
    if power is None:
        value = exponent.lstrip("-")
        number = language.cardinal(int(value)) if value.isdecimal() else value
        power = join(words["power"], words["minus"] if exponent != value else "", number)
    if match["unit"]:
        power += f" {language.units[match['unit']].many}{rate_words(match['per'], language)}"
    if base == ")":
        return match.start_of("exponent"), match.end, power
    base = base.removeprefix(match["coefficient"] or "")
    symbols = [language.tables["symbol"].get(letter) for letter in base]
    if base[0].isdecimal():
        text = number_words(language, base)
    elif any(symbols):
        text = " ".join(name or letter for name, letter in zip(symbols, base, strict=True))
    else:
        text = spell(language, base)
    if match["coefficient"]:
        text = f"{language.cardinal(int(match['coefficient']))} {text}"
    return match.start, match.end, f"{text} {power}"


def read_subscript(match: Match, language: LanguageWords) -> str:
    """Read a letter, or "log", with lowered digits: `x₁`, `log₂`."""
    number = language.cardinal(int(match["digits"].translate(LOWERED)))
    if match["logarithm"]:
        return f"{language.words['logarithm']} {number} {language.words['of']}"
    letter = match["letter"]
    return f"{language.tables['symbol'].get(letter) or letter_name(language, letter)} {number}"


def read_symbol(match: Match, language: LanguageWords) -> str:
    """Read a Greek letter or a sign of mathematics: `π`, `∞`."""
    return language.tables["symbol"][match.text]


def read_product(match: Match, language: LanguageWords) -> str:
    """Read a size: `3x4 m`."""
    unit = language.units.get(match["unit"] or "")
    by = language.words["by"] if unit or language.tag in ("es", "it") else language.tables["sign"]["×"]
    *sizes, last = filter(None, (match["first"], match["second"], match["third"]))
    return f" {by} ".join([*(number_words(language, size) for size in sizes), number_words(language, last, unit)])


def read_formula_sign(match: Match, language: LanguageWords) -> str:
    """Read a sign between numbers or variables: `2 × 3`, `x ≥ y`; in a relay or a size it has another word."""
    if match["sign_of_variable"]:
        return language.tables["sign"][match["sign_of_variable"]]
    relay = language.tag == "fr-fr" and re.search(r"\b4$", match.string[: match.start])
    if relay and _RELAY.match(match.string, match.end):
        return language.words["times"]
    if match["sign"] in ("x", "×"):
        tail = match.string[match.end : match.end + 40]
        size = re.match(rf"[\d.,]+(?:\s?[x×]\s?[\d.,]+)?\s?(?:{either(language.units)})(?!\w)", tail) is not None
        if size or (match["sign"] == "x" and language.tag in ("es", "it")):
            return language.words["by"]
    return read_sign(match, language)


# Units


def read_unit_or_rooms(match: Match, language: LanguageWords) -> Reading:
    """Read an amount of a unit; the first of two with the same unit: `3 m - 5 m`; a unit per several: `5 g/100 g`."""
    number, unit = match["amount"], match["unit"]
    if match["dash"]:
        start = count(language, number, language.units[unit].gender)
        return f"{signed(match, language, start)} {language.words['to']}"
    words = unit_words(match, language)
    if language.tag == "es" and unit.lower() == "hab." and int(re.sub(r"\D.*", "", number)) < _MAX_ROOMS:
        words = number_words(language, number, language.nouns["room"])
    if match["many"]:
        words = f"{words} {language.words['per']} {counted(language, int(match['many']), match['many_unit'])}"
    if language.tag == "it" and words.startswith("una ora"):
        words = words.replace("una ora", "un'ora", 1)
    rate = match["per"]
    if rate == "H" and language.tag == "fr-fr":
        words = f"{words} à l'heure"
    elif rate and rate not in language.units:
        words = f"{words} {each(language, rate)}"
    return match.but_last_stop(words)


def each(language: LanguageWords, unit: str) -> str:
    """Return the words of "per" and a unit or noun."""
    if language.tag == "it" and unit in ("h", "min", "s"):
        return {"h": "all'ora", "min": "al minuto", "s": "al secondo"}[unit]
    noun = language.units.get(unit) or language.units.get(unit.lower() if unit.isupper() else "")
    if noun is not None or language.tag != "it":
        return f"{language.words['per']} {noun.one if noun else unit}"
    if unit[0] in "aeiouh":
        return f"all'{unit}"
    return f"alla {unit}" if is_feminine(language, unit) else f"al {unit}"


def read_word_rate(match: Match, language: LanguageWords) -> str:
    """Read a noun after a stroke, which is "per" behind something counted: `3 veces/día`."""
    is_rate = re.search(r"\d\s[a-zà-ÿ]+$", match.string[: match.start])
    return each(language, match["noun"]) if is_rate else match["noun"]


def read_bare_unit(match: Match, language: LanguageWords) -> str:
    """Read a unit without a number: `en km`."""
    noun = language.units[match["unit"]]
    return noun.many if match.word_before.lower() in language.sets["many_units"] else noun.one


def read_pages(match: Match, language: LanguageWords) -> Spoken:
    """Read a number of pages: `120 pp.`."""
    return match.but_last_stop(number_words(language, match["number"], language.nouns["page"]))


def read_amperes(match: Match, language: LanguageWords) -> str:
    """Read amperes, `10 A`, or the number and letter of a seat: `14A`."""
    number = match["amount"]
    if match.text[-2].isdigit() and _SEATS.search(match.string, 0, match.start):
        return f"{number_words(language, number)} {letter_name(language, 'a')}"
    return number_words(language, number, language.nouns["ampere"])


def read_inches(match: Match, language: LanguageWords) -> str | None:
    """Read inches: `27"`."""
    if match.text[-1] == '"' and match.string[: match.start].count('"') % 2:
        return None
    noun = language.nouns["inch"]
    return f"{count(language, match['amount'], noun.gender)} {noun.many}"


def read_height(match: Match, language: LanguageWords) -> str:
    """Read meters or money with the hundredths after them: 1m80, 12€50."""
    money, number = language.money.get(match["unit"]), int(match["whole"])
    noun = money.noun if money else language.units["m"]
    link = language.words["money_link" if money else "minutes_link"]
    whole = f"{language.cardinal(number, noun.gender)} {noun.one if number == 1 else noun.many}"
    return join(whole, link, language.cardinal(int(match["hundredths"])))


# Money


def _coins(language: LanguageWords, number: str, money: Money) -> str:
    """Return the words of an amount of money; of less than one whole in its hundredths."""
    number = number.replace("'", ",")
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d\d)?", number):
        number = number.replace(",", "")
    noun = money.hundredth
    if noun is None or not re.fullmatch(r"0[.,]\d\d", number) or number.endswith("00"):
        return sum_words(language, number, money)
    value = int(number[-2:])
    return f"{language.cardinal(value, noun.gender)} {noun.one if value == 1 else noun.many}"


def read_money(match: Match, language: LanguageWords) -> Spoken:
    """Read an amount of money, and what it is per: `3,50 €/kg`."""
    money = language.money[match["currency"] or match["currency_after"]]
    words = _coins(language, match["amount"] or match["amount_before"], money)
    rate = each(language, match["per"]) if match["per"] else ""
    return match.but_last_stop(signed(match, language, join(words, rate)))


def read_money_with_code(match: Match, language: LanguageWords) -> str:
    """Read an amount with a sign and a code: `$5 USD`."""
    return _coins(language, match["amount"], language.money[match["currency"]])


def read_prices(match: Match, language: LanguageWords) -> str:
    """Read a range of prices: `10-20 €`."""
    noun = language.money[match["currency"] or match["currency_after"]].noun
    start = count(language, match["first"], noun.gender)
    rate = each(language, match["per"]) if match["per"] else ""
    return join(start, language.words["to"], number_words(language, match["last"], noun), rate)


def read_scaled_money(match: Match, language: LanguageWords) -> str:
    """Read thousands or millions of a currency: `3 millones de €`."""
    scale = language.scales[match["scale"] or match["scale_before"]]
    money = language.money[match["currency"] or match["currency_after"]].noun.many
    number, thousand = match["amount"] or match["amount_after"], scale.many in ("mil", "mille", "mila")
    if thousand and number == "1":
        return f"{'mille' if language.tag == 'it' else scale.many} {money}"
    link = "" if thousand else f"{language.words['of']} "
    if link and language.tag == "fr-fr" and money[0] in "aeiouyé":
        link = "d'"
    return f"{number_words(language, number, scale)} {link}{money}"
