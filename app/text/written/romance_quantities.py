"""Numbers, fractions, powers, sizes and money of Spanish, French, Italian and Portuguese."""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set
from app.text.written.forms import Found, either
from app.text.written.romance_times import NUMBERED, TimeForms
from app.text.written.words import Gender, Money, Noun

_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_VULGAR: Final = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅛": (1, 8)}
# Endings of nouns of feminine gender; French ones need a list.
_FEMININE: Final = {
    "es": re.compile(
        r"(?:a|ión|dad|tud|umbre|ez|^(?:noche|parte|serie|vez|mano|calle|clase|foto|moto|radio|flor|luz|cruz"
        r"|voz|red|pared"
        r"|ley|mujer|llave|nube|torre|fuente|base|frase|fase|imagen|sede|tarde|nave|clave|madre|leche|sal|piel|señal"
        r"|cárcel|sangre|muerte|gente|corte|tesis|crisis|dosis|orden))$"
    ),
    "pt-br": re.compile(
        r"(?:a|ã|ção|são|dade|tude|gem|^(?:noite|parte|série|vez|mão|foto|moto|flor|luz|cruz|voz|rede|parede"
        r"|lei|mulher|colher|cor"
        r"|chave|nuvem|torre|fonte|base|frase|fase|ordem|sede|tarde|nave|mãe|tribo|ponte|morte|gente|dose|tese|crise))$"
    ),
    "it": re.compile(
        r"(?:a|zione|sione|gione|tà|tù|trice|udine|^(?:parte|notte|serie|classe|mano|fase|sede|edizione|foto"
        r"|moto|auto|radio"
        r"|chiave|nave|neve|rete|legge|parete|torre|luce|voce|croce|pelle|carne|morte|fonte|gente|base|frase|tesi|crisi"
        r"|madre|moglie|specie|superficie|vite|siepe|valle|mente|canzone|ragione|dose))$"
    ),
    "fr-fr": re.compile(
        r"(?:[st]ion|[^u]ité|ée|ure|ette|esse|ine|ise|euse|trice|ude|ade|ère|onne|ance|ence|ille|elle|aison"
        r"|sson|ie|gne|ère"
        r"|oire|[nrtv]ue|que|nte|rte|tte|aine|^(?:heure|nuit|place|page|chambre|table|part|fois|fin|tranche|goutte"
        r"|pomme|boîte"
        r"|guerre|partie|rue|vie|main|photo|moto|auto|radio|vidéo|pizza|école|salle|ville|île|étoile|lettre|fenêtre"
        r"|chaise|vache|image|plage|femme|sœur|mère|chose|rose|cause|robe|jambe|loi|clé|maison|chanson|leçon"
        r"|façon|fleur"
        r"|couleur|voix|croix|mer|eau|dent|pièce|dose|tasse|classe|course|réponse|année|journée|semaine|seconde"
        r"|marche|tâche|fiche|couche|bouche|branche|douche|langue|vague|peur|erreur|gare|note|côte|pâte|faute|route))$"
    ),
}
_MASCULINE: Final = re.compile(
    r"^(?:día|dia|mapa|problema|programa|sistema|tema|clima|idioma|grama|quilograma|planeta|cometa|sofá"
    r"|dálmata|atleta|poeta|drama|poema|diploma|síntoma|telegrama|idiota|turista|artista|siècle|tour|musée"
    r"|lycée|jour|litre"
    r"|magazine|verre|kilomètre|mètre|poète|papa|cinema|cinéma|domaine|moine|incendie|génie|gigue|cirque"
    r"|chèque|masque|risque|kiosque|disque|moustique"
    r"|élastique|territoire|laboratoire|bagne|signe|peigne|lustre|patrimoine|capitaine|silence|exercice"
    r"|service|cosmonaute"
    r"|mercure|murmure|futur|fromage)$"
)
_PLURAL: Final = re.compile(r"(?<!\bme)(?<=[aeo])s$|(?<=mes|.er)es$")
_MAX_NUMERAL: Final = 20  # the last ordinal that is said for a Roman numeral before a noun
_NOUN: Final = re.compile(r"\s(mil\s)?([a-zà-ÿ]{3,20})(?![\w'])")
_MAX_DIGITS: Final = 15  # digits that are read as one number
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
_MIN_ANGLE: Final = 30
_RELAY: Final = re.compile(r"(?:50|100|200|400)\s?m(?!\w)")
NO_NOUNS: Final = word_set(
    "más mais menos tras após plus moins più meno por par per para pour con com avec sin sem sans como comme come que "
    "del della dei delle degli des sur sobre sopra entre tra fra fois además está está estão son são sont será fue foi "
    "ogni cada chaque seul hasta desde depuis depois dopo après puis poi mais sino segundo según contra dans "
    "nella nel hay quando "
    "cuando donde onde según ante até sus seus tras pues antes los las dos das nos era para tous tout les "
    "sans chez dont"
)


