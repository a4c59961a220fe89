"""Rules of the written forms of German, in order.

No quantifier of a pattern contains another one that matches the same characters, so that time is linear.
"""

from __future__ import annotations

import re
from typing import Final

from app.text.pieces import RATE
from app.text.written import german_ordinals, german_quantities, german_times, quantities
from app.text.written.german_quantities import fixed
from app.text.written.language import Language, after, either
from app.text.written.rules import Rule

_CODE_LINKS: Final = (" ", ": ", " lautet ", " ist ", " lautet: ", " Nr. ")
"""What stands between a word of the set `before_codes` and digits that are read one by one."""
_CROWD: Final = (
    r"(?:Nutzern?|Usern?|Followern?|Aufrufen?|Views|Abonnent(?:en)?|Downloads|Klicks|Menschen|Einwohnern?|Zuschauern?|Kunden"
    r"|Euro|Dollar|Likes|Stimmen|Besuchern?|Fans|Leuten?)\b"
)
"""What is counted in millions."""


def parts(language: Language) -> dict[str, str]:
    """Return the parts of expressions that `RULES` name in braces."""
    sets, tables = language.sets, language.tables
    nouns = {form for noun in sets["numbered_nouns"] for form in (noun, noun.capitalize())}
    return {
        "number": "{plain}",
        "units": either(language.units),
        "money": either(language.money),
        "scales": either(language.scales),
        "months": either({*language.months, *tables["month"]}),
        "days": either(tables["day"]),
        "abbreviations": either(language.abbreviations),
        "numbered_nouns": either(sets["numbered_nouns"]),
        "rates": either(tables["rate"]),
        "books": either(tables["bible"]),
        "kings": either(sets["kings_without_stop"]),
        "crowd": _CROWD,
        "after_numbered_noun": after(nouns, " "),
        "after_code_word": "|".join(after(sets["before_codes"], link) for link in _CODE_LINKS),
        # The word may be the end of another one: "Königstr. 1A".
        "after_house_word": "|".join(rf"(?<={re.escape(word)} )" for word in sorted(sets["before_house_numbers"])),
    }