class QuantityForms(TimeForms):
    """Numbers and money. Methods are safe on any thread."""

    def _read(self, number: str, noun: Noun | None = None) -> str | None:
        said = super()._read(number.replace("'", ","), noun)
        return re.sub(r"(cent|vingt)s (?=mille\b)", r"\1 ", said) if said and self._french else said

    def _feminine(self, noun: str) -> bool:
        stems = [noun]
        if self._tag != "it":
            stems += [noun.removesuffix("s"), noun.removesuffix("es"), re.sub("ces$", "z", noun)]
            stems += [re.sub("ções$", "ção", noun), re.sub("ns$", "m", noun)] if self._portuguese else []
        ends = _FEMININE[self._tag]
        return not any(map(_MASCULINE.search, stems)) and any(map(ends.search, stems))

    def _range(self, match: re.Match[str]) -> str | None:
        """Read a range. The number of a law or an article with a hyphen is none: article 14-1, law 2015-29."""
        first, last = match["r1"], match["r2"]
        before = match.string[max(0, match.start() - 20) : match.start()]
        if first.isdecimal() and last.isdecimal() and int(first) > int(last) and NUMBERED.search(before):
            return self._hyphened(int(first), int(last))
        if _CALLED.search(before) and match["ru"] is None:
            return self._dial(match)
        said = super()._range(match)
        if said is None and match["ru"] is None and re.fullmatch(r"[1-9]\d{1,2}[-–][1-9]\d{1,2}", match.group()):
            # A score of basketball: the numbers are near each other.
            return f"{self._read(first)} {self._words.to} {self._read(last)}" if int(first) < 2 * int(last) else None
        if said and match["re"] == "h" and match["ru"] == "km" and self._french:
            return f"{said} à l'heure"
        unit = self._words.units.get(match["re"] or "")
        if said and unit is not None and match["ru"] not in self._words.money:
            return f"{said} {self._words.per} {unit.one}"
        return f"{said} {self._each(match['re'])}" if said and match["re"] else said

    def _percent(self, match: re.Match[str]) -> str:
        if match["pr"] is None:
            return super()._percent(match)
        minus = f"{self._words.minus} " if match["pm"] else ""
        return f"{minus}{self._read(match['pn'])} {self._words.to}"

    def _ordinal(self, match: re.Match[str]) -> str | Found | None:
        """Read an ordinal. "of 60º", that no noun follows, is an angle in Spanish and Portuguese."""
        alone = (
            match["e"] == "º"
            and match.group().find(".") < 0
            and not re.match(r"\s?[^\W\d]", match.string[match.end() :])
        )
        before = match.string[: match.start()].split()[-1:]
        alone = alone and (not before or before[0].lower() in ("de", "a", "en", "em", "hasta", "até", "por"))
        if self._gendered and alone and int(match["o"]) >= _MIN_ANGLE:
            return self._read(match["o"], self._words.units["º"])
        return super()._ordinal(match)

    def _ratio(self, match: re.Match[str]) -> str:
        return f"{self._read(match['ra'])} {self._words.to} {self._read(match['rb'].replace(' ', '.'))}"

    def _versus(self, match: re.Match[str]) -> str:
        drive = match["va"] + match["vb"] == "44" or _SIZED.search(match.string, 0, match.start())
        drive = drive and " " not in match.group()
        return f"{self._read(match['va'])} {self._more.by if drive else self._words.to} {self._read(match['vb'])}"

    def _power(self, match: re.Match[str]) -> Found:
        base, exponent = match["pw"], match["px"].translate(_SUPERSCRIPTS).lstrip("^").replace("−", "-")
        more = self._more
        power = {"2": more.squared, "3": more.cubed}.get(exponent)
        if power is None:
            value = exponent.lstrip("-")
            said = self._numbers.cardinal(int(value)) if value.isdecimal() else value
            power = " ".join(filter(None, (more.power, self._words.minus if exponent != value else "", said)))
        if base == ")":
            return match.start("px"), match.end(), power
        base = base.removeprefix(match["pk"] or "")
        greek = [more.signs.get(letter) for letter in base]
        if base[0].isdecimal():
            read = self._read(base)
        elif any(greek):
            read = " ".join(name or letter for name, letter in zip(greek, base, strict=True))
        else:
            read = self._letters.spell(base)
        if match["pk"]:
            read = f"{self._numbers.cardinal(int(match['pk']))} {read}"
        return match.start(), match.end(), f"{read} {power}"

    def _coefficient(self, match: re.Match[str]) -> str:
        return self._numbers.cardinal(int(match["cf"]))

    def _amperes(self, match: re.Match[str]) -> str:
        if match.group()[-2].isdigit() and _SEATS.search(match.string, 0, match.start()):
            return f"{self._read(match['am'])} {self._more.single.get('a', 'a')}"
        one, many = ("ampère", "ampères") if self._french else ("ampere", "ampere" if self._tag == "it" else "amperes")
        return f"{self._read(match['am'], Noun(one, many) if self._tag != 'es' else Noun('amperio', 'amperios'))}"

    def _root(self, match: re.Match[str]) -> str:
        return self._more.root

    def _greek(self, match: re.Match[str]) -> str:
        return self._more.signs[match["gr"]]

    def _minus(self, match: re.Match[str]) -> str:
        return self._words.minus

    def _less(self, match: re.Match[str]) -> str:
        return self._words.minus

    def _divided(self, match: re.Match[str]) -> str:
        return self._words.signs["÷"]

    def _mixed(self, match: re.Match[str]) -> Found | None:
        """Read a half before a noun, and whole numbers with a fraction, by the gender of the noun."""
        top, bottom = _VULGAR[match["mf"]] if match["mf"] else (int(match["mt"]), int(match["mb"]))
        unit = self._words.units.get(match["mu2"] or "")
        if unit is not None:
            return self._mixed_unit(match, unit, top, bottom)
        whole, noun = match["mw"], match["mx"] or ""
        if whole == "1":
            italian = re.sub("(?<!mes)e$", "a", re.sub("i$", "o", noun.replace("mesi", "mese")))
            noun = italian if self._tag == "it" else _PLURAL.sub("", noun)
        if top == bottom and not whole:
            said = f"{self._numbers.cardinal(top)} {self._more.out_of} {self._numbers.cardinal(bottom)}"
            return match.start(), match.end() - (len(noun) + 1 if noun else 0), said
        counts = bool(noun) and noun not in NO_NOUNS
        plural = self._tag == "it" and whole not in (None, "1")
        feminine = counts and (noun[-1] == "e" if plural else self._feminine(noun))
        if not whole:
            if (top, bottom) == (1, 2) and counts:
                return match.start(), match.end() - len(noun) - 1, self._more.halves[feminine]
            return match.start(), match.end() - (len(noun) + 1 if noun else 0), self._numbers.part(top, bottom)
        link = self._words.minutes or ("et" if self._french else "y")
        tail = self._more.and_half[feminine] if (top, bottom) == (1, 2) else f"{link} {self._numbers.part(top, bottom)}"
        count = self._numbers.cardinal(int(whole), "f" if feminine else "m" if counts else None)
        if counts:
            count = self._italian_one(noun) if self._tag == "it" and whole == "1" else count
            return match.start(), match.end(), f"{count} {noun} {tail}".replace("' ", "'")
        return match.start(), match.end() - (len(noun) + 1 if noun else 0), f"{count} {tail}"

    def _and_half(self, match: re.Match[str]) -> str:
        """Read a half after what was counted: two hours and a half."""
        before = match.string[: match.start()].split()[-1:]
        noun = before[0] if before else ""
        feminine = noun.endswith("e") and noun != "mese" if self._tag == "it" else self._feminine(noun)
        return self._more.and_half[feminine]

    def _mixed_unit(self, match: re.Match[str], unit: Noun, top: int, bottom: int) -> Found:
        half, feminine, last = (top, bottom) == (1, 2), unit.gender == "f", match.end()
        if match.group().endswith(".") and not match.string[last:].strip():
            last -= 1
        if not match["mw"]:
            link = f"{self._words.of} "
            if self._tag in ("fr-fr", "it") and unit.one[0] in "aeiouhé":
                link = "d'"
            said = (
                f"{self._more.halves[feminine]} {unit.one}"
                if half
                else f"{self._numbers.part(top, bottom)} {link}{unit.one}"
            )
            return match.start(), last, said
        count = int(match["mw"])
        link = self._words.minutes or ("et" if self._french else "y")
        tail = self._more.and_half[feminine] if half else f"{link} {self._numbers.part(top, bottom)}"
        noun = unit.one if count == 1 else unit.many
        return match.start(), last, f"{self._numbers.cardinal(count, unit.gender)} {noun} {tail}"

    def _pages(self, match: re.Match[str]) -> Found:
        noun = {"es": Noun("página", "páginas", "f"), "fr-fr": Noun("page", "pages", "f")}.get(self._tag)
        noun = noun or (Noun("pagina", "pagine", "f") if self._tag == "it" else Noun("página", "páginas", "f"))
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, f"{self._read(match['pgn'], noun)}"

    def _unit(self, match: re.Match[str]) -> str | Found:
        said, rate = super()._unit(match), match["up"]
        if rate == "H" and self._french and isinstance(said, str):
            return f"{said} à l'heure"
        counted = isinstance(said, str) and rate and rate not in self._words.units
        return f"{said} {self._each(rate)}" if counted else said

    def _per_thousand(self, match: re.Match[str]) -> str:
        return f"{self._read(match['pt2'])} {self._more.per_thousand}"

    def _thousands(self, match: re.Match[str]) -> str:
        if match["ks"]:
            return f"{self._read(match['kp'], self._words.scales[match['ks']])}"
        said = self._read(match["kn"], self._words.scales["M" if match["km"] else "k"])
        return "mille" if said in ("uno mila", "un mila") else f"{said}"

    def _decade(self, match: re.Match[str]) -> str:
        first = self._numbers.cardinal(int(match["de"]))
        return first if match["dei"] is None else first + match["dei"] + self._numbers.cardinal(int(match["de2"]))

    def _times(self, match: re.Match[str]) -> str:
        value = int(match["t"])
        times = self._more.times
        if value == 1:
            return {"es": "una vez", "fr-fr": "une fois", "it": "una volta"}.get(self._tag, "uma vez")
        return f"{self._numbers.cardinal(value, 'f')} {times}"

    def _product(self, match: re.Match[str]) -> str | None:
        unit = self._words.units.get(match["xu"] or "")
        by = self._more.by if unit or self._tag in ("es", "it") else self._words.signs["×"]
        numbers = [match["x1"], match["x2"], *((match["x3"],) if match["x3"] else ())]
        said = [self._read(number) for number in numbers[:-1]] + [self._read(numbers[-1], unit)]
        return f" {by} ".join(filter(None, said))

    def _spaced(self, match: re.Match[str]) -> str:
        value = int(match["sp"].replace(" ", ""))
        return self._numbers.cardinal(value, "f" if self._gendered and self._feminine(match["sy"]) else "m")

    def _height(self, match: re.Match[str]) -> str:
        """Read meters or money with the hundredths after them: 1m80, 12€50."""
        money, number = self._words.money.get(match["hu"]), int(match["hm"])
        noun = money.noun if money else self._words.units["m"]
        small = self._numbers.cardinal(int(match["hc"]))
        link = self._words.money_link if money else self._words.minutes
        one = noun.one if number == 1 else noun.many
        return " ".join(filter(None, (self._numbers.cardinal(number, noun.gender), one, link, small)))

    def _inches(self, match: re.Match[str]) -> str | None:
        if match.group()[-1] == '"' and match.string[: match.start()].count('"') % 2:
            return None
        noun = {"es": "pulgadas", "fr-fr": "pouces", "it": "pollici"}.get(self._tag, "polegadas")
        gender: Gender = "f" if noun.endswith("as") else "m"
        number = match["in"]
        return f"{self._numbers.cardinal(int(number), gender) if number.isdecimal() else self._read(number)} {noun}"

    def _sign(self, match: re.Match[str]) -> str:
        if match["g3"]:
            return self._words.signs[match["g3"]]
        if (
            self._french
            and re.search(r"\b4$", match.string[: match.start()])
            and _RELAY.match(match.string, match.end())
        ):
            return self._more.times
        if match["g"] == "x" or (match["g"] == "×" and self._is_size(match)):
            return self._more.by if self._is_size(match) or self._tag in ("es", "it") else self._words.signs["×"]
        return super()._sign(match)

    def _is_size(self, match: re.Match[str]) -> bool:
        tail = match.string[match.end() : match.end() + 40]
        return re.match(rf"[\d.,]+(?:\s?[x×]\s?[\d.,]+)?\s?(?:{either(self._words.units)})(?!\w)", tail) is not None

    def _number(self, match: re.Match[str]) -> Found | str | None:
        """Read a number by the gender of the noun after it."""
        number = match["n"]
        plain = number.replace(".", "") if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", number) else number
        found = _NOUN.match(match.string, match.end())
        if (
            found is None
            or found[2] in NO_NOUNS
            or number[0] == "0"
            or not plain.isdecimal()
            or len(plain) > _MAX_DIGITS
        ):
            return self._read(number)
        value, noun = int(plain), found[2]
        if self._tag == "it":
            one = self._italian_one(noun)
            if value != 1:
                return self._read(number)
            return (match.start(), match.end() + found.end() - found.start(), f"un'{noun}") if one == "un'" else one
        thousands = self._gendered and (found[1] is not None or noun == "mil")
        if noun == "mil" or (self._gendered and not thousands and (value == 1) == noun.endswith("s")):
            return self._numbers.cardinal(value, "m") if thousands else self._read(number)
        return self._numbers.cardinal(value, "f" if self._feminine(noun) else "m")

    def _italian_one(self, noun: str) -> str:
        if noun[-1] == "i":
            return "uno"
        if self._feminine(noun):
            return "un'" if noun[0] in "aeiou" else "una"
        return "uno" if re.match(r"s[^aeiouàèìòù]|z|gn|ps|x|y", noun) else "un"

    def _money(self, match: re.Match[str]) -> Found | None:
        said = self._amount(match)
        if said is None:
            return None
        if match["mu"]:
            said = f"{said} {self._each(match['mu'])}"
        last = match.group().endswith(".") and not match.string[match.end() :].strip()
        return match.start(), match.end() - last, f"{self._words.minus} {said}" if match["mm"] else said

    def _prices(self, match: re.Match[str]) -> str:
        noun = self._words.money[match["mrc"] or match["mra"]].noun
        first = match["mr1"]
        start = self._numbers.cardinal(int(first), noun.gender) if first.isdecimal() else self._read(first)
        said = f"{start} {self._words.to} {self._read(match['mr2'], noun)}"
        return f"{said} {self._each(match['mre'])}" if match["mre"] else said

    def _each(self, unit: str) -> str:
        if self._tag == "it" and unit in ("h", "min", "s"):
            return {"h": "all'ora", "min": "al minuto", "s": "al secondo"}[unit]
        noun = self._words.units.get(unit) or self._words.units.get(unit.lower() if unit.isupper() else "")
        if noun is not None or self._tag != "it":
            return f"{self._words.per} {noun.one if noun else unit}"
        if unit[0] in "aeiouh":
            return f"all'{unit}"
        return f"alla {unit}" if self._feminine(unit) else f"al {unit}"

    def _amount(self, match: re.Match[str]) -> str | None:
        money = self._words.money[match["c1"] or match["c2"]]
        return self._coins(match["n1"] or match["n2"], money)

    def _money_code(self, match: re.Match[str]) -> str | None:
        return self._coins(match["mcn"], self._words.money[match["mcc"]])

    def _coins(self, number: str, money: Money) -> str | None:
        number = number.replace("'", ",")
        if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d\d)?", number):
            number = number.replace(",", "")
        if money.hundredth is None or not re.fullmatch(r"0[.,]\d\d", number) or number.endswith("00"):
            return self._sum(number, money)
        value = int(number[-2:])
        noun = money.hundredth
        return f"{self._numbers.cardinal(value, noun.gender)} {noun.one if value == 1 else noun.many}"