RULES: Final = (
    Rule("address", quantities.ADDRESS, quantities.read_address),
    Rule(
        "iso_date",
        r"(?<![\d-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?![\d-])",
        german_times.read_date,
    ),
    Rule("rate_name", RATE, quantities.read_rate_name),
    Rule("always", r"(?<![\d/])24/7(?![\d/])", german_times.read_always),
    # Codes
    Rule(
        "account",
        r"\b(?P<country>[A-Z]{2})(?P<number>\d{2}(?: ?\d{4}){2,7}(?: ?\d{1,3})?)(?!\w)",
        german_quantities.read_account,
    ),
    Rule(
        "coded",
        r"(?=\d)(?:{after_code_word})\d{2,16}(?:[ -]\d{1,8}){0,5}(?![\w-]|[.,]\d)",
        german_quantities.read_digits,
    ),
    Rule(
        "card",
        r"(?<![\w.,-])\d{4}(?P<sign>[ -])\d{4}(?P=sign)\d{4}(?:(?P=sign)\d{1,4})?(?![\w-])",
        german_quantities.read_digits,
    ),
    Rule(
        "path",
        r"(?<![\w/.<~])(?:~|\.{1,2})?(?:/[\w.-]*\w){2,}+/?|(?<!\w)[A-Za-z]:(?:\\[\w.-]*\w)+",
        german_quantities.read_path,
    ),
    # Lengths of time
    Rule(
        "month_of_year",
        r"(?<![\d/.])(?P<month>0[1-9]|1[0-2])/(?P<year>19\d\d|20\d\d)(?![\d/])",
        german_times.read_month_of_year,
    ),
    Rule(
        "lasting",
        r"(?<![\d:.,])(?P<hours>\d{1,2}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?"
        r"(?:\s?(?P<unit>h|Std\.?|Stunden)(?!\w)|(?<=:\d\d:\d\d)(?![\d:]))",
        german_times.read_lasting,
    ),
    Rule(
        "minutes",
        r"(?<![\d:.,])(?P<minutes>\d{1,2}):(?P<seconds>[0-5]\d)(?:[,.](?P<fraction>\d{1,3}))?\s?(?:min|Min\.?|Minuten)(?!\w)",
        german_times.read_minutes,
    ),
    Rule(
        "full_hour",
        r"(?:(?<=\bum )|(?<=\bab )|(?<=\bbis )|(?<=\bgegen ))(?P<hours>[01]?\d|2[0-4])\s?h(?!\w)",
        german_times.read_full_hour,
    ),
    Rule("overtime", r"(?<=[\d)]\s)(?:n\. ?V\.|[ni]\. ?E\.)", german_times.read_overtime),
    # Quantities and formulas
    Rule(
        "francs",
        r"(?<!\w)[Ss]?Fr\.\s?(?P<francs>\d{1,9})[.,](?:(?P<cents>\d\d)(?![.\d])|[-–])"
        r"|(?<![\w.,])(?P<amount>\d{1,3}(?:['’]\d{3})+|{number})\s[Ss]?Fr\.",
        german_quantities.read_francs,
    ),
    Rule(
        "half",
        r"(?<![\w.,/])(?:1/2|½)\s(?:(?P<unit>{units})(?!\w)|(?P<noun>[A-ZÄÖÜ][a-zäöüß]+))",
        german_quantities.read_half,
    ),
    Rule(
        "mixed",
        r"(?<![\w.,/])(?P<whole>\d{1,3})(?:\s(?P<top>[1-9])/(?P<bottom>\d{1,2})(?![\w/])|\s?(?P<sign>[½⅓⅔¼¾⅛]))"
        r"(?:\s(?P<unit>{units})(?!\w))?",
        german_quantities.read_mixed,
    ),
    Rule(
        "dimension",
        r"(?<![\w.,])(?P<first>{number})\s?[x×]\s?(?P<second>{number})(?:\s?[x×]\s?(?P<third>{number}))?"
        r"(?:[\s-]?(?P<unit>{units})(?!\w))?(?!\w)",
        german_quantities.read_dimension,
    ),
    Rule(
        "salt",
        r"(?<![\w-])(?:(?:Na|Ca|Mg|Ag|Li)(?:Cl|Br|OH|[OF])|HCl|KCl|KBr|KOH|HBr)(?!\w)",
        german_quantities.read_code,
    ),
    Rule(
        "formula",
        r"(?<![\w.,])(?!Nr\d)(?=[A-Za-zÄÖÜ]{1,12}[\d₀-₉])(?:[A-ZÄÖÜ][a-z]?[\d₀-₉]{0,4}){1,8}(?![^\W_])",
        german_quantities.read_code,
    ),
    Rule(
        "number_with_capitals",
        r"(?<![\w.,-])\d{1,3}(?!(?:{units}|{money})(?!\w)|[KM](?:\+|\s{crowd}))[A-Z]{1,2}(?![^\W_])",
        german_quantities.read_code,
    ),
    Rule(
        "power",
        r"(?:(?<![\w.,])(?P<base>\d{1,9}(?:,\d+)?)|(?<=[A-Za-z)]))(?:(?P<raised>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)(?![^\W_])"
        r"|\^(?P<exponent>[-−]?\d{1,4}(?!\d)|\([-−]?\d{1,4}\)|[-−]?[a-z](?!\w)))(?:\s(?P<unit>{units})(?!\w))?",
        german_quantities.read_power,
    ),
    Rule(
        "until",
        r"(?<=\d\.)\s?[–-]\s?(?=\d{1,2}\.\s?\d)|(?<=:\d\d)\s?[–-]\s?(?=\d{1,2}:\d\d)"
        r"|(?<=\.\d{4})\s?[–-]\s?(?=\d{1,2}\.\s?\d)",
        fixed("bis"),
    ),
    Rule(
        "verse",
        r"\b(?P<book>{books})\.?\s(?P<chapter>\d{1,3}),(?P<verse>\d{1,3})(?!\d)",
        german_quantities.read_verse,
    ),
    Rule("life", r"(?:(?<![^\s(])\*|†)\s?(?=\d)", german_times.read_life),
    Rule(
        "pressure",
        r"(?<![\w.,/])(?P<high>\d{2,3})/(?P<low>\d{2,3})(?=\s?mmHg)"
        r"|(?:(?<=Blutdruck )|(?<=Blutdruck: )|(?<=Blutdruck von ))"
        r"(?P<high_after_word>\d{2,3})/(?P<low_after_word>\d{2,3})(?![\w/])",
        german_quantities.read_pressure,
    ),
    Rule(
        "beside_number",
        r"(?<=\d\s)(?P<after_number>ff?|S)\.(?!\s?\d)|(?<![\w.])(?:"
        r"(?P<before_name>v)\.(?=\s(?:(?!Chr)[A-ZÄÖÜ][a-zäöü]|\d{1,2}\.))|(?P<before_number>H|Gr)\.(?=\s\d))",
        german_quantities.read_beside_number,
    ),
    Rule(
        "house",
        r"(?:{after_house_word})(?P<number>\d{1,4})\s?(?P<letter>[A-H])(?![\w.])",
        german_quantities.read_number_and_letter,
    ),
    Rule(
        "ion",
        r"(?<![\w-])(?P<elements>(?:[A-Z][a-z]?){1,2})(?P<charge>[²³⁴]?)(?P<sign>[⁺⁻])(?![^\W_])"
        r"|(?<![\w-])(?P<element>Na|Li|Ag|Cl|Br|K|H)(?P<plain_sign>[+−])(?=[\s,.;)]|$)",
        german_quantities.read_ion,
    ),
    Rule(
        "minus",
        r"(?:(?<=[\d)²³¹⁰⁴-⁹] )|(?<=\b[A-Za-zα-ω] ))−(?=\s(?:[\d(√]|[A-Za-zα-ω](?![^\W\d_²³¹⁰⁴-⁹])))",
        quantities.read_minus,
    ),
    Rule("toward", r"(?<=\w )→(?= [A-ZÄÖÜ][a-zäöü])", fixed("nach")),
    Rule(
        "comparison",
        r"(?:(?<=\b[a-zA-Z] )|(?<=\d ))[<>≤≥](?= [a-zA-Z](?!\w))",
        german_quantities.read_comparison,
    ),
    Rule("after_unit", r"(?<=[\w²\"] )[x×](?= \d)", fixed("mal")),
    Rule("joined_number", r"(?<=[a-zäöüß_])\d{1,6}(?!\w)", german_quantities.read_code),
    Rule(
        "heart",
        r"(?:(?<=\b[Ii]ch )|(?P<after_we>(?<=\b[Ww]ir )))[❤♥]\ufe0f?(?= ?\w)",
        german_quantities.read_heart,
    ),
    Rule("at_most", r"\bMax\.(?=\s\d)", fixed("maximal")),
    Rule("coefficient", r"(?<![\w.,])(?P<number>\d{1,4})(?=[α-ω])", quantities.read_coefficient),
    Rule("symbol", r"(?<![^\W\d_])[α-ωΔΣΩ](?![^\W\d_]{2})", german_quantities.read_symbol),
    Rule(
        "operator",
        r"(?<![=!<>])(?:==|!=|>=|<=)(?!=)|&&|\|\||≠|∞|√|~(?=\s?\d)|(?<=\d)\s?\*\s?(?=\d)",
        german_quantities.read_operator,
    ),
    Rule("sharp", r"(?<=\b[CF])#", fixed("sharp")),
    Rule("hash", r"(?<![\w&#/])#(?=\w)", german_quantities.read_hash),
    Rule("inches", r"(?<![\w.,])(?P<amount>{number})\s?(?:[″”]|\"(?!\w))", german_quantities.read_inches),
    Rule("rate", r"(?<=\d)/(?P<unit>min|h|Std\.?|Tag|Woche|Monat|Jahr|Person)(?!\w)", german_quantities.read_rate),
    Rule(
        "per",
        r"(?<=[\w€$£²³.])/\s?(?P<unit>(?:{units}|{rates})(?!\w)|(?=100\s?km\b))",
        german_quantities.read_per,
    ),
    Rule(
        "bare_unit",
        r"(?:(?<=\bpro )|(?<=\bje )|(?<=\bin ))(?P<unit>(?!\w\b){units})(?![\w.-])",
        german_quantities.read_bare_unit,
    ),
    Rule("second_numeral", r"(?<=[IVX] und )(?P<numeral>[IVX]{2,6})(?![\w.])", quantities.read_numeral),
    Rule(
        "compound",
        r"(?<![\w.,])(?P<amount>{number})-(?:(?P<unit>{units}|{money})|(?P<scale>{scales})\.?)(?=-)",
        german_quantities.read_compound,
    ),
    Rule("apostrophes", r"(?<![\w.,])\d{1,3}(?:['’]\d{3})+(?![\w'’])", german_quantities.read_apostrophes),
    Rule(
        "spaced_number",
        r"(?<![\w.,+])[1-9]\d{0,2}(?: \d{3}){1,4}(?:\s?(?P<currency>{money})(?!\w)"
        r"|(?=\s(?:Euro|Dollar|Franken|Mark|Einwohner|Menschen|Personen|Zuschauer|Kilometer|Meter|Tonnen)\b))",
        german_quantities.read_spaced_number,
    ),
    Rule(
        "phone",
        r"(?<![\w.,])(?:\+\d{1,3}(?:[ /-]?\(0\))?[ /-]?\(?\d{1,5}\)?|\(0\d{1,5}\)|0\d{1,5})"
        r"(?:[ /–-]{1,3}\d{2,9}){1,6}(?!\w|[.,]\d)",
        german_quantities.read_phone,
    ),
    # Dates and times
    Rule(
        "date",
        r"(?<![\d/.])(?<![A-Z]{2}\s)(?P<day>0?[1-9]|[12]\d|3[01])\.\s?(?P<month>0?[1-9]|1[0-2])\."
        r"(?:\s?(?P<year>\d{4}|\d\d(?!\d)))?(?![\d/])",
        german_times.read_date,
    ),
    Rule(
        "days",
        r"(?<!\d)(?P<first>[1-9]|[12]\d|3[01])\.?\s?(?P<link>[–/-]|bis)\s?(?P<last>[1-9]|[12]\d|3[01])\.(?=\s(?:{months})\b)",
        german_times.read_days,
    ),
    Rule(
        "day_of_month",
        r"(?<!\d)(?P<day>\d{1,2})\.\s?(?P<month>{months})\b(?:\.(?=\s*\d))?(?:\s(?P<year>[12]\d{3})(?!\d))?",
        german_times.read_day_of_month,
    ),
    Rule(
        "hours",
        r"(?<![\d:.,])(?P<hours>[01]?\d|2[0-4])(?:[:.](?P<minutes>[0-5]\d))?"
        r"(?:\s?[–-]\s?(?P<last_hours>[01]?\d|2[0-4])(?:[:.](?P<last_minutes>[0-5]\d))?)?"
        r"(?:\s?Uhr\b|(?<=:\d\d)\s?h(?!\w))",
        german_times.read_hours,
    ),
    Rule(
        "clock",
        r"(?<![\d:])(?P<hours>[01]?\d|2[0-4]):(?P<minutes>[0-5]\d)(?![\d:]|\.\d)",
        german_times.read_clock,
    ),
    Rule("divided", r"(?<=\d)\s:\s(?=\d)", quantities.read_divided),
    Rule(
        "score",
        r"(?<![\d:.,])(?P<first>\d{1,3}):(?P<last>\d{4,7}|\d{1,3}(?:\.\d{3}){0,2})(?![\d:]|[.,]\d)",
        german_quantities.read_score,
    ),
    Rule("day_pair", r"\b(?P<first>{days})\.?\s?[–-]\s?(?P<last>{days})\b\.?", german_times.read_day_pair),
    Rule(
        "weekday",
        r"(?:(?<=\bam )|(?<=\bjeden )|(?<=\bbis )|(?<=\bab )|(?<=stens )|(?<=\bseit )|(?<=\baußer )"
        r"|(?<=sten )|(?<=tzten )|(?<=nden )|(?<=\bund )(?!Fr\.\s[A-ZÄÖÜ]))"
        r"(?P<after_word>{days})\.|\b(?P<before_word>{days})"
        r"(?:\.(?=,?\s(?:\d|(?<!Fr\.\s)und\b|um\b|ab\b|bis\b|von\b))|(?=,\s\d)"
        r"|(?=\sbis\s(?:{days})\b)|(?<=(?:{days})\sbis\s..)(?!\w)"
        r"|(?=(?:,|\sund|\s&)\s(?:{days})\b)|(?=\.?\s(?:Ruhetag|geschlossen|zu\b))"
        r"|(?=\s\d{1,2}(?:[.:–-]\d|\s?Uhr\b))|(?<!So)(?=\s(?:bis|ab|von|um)\s\d)"
        r"|(?=[/+](?:{days})\b)|(?<=[/+]..)(?!\w))",
        german_times.read_weekday,
    ),
    # Money, fractions, decades
    Rule(
        "scaled",
        r"(?:(?P<currency>{money})\s?)?(?<![\w.,])(?P<amount>{number})\s?(?P<scale>{scales}"
        r"|(?<=\d)(?:[KMm](?=\s{crowd})|[KM](?=\+)))\b\.?(?:\s?(?P<currency_after>{money})(?!\w))?",
        german_quantities.read_scaled,
    ),
    Rule(
        "even",
        r"(?:(?P<currency>{money})\s?)?(?<![\w.,])(?P<amount>{number}),[-–—]{1,2}(?:\s?(?P<currency_after>{money})(?!\w))?",
        german_quantities.read_even,
    ),
    Rule(
        "fraction",
        r"(?:(?<![\w.,/])(?P<top>\d{1,2})/(?P<bottom>\d{1,2})(?![\w/]|[.,]\d)|(?P<sign>[½⅓⅔¼¾⅛]))"
        r"(?:\s?(?P<unit>{units})(?!\w))?",
        german_quantities.read_fraction,
    ),
    Rule(
        "decade",
        r"(?<![\w.,])'?(?P<years>[1-9]\d?|1[1-9]\d\d|20\d\d|7[0-8]7)"
        r"(?:er(?P<ending>n)?|(?:(?<=(?:1[5-9]|20)\d0)|(?<=7\d7)|(?<=\b[A-Z]-\d\d)|(?<=d(?:ie|en|er) [2-9]0)"
        r"(?!s\s[A-ZÄÖÜ]))s)(?!\w)(?P<noun>[ -]Jahren?\b)?",
        german_times.read_decade,
    ),
    Rule(
        "times",
        r"(?<![\w.,])(?P<number>\d{1,3})(?P<word>-?mal|-?fache?[rnsm]?"
        r"|-[jJ]ährige?[rnsm]?|-prozentige?[rnsm]?|-köpfige[rnsm]?|-stündige[rnsm]?|-tägige[rnsm]?"
        r"|-(?:stell|minüt|wöch|monat|seit|teil)ige[rnsm]?|x(?=\s(?![-+=<>−])))\b",
        german_quantities.read_times,
    ),
    # Ordinals
    Rule(
        "monarch",
        r"\b(?!(?:[DIA][eaimn][rsmn]?|Zum|Zur|Vom|Beim)\s)(?P<name>[A-ZÄÖÜ][^\W\d_]{2,29})\s(?P<numeral>[IVX]{1,6})\."
        r"|\b(?P<king>{kings})\s(?P<numeral_of_king>[IVX]{1,6})(?![\w.])",
        german_ordinals.read_monarch,
    ),
    Rule(
        "adjective_of_percent",
        r"(?<![\w.,])(?P<number>\d{1,3})\s?%-?(?P<ending>ige?[rnsm]?)\b",
        german_quantities.read_adjective_of_percent,
    ),
    Rule(
        "roman_ordinal",
        r"(?<![\w.])(?P<numeral>[IVX]{1,6})\.(?=\s[A-ZÄÖÜ][a-zäöü])",
        german_ordinals.read_roman_ordinal,
    ),
    Rule(
        "ordinal",
        r"(?<![\w.,:/-])(?P<number>[1-9]\d{0,3})\.(?!\d)(?:(?=\s+\w)|(?=\+\d)|(?=,\s\d{1,4}\.)|(?=[)\s]*$))",
        german_ordinals.read_ordinal,
    ),
    # Words and codes
    Rule(
        "letters",
        r"(?<![\w.-])(?<![A-ZÄÖÜ] )(?![IVX]{1,3}\b)"
        r"(?:(?=[A-Z]?[AEIOUÄÖÜ])[A-ZÄÖÜ]{2}|[AEIOU][A-Z][A-NP-Z])(?!\w|\.\w| [A-ZÄÖÜ]{2}|\$)",
        german_quantities.read_letters,
    ),
    Rule("street", r"\b(?P<name>[A-ZÄÖÜ][a-zäöüß]{1,30})str(?:\.|(?=\s\d))", german_quantities.read_street),
    Rule("page", r"(?<![\w.])S\.(?=\s\d)", german_quantities.read_page),
    Rule("paragraph", r"§§?(?=\s?\d)", german_quantities.read_paragraph),
    Rule(
        "postal_code",
        r"(?:(?<=, )|(?<=\bD-)|(?<![\w.,-]))(?:0\d{4}|(?<=, )\d{5}|(?<=\bD-)\d{5})(?=\s[A-ZÄÖÜ])",
        german_quantities.read_digits,
    ),
    Rule(
        "number_and_letter",
        r"(?<![\w.,])(?P<number>\d{1,4})(?P<letter>[a-fnx-z])(?!\w|\.\w)",
        german_quantities.read_number_and_letter,
    ),
    # After dates and times
    Rule(
        "one",
        r"(?<![\w.,:/+×=-])1(?=\s(?!(?:{units}|{scales})(?!\w))(?P<noun>[A-ZÄÖÜ][a-zäöüß]+))",
        german_quantities.read_one,
    ),
    Rule("version", quantities.VERSION, quantities.read_version),
    Rule(
        "money",
        r"(?:(?P<minus>(?<!\w)[-−–])?(?:(?P<currency>{money}){gap}(?P<amount>{number})"
        r"|(?<![\w.,])(?P<amount_before>{number}){gap}(?P<currency_after>{money})))(?:/(?P<per>{units}))?(?!\w)",
        german_quantities.read_money,
    ),
    Rule(
        "percent",
        r"(?P<minus>(?<!\w)[-−–])?(?<![\w.,])(?P<amount>{number}){gap}%",
        german_quantities.read_percent,
    ),
    Rule(
        "range",
        r"(?<![\w.,/-])(?P<first>\d+(?:[.,]\d+)?)\s?[-–]\s?(?P<last>\d+(?:[.,]\d+)?){gap}"
        r"(?P<unit>%|(?:{units}|{money})(?!\w))?(?![\w/-])(?!\.\d)(?!\s*=)",
        german_quantities.read_range_of_years,
    ),
    Rule(
        "unit",
        r"(?P<minus>(?<!\w)[-−–])?(?<![\w.,])(?P<amount>{number}){gap}(?P<unit>{units})(?:/(?P<per>h|s|m²|kg|l))?(?!\w)",
        german_quantities.read_unit_in_case,
    ),
    Rule(
        "numeral",
        r"(?=[IVXL])(?:{after_numbered_noun})(?P<numeral>[IVXL]{1,7})(?![\w'’-])",
        quantities.read_numeral,
    ),
    # "Teil I" is read by the rule above, "Der II. Weltkrieg" by that of ordinals.
    Rule(
        "named_numeral",
        r"(?!(?:{numbered_nouns})\s)\b(?P<name>[A-ZÀ-Ý][^\W\d_]{1,29})\s(?P<numeral>[IVXL]{1,7})(?:er)?"
        r"(?![\w'’-]|\.[A-Z])(?!\.\s[A-ZÄÖÜ][a-zäöü])",
        quantities.read_named_numeral,
    ),
    Rule("abbreviation", r"(?<![\w.])(?:{abbreviations})(?!\w)", german_quantities.read_short),
    Rule(
        "sign",
        r"(?<=\d)\s?(?P<sign>[+=×÷<>≈±≤≥·−x]|(?<=\s)-(?=\s\d+(?:[.,]\d+)?\s?=))\s?(?=[\d-])"
        r"|(?<![\w<>=-])(?P<sign_before>[×÷≈±≤≥]|[<>](?!3(?!\d)))(?=\s?\d)",
        quantities.read_sign,
    ),
    Rule("negative", r"(?<![\w)])[-−](?P<number>{number})(?![\w/])", quantities.read_negative),
    Rule("number", r"(?<![\w])(?P<number>{number})(?![\w])", quantities.read_number),
)
"""Rules of German. The first that matches at a place is read."""
