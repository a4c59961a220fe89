"""Rules of the written forms of Spanish, French, Italian and Portuguese, in order.

No quantifier of a pattern contains another one that matches the same characters, so that time is linear.
"""

from __future__ import annotations

import re
from typing import Final

from app.text.pieces import RATE
from app.text.written import quantities, romance_letters, romance_numerals, romance_quantities, romance_times
from app.text.written.language import Language, after, either
from app.text.written.rules import Rule

START: Final = r"(?!(?<=[^\W\d_])[^\W\d_])"
"""Expression of the places where a form may begin: not between two letters."""
_SPANISH: Final = ("es",)
_FRENCH: Final = ("fr-fr",)
_ITALIAN: Final = ("it",)
_PORTUGUESE: Final = ("pt-br",)
_ELEMENT: Final = (
    r"(?:A[cglmrstu]|B[aeihkr]?|C[adeflmorsu]?|D[bsy]|E[rsu]|F[emr]?|G[ade]|H[efgos]?|I[nr]?|K[r]?|L[airuv]|M[gnot]"
    r"|N[abdeip]?|O[s]?|P[abdmortu]?|R[abefghnu]|S[bcegimnr]?|T[abcehilm]|U|V|W|X[e]|Y[b]?|Z[nr])"
)
# Elements of two letters that are no words and common in formulas without digits, such as NaClO.
_COMMON_ELEMENT: Final = r"(?:Na|Cl|Ca|Fe|Mg|Zn|Cu|Ag|Br|Al|Li|Mn|Cr|Ni|Pb|Hg|Ba|Sn|Sr|Ti)"


def parts(language: Language) -> dict[str, str]:
    """Return the parts of expressions that `RULES` name in braces."""
    sets, units, symbols = language.sets, language.units, language.tables["symbol"]
    nouns = {form for noun in sets["numbered_nouns"] for form in (noun, noun.capitalize())}
    stopped = [short[:-1] for short in language.abbreviations if short.endswith(".")]
    return {
        "units": either(units),
        "units_with_stop": either(unit for unit in units if re.fullmatch(r"[a-z]{2,}\.", unit)),
        "bare_units": either(unit for unit in units if unit in sets["bare_units"]),
        "money": either(language.money),
        "money_codes": either(code for code in language.money if re.fullmatch("[A-Z]{3}", code)),
        "scales": either(language.scales),
        "month_names": either(language.months),
        "months": either(language.capital_months),
        "days": either(language.capital_days),
        "days_in_full": either(sets["days_in_full"]),
        "date_words": either(form for word in sets["date_words"] for form in (word, word.capitalize())),
        "abbreviations": either(language.abbreviations),
        "titles": either(short for short in stopped if short in sets["titles"]),
        "before_number": either(language.before_number),
        "ordinal_endings": either(sets["ordinal_endings"]),
        "centuries": either(sets["centuries"]),
        "articles": either(sets["articles"]),
        "letters": "".join(symbol for symbol in symbols if symbol.isalpha()),
        "signs": "".join(symbol for symbol in symbols if not symbol.isalpha()),
        "after_numbered_noun": after(nouns, " "),
        "after_article": after(sets["before_ordinals"]),
        "after_month_word": after(sets["before_months"], any_case=True),
        "after_day_word": after(sets["before_days"], " ", any_case=True),
        "after_path_word": after(sets["before_paths"]),
        "after_decade_word": after(sets["before_decades"], any_case=True),
        "after_unit_word": after(sets["one_unit"] | sets["many_units"]),
        "after_size": "|".join(rf"(?<=\d\s{unit})|(?<=\d{unit})" for unit in ("mm", "cm", "dm", "m", "km")),
        "of": language.words["of"],
        "element": _ELEMENT,
        "common_element": _COMMON_ELEMENT,
    }


RULES: Final = (
    Rule("address", quantities.ADDRESS, quantities.read_address),
    Rule(
        "path",
        r"(?<![\w/])(?:[A-Z]:\\|~/|\.{1,2}/|/(?=\w+/))[\w.\\/-]{2,200}"
        rf"|(?<![\w/.])(?:[\w-]{{1,40}}/){{1,8}}[\w-]{{1,64}}\.(?:{quantities.FILES})(?!\w)"
        r"|(?<=\s)(?=\w)(?:{after_path_word})(?P<folder>\w{1,40}(?:/[\w-]{1,40}){1,8})(?!\w)"
        r"|(?<![\w.])(?P<underscored>[A-Za-z0-9]{1,40}(?:_[A-Za-z0-9]{1,40}){1,8})(?!\w)",
        romance_letters.read_path,
    ),
    Rule(
        "account",
        r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?(?!\w)",
        romance_letters.read_account,
    ),
    # Dates
    Rule(
        "iso_date",
        r"(?<![\d-])(?P<year>\d{4})(?P<sign>[-/])(?P<month>\d{2})(?P=sign)(?P<day>\d{2})(?![\d-])",
        romance_times.read_iso_date,
    ),
    Rule(
        "date",
        r"(?<![\d/.,-])(?P<day>\d{1,2})(?P<sign>[/.-])(?P<month>\d{1,2})(?P=sign)(?P<year>\d{4}|\d\d)"
        r"(?P<dash>\s?[-–]\s?(?=\d{1,2}[/.]\d{1,2}[/.]\d\d))?(?![\d/-](?<!\s\d)|[.,]\d)",
        romance_times.read_date,
    ),
    Rule(
        "abbreviated_date",
        r"(?<![\w.,/-])(?:(?P<first_day>\d{1,2})\s?[-–]\s?)?(?P<day>\d{1,2})"
        r"(?:er|º|°)?(?:\s(?:de\s)?|[/-])(?P<month>{months})"
        r"(?:\.|(?=(?:\s(?:de\s)?|[/-])\d{4})|(?<=[/-]\w{3})(?!\w))"
        r"(?:(?:\s(?:de\s)?|[/-])(?P<year>\d{4}|(?<=-)\d\d)(?![\d-]))?",
        romance_times.read_abbreviated_date,
    ),
    Rule(
        "roman_month",
        r"(?<![\w./-])(?P<day>\d{1,2})(?P<sign>[-/.])(?P<month>X?I{1,3}|I?[VX]|VI{1,3})"
        r"(?:(?P=sign)(?P<year>\d{4}|\d\d))?(?![\w/-])",
        romance_times.read_roman_month,
    ),
    Rule("month", r"(?<!\w)(?P<month>{months})\.?(?=\s(?:de\s)?\d{4}(?!\d))", romance_times.read_month),
    Rule(
        "day_pair",
        r"(?<!\w)(?P<first>{days})\.?(?P<link>\s?[-–/]\s?|\s(?:[ye]|et|[aà])\s(?:(?:el|il|la|le)\s)?)"
        r"(?P<last>{days})(?:\.|(?!\w))",
        romance_times.read_day_pair,
    ),
    Rule(
        "month_pair",
        r"(?<!\w)(?P<first>{months})(?:\.?\s?[-–/]\s?|\.\s(?P<link>[aàyàe]|al|au|até|et)\s)(?P<last>{months})(?:\.|(?!\w))",
        romance_times.read_month_pair,
    ),
    Rule(
        "month_alone",
        r"(?<=\s)(?=\w)(?:{after_month_word})(?P<month>{months})\.(?!\s(?:de\s)?\d)",
        romance_times.read_month_alone,
    ),
    Rule(
        "weekday",
        r"(?<!\w)(?P<day>{days})(?:\.(?=,?\s\d)|(?=,?\s\d{1,2}/\d))"
        r"|(?<= )(?=\w)(?:{after_day_word})(?P<day_after_article>{days})(?:\.(?=[,;:)]|\s[a-zà-ÿ(])|(?=\.$))",
        romance_times.read_weekday,
    ),
    Rule(
        "date_pair",
        r"(?<![\w/.,-])(?P<first_day>\d{1,2})(?P<sign>/|-(?=(?:1[0-2]|0?[1-9])\s))(?P<first_month>\d{1,2})"
        r"(?P<link>\s(?:a|al|au|à|até|ao)\s)(?P<last_day>\d{1,2})(?P=sign)(?P<last_month>\d{1,2})(?![\w/-]|[.,]\d)",
        romance_times.read_date_pair,
    ),
    Rule(
        "month_of_year",
        r"(?<![\w/.,])(?P<month>0[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![\w/])",
        romance_times.read_month_of_year,
    ),
    # Times
    Rule(
        "duration",
        r"(?<![\w.,:])(?P<hours>\d{1,3})(?P<gap>\s?)[hH]\s?(?P<minutes>\d{1,2})"
        r"\s?(?:min|MIN|mn|m|['′])(?!\w)(?:\.(?!\s*$))?(?:\s?(?P<seconds>[0-5]?\d)\s?(?:s(?!\w)|[\"″]|''))?",
        romance_times.read_duration,
    ),
    Rule(
        "short_duration",
        r"(?<![\w.,:])(?P<minutes>\d{1,3})\s?min\s?(?P<seconds>\d{1,2})(?P<second_sign>\s?s(?:eg|ec)?(?!\w))?(?!\w|[.,]\d)",
        romance_times.read_short_duration,
    ),
    Rule(
        "elapsed",
        r"(?<![\d:])(?P<hours>\d{1,2}):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)(?![\d:])"
        r"|(?<![\d:])(?P<long_minutes>2[5-9]|[3-9]\d):(?P<rest>[0-5]\d)(?![\d:])",
        romance_times.read_elapsed,
    ),
    Rule("phone", "{phone}", romance_times.read_phone),
    Rule(
        "clock",
        r"(?<![\d:.,])(?P<hours>[01]?\d|2[0-4])(?:(?::|\s?[hH]\s?)(?P<minutes>[0-5]\d)(?!\d|\.\d{3})|[hH]s?(?!\w))(?!:)"
        r"(?:\s?h(?:s|rs)?\b|\s?(?P<half>[ap])\.?\s?m\b(?:\.(?!\s*$))?|(?!\w))"
        r"(?P<dash>\s?[-–]\s?(?=\d{1,2}[:hH]))?",
        romance_times.read_clock,
    ),
    Rule(
        "ratio",
        r"(?<![\w:.,])(?P<first>\d{1,3}):(?P<last>\d{1,3}(?:[. ]\d{3}){0,2})(?![\w:]|[.,]\d)",
        romance_quantities.read_ratio,
    ),
    # Formulas
    Rule(
        "power",
        r"(?P<base>(?<![\w.,])\d+(?:[.,]\d+)?|(?<!\w)(?P<coefficient>\d{1,3})?(?![ckdhm]?m[²³])[A-Za-zα-ω]{1,2}|\))"
        r"(?P<exponent>⁻?[⁰¹²³⁴-⁹]{1,3}(?![⁺⁻])|\^[-−]?\d{1,3}|\^[-−]?[a-z])(?!\w)",
        romance_quantities.read_power,
    ),
    Rule(
        "subscript",
        r"(?<!\w)(?:(?P<logarithm>log)|(?P<letter>[A-Za-zα-ω]))(?P<digits>[₀-₉]{1,3})(?!\w)",
        romance_quantities.read_subscript,
    ),
    Rule("root", r"√\s?(?:\((?=[^()]{1,40}\)))?(?=[\w(])", romance_quantities.read_root),
    Rule("symbol", r"(?<![^\W\d])[{letters}](?![^\W\d_]{2})|[{signs}]", romance_quantities.read_symbol),
    Rule("coefficient", r"(?<![\w.,])(?P<number>\d{1,4})(?=[{letters}])", quantities.read_coefficient),
    # Quantities
    Rule("amperes", r"(?<![\w.,])(?P<amount>{plain})\s?A(?!\w|\s[A-Z\d])", romance_quantities.read_amperes),
    Rule("again", r"(?<![\w.,-])(?P<number>\d{1,4})(?P<word>bis|ter|quater)(?!\w)", romance_quantities.read_again),
    Rule(
        "and_half",
        r"(?<=[a-zà-ÿ]\s)(?:[ye]|et)\s(?:1/2|½)(?!\w|[./,]?\d|\s?[a-zà-ÿ])",
        romance_quantities.read_and_half,
    ),
    Rule(
        "mixed",
        r"(?<![\w.,/])(?:(?P<whole>\d{1,3})\s?)?(?:(?P<sign>[½⅓⅔¼¾⅛])"
        r"|(?(whole)(?<=\s))(?P<top>[1-9])/(?P<bottom>[2-9]))"
        r"(?![\w/]|[.,]\d)(?:\s?(?P<unit>{units})(?!\w)|\s(?P<noun>[a-zà-ÿ]{3,20}))?",
        romance_quantities.read_mixed,
    ),
    Rule(
        "pages",
        r"(?<![\w.,])(?P<number>\d{1,3}(?:\.\d{3})?)\s(?:pp?|págs?|pagg?)\.(?!\s?\d|\s?m\.)",
        romance_quantities.read_pages,
    ),
    Rule("per_thousand", r"(?<![\w.,])(?P<amount>{plain})\s?‰", romance_quantities.read_per_thousand),
    Rule(
        "thousands",
        r"(?<![\w.,])(?P<amount>\d{1,4}(?:[.,]\d{1,2})?)(?:k|(?<=\d\d)K|(?P<millions>M|m(?={crowd})))(?![\w/€$£])"
        r"|(?<![\w.,])(?P<scaled>{plain})\s?(?P<scale>{scales})\.?(?=\s(?:de\s|di\s|d['’])(?!{money}))",
        romance_quantities.read_thousands,
    ),
    Rule(
        "years",
        r"(?<![\w.,/-])(?P<first>1[5-9]\d\d|20\d\d)[-–](?P<last>\d\d)(?![\w/-]|[.,]\d)",
        romance_times.read_years,
    ),
    Rule(
        "height",
        r"(?<![\w.,])(?P<whole>\d{1,4})(?P<unit>m|{money})(?P<hundredths>\d\d)(?!\w|[.,]\d)",
        romance_quantities.read_height,
    ),
    Rule("variable", r"(?<![\w'’.])(?:y(?=\s?[=+−×<>≤≥])|(?<=[=+−×<>≤≥]\s)y(?!\w))", romance_letters.read_variable),
    Rule(
        "word_rate",
        r"(?<=[a-zà-ÿ])/(?P<noun>día|semana|mes|año|hora|jour|semaine|mois|an|heure|giorno"
        r"|settimana|mese|anno|ora|dia|mês|ano)(?!\w)",
        romance_quantities.read_word_rate,
    ),
    Rule("era_range", r"(?<=[Cc]\.)\s?[-–]\s?(?=\d)", romance_times.read_to),
    Rule(
        "bare_unit",
        r"(?<=\s)(?:{after_unit_word})(?P<unit>{bare_units})(?!\w|\s?\d|/)",
        romance_quantities.read_bare_unit,
    ),
    Rule(
        "see",
        r"(?<![\w.])[Vv]\.(?=\s(?:figg?|tabb?|capp?|chap|artt?|pp?|págs?|pagg?|nota|supra|§|n\.))",
        romance_letters.read_see,
    ),
    Rule(
        "less",
        r"(?:(?<=\bJ)-(?=\d)|(?<=\b[a-z])-(?=\d)|(?<=\b[a-z]\s)-(?=\s\d)|(?<=[²³]\s)-(?=\s))",
        quantities.read_minus,
    ),
    Rule("divided", r"(?<=\d)\s:\s(?=\d+\s?=)", quantities.read_divided),
    Rule(
        "decade",
        r"(?:(?<=\s)(?=['’\d])(?:{after_decade_word})['’]?|(?<![\w.,])(?=\d{3})|(?<=\b[A-Z]-))"
        r"(?P<first>(?:1[5-9]|20)?[2-9]0|(?:1[5-9]|20)\d0|7[0-8]7|(?<=-)\d\d)['’]?s"
        r"(?:(?P<link>,?\s(?:y|e|et|ed|a|al)\s(?:l?os\s)?)['’]?(?P<last>[2-9]0)['’]?s)?(?!\w)",
        romance_quantities.read_decade,
    ),
    Rule("times", r"(?<![\w.,])(?P<number>\d{1,3})[xX](?=\s[a-zà-ÿ])", romance_quantities.read_times),
    Rule("meridiem", r"(?<![\w:.,])(?P<hours>1[0-2]|[1-9])\s?(?P<half>[ap])m(?!\w)", romance_times.read_meridiem),
    Rule(
        "minutes",
        r"(?<![\w.,'])(?P<minutes>\d{1,3})(?:['′]\s?(?P<seconds>[0-5]?\d)(?:[\"″]|'')|′|'(?=[\s,.;)]|$))",
        romance_times.read_minutes,
    ),
    Rule(
        "roman_range",
        r"(?<![\w-])(?P<first>{roman})\s?[-–]\s?(?P<last>{roman})(?![\w-])",
        romance_numerals.read_roman_range,
    ),
    Rule(
        "money_with_code",
        r"(?:US)?[$€£]\s?(?P<amount>{code_price})\s(?P<currency>{money_codes})(?!\w)",
        romance_quantities.read_money_with_code,
    ),
    Rule(
        "prices",
        r"(?:(?<!\w)(?P<currency>{money})\s?)?(?<![\w.,-])(?P<first>{plain})\s?(?P<currency_after>{money})?\s?[-–]\s?"
        r"(?(currency)(?:{money})?|(?(currency_after)|(?!)))\s?(?P<last>{plain})\s?(?(currency_after)(?:{money}))"
        r"(?:/(?P<per>[a-zà-ÿ]{1,12}[²³]?))?(?![\w-])",
        romance_quantities.read_prices,
    ),
    Rule("inches", r"(?<![\w.,])(?P<amount>\d{1,3}(?:[.,]\d)?)[\"″](?=[\s.,;)]|$)", romance_quantities.read_inches),
    # Rules of one language
    Rule(
        "hour_spanish",
        r"(?:(?<=\ba la )|(?<=\ba las )|(?<=\bde la )|(?<=\bes la ))(?P<hours>2?1)(?![\d:hªº/]|[.,]\d|\s?h)",
        romance_times.read_hour,
        _SPANISH,
    ),
    Rule(
        "clock_spanish",
        r"(?:(?<=\blas )|(?<=\bde )(?=\d{1,2}\.\d\d\sa\s\d{1,2}\.\d\d)|(?<=\.\d\d a ))"
        r"(?P<hours>[01]?\d|2[0-4])(?:\.|,(?=\d\d\sh))(?P<minutes>[0-5]\d)(?!\d|[.,]\d)(?:\sh(?!\w))?",
        romance_times.read_clock_with_point,
        _SPANISH,
    ),
    Rule(
        "ordinal_range",
        r"(?<!\w)(?P<numeral>{roman})(?:er|re|e|ème)\s?[-–]\s?(?={roman}(?:e|ème)(?!\w))",
        romance_numerals.read_ordinal_range,
        _FRENCH,
    ),
    Rule(
        "french_ordinal",
        r"(?<!\w)(?P<numeral>{roman})(?:er|ère|re|e|ème)s?(?P<century>\ss\.)?(?!\w)",
        romance_numerals.read_french_ordinal,
        _FRENCH,
    ),
    Rule("out_of_french", r"(?:(?<=\d[hj])|(?<=\d\s[hj]))/(?=\d)", romance_quantities.read_out_of, _FRENCH),
    Rule("out_of_italian", r"(?<=\dh)/(?=\d)", romance_quantities.read_out_of, _ITALIAN),
    Rule(
        "ordinal_after_article",
        r"(?:(?<=\b[ai]l )|(?<=\b(?i:dal) )|(?<=\bnel )|(?<=\bdel )|(?<=\bsul )|(?<=\bè )|(?<=l'))"
        r"(?P<number>\d{1,3})°(?!\s?[CFNSEO](?!\w)|\w)",
        romance_numerals.read_ordinal_after_article,
        _ITALIAN,
    ),
    Rule("floor", r"(?<![\w.,])(?P<number>\d{1,2})°\sp\.(?!\s?\d)", romance_numerals.read_floor, _ITALIAN),
    Rule("aged", r"(?<![\w.,])(?P<years>\d{1,3})enn(?P<ending>[ei])(?!\w)", romance_quantities.read_aged, _ITALIAN),
    Rule(
        "clock_italian",
        r"(?:(?<=\balle )|(?<=\bdalle )|(?<=\bore )|(?<=\ble ))"
        r"(?P<hours>[01]?\d|2[0-4])[.,](?P<minutes>[0-5]\d)(?!\d|[.,]\d)(?:\sh(?!\w))?",
        romance_times.read_clock_with_point,
        _ITALIAN,
    ),
    Rule("hour_italian", r"(?<=all')(?P<hours>1)(?![\d:h]|[.,]\d)", romance_times.read_hour, _ITALIAN),
    Rule(
        "centuries",
        r"(?<!\w)(?P<numeral>{roman})(?=(?:\s?[-–]\s?|\s(?:e|al|o|ed)\s(?:il\s)?){roman}\s(?:secolo|sec\.))",
        romance_numerals.read_centuries,
        _ITALIAN,
    ),
    Rule("century_after", r"(?<!\w)(?P<numeral>{roman})\ssec\.", romance_numerals.read_century_after, _ITALIAN),
    Rule("no_house_number", r"(?<=, )s\.n\.c\.", romance_letters.read_no_house_number, _ITALIAN),
    Rule(
        "italian_ordinal",
        r"(?<!\w)(?P<number>\d{1,4})(?:-?esim(?P<ending>[oaie])|\^)(?!\w)",
        romance_numerals.read_italian_ordinal,
        _ITALIAN,
    ),
    Rule(
        "hour_portuguese",
        r"(?:(?<=\bàs )|(?<=\bà ))(?P<hours>[12]|2[12])(?![\d:hª.,/]|\s?h)",
        romance_times.read_hour,
        _PORTUGUESE,
    ),
    Rule(
        "versus",
        r"(?<![\w.,])(?P<first>\d{1,2})\s?x\s?(?P<last>\d{1,2})(?![\w/]|[.,]\d|\s?(?:{units}|x|=)(?!\w))",
        romance_quantities.read_versus,
        _PORTUGUESE,
    ),
    Rule("lady", r"(?<!\w)D\.(?=\s(?P<name>[A-ZÀ-Ý][a-zà-ÿ]+))", romance_letters.read_lady, _PORTUGUESE),
    # Sizes, numerals and abbreviations
    Rule(
        "product",
        r"(?<![\w.,])(?P<first>{plain})[xX×](?P<second>{plain})(?:[xX×](?P<third>{plain}))?"
        r"(?:\s?(?P<unit>{units}))?(?![\w=])",
        romance_quantities.read_product,
    ),
    Rule(
        "numeral_before_event",
        r"(?<![\w.])(?P<numeral>[IVX]{2,7}|[IVX](?=\s(?:{single_numeral_events})(?!\w)))"
        r"(?:[º°ª]\s(?=(?P<after_sign>[a-zà-ÿ]{3,}))"
        r"|[º°ª]?\s(?=(?P<noun>[A-ZÀ-Ý][a-zà-ÿ]{2,}|{no_word}[A-ZÀ-Ý]{5,}|(?:{counted_events})(?!\w))))",
        romance_numerals.read_numeral_before_noun,
    ),
    Rule(
        "second_reign",
        r"(?:(?<=\by )|(?<=\be )|(?<=\bet ))(?P<numeral>[IVX]{1,5})(?=\s(?:de|di|da|do)\s[A-Z]|\sd['’][A-Z])",
        romance_numerals.read_second_reign,
    ),
    Rule(
        "numeral_before_noun",
        r"(?<=\s)(?=[IVX])(?:{after_article})(?P<numeral>[IVX]{2,7}(?=\s[a-zà-ÿ])|[IVX])"
        r"\s(?=(?P<noun>[a-zà-ÿ]{4,20}(?!\w)|[A-ZÀ-Ý][a-zà-ÿ]{3,}))",
        romance_numerals.read_numeral_after_article,
    ),
    Rule(
        "by",
        r"(?=\s?[xX×])(?:{after_size})\s?[xX×]\s?(?=\d+(?:[.,]\d+)?\s?(?:{units})(?!\w))",
        romance_quantities.read_by,
    ),
    Rule(
        "before_number",
        r"(?<![\w.])(?P<short>{before_number})"
        r"(?::?\s?(?P<numeral>[IVX]+)(?![\w–-])|(?=:?\s?(?:\d|[IVX]+[–-]|[A-Z](?![\w.])|[(+]{1,2}\d)))",
        romance_letters.read_before_number,
    ),
    Rule("abbreviation", r"(?<![\w.])(?:{abbreviations})(?!\w)", romance_letters.read_short),
    Rule("title", r"(?<![\w.])(?:(?:{titles})(?=\s[A-ZÀ-Ý]){boulevard})", romance_letters.read_title),
    Rule(
        "initial",
        r"(?<![\w.])(?!(?:[A-ZÀ-Ý]\.){2,6}(?!\s?[A-ZÀ-Ý]))(?P<letter>[A-ZÀ-Ý])\.-?(?=\s?[A-ZÀ-Ý][\w.])",
        romance_letters.read_initial,
    ),
    Rule("rate_name", RATE, quantities.read_rate_name),
    Rule("day", r"(?<!\d)(?P<day>\d{1,2})(?:er|º|°)?(?=\s+(?:de\s+)?(?:{month_names})\b)", romance_times.read_day),
    Rule("version", quantities.VERSION, quantities.read_version),
    Rule(
        "dial",
        r"(?<![\w.,])(?:\+\d{1,3}(?:\s?\(0\))?(?:[ .-]?\(?\d{1,9}\)?){1,6}|\(\d{2,4}\)\s?9?\s?\d{3,5}[ -]\d{3,4}"
        r"|0\d{1,4}[ /-]\d{5,8}|\d{5}-\d{3,4})(?![\w-]|[.,]\d)",
        romance_times.read_dial,
    ),
    Rule(
        "fraction",
        r"(?:\b(?P<before>{date_words}|(?:{days_in_full}|{days})[.,]{0,2})\s)?"
        r"(?<![\w.,/])(?P<top>\d{1,2})/(?P<bottom>\d{1,3})(?![\w/]|[.,]\d|\s?(?:h|min|kg|g|k?m|m?l)(?!\w))",
        romance_times.read_fraction,
    ),
    # Money and units
    Rule(
        "scaled_money",
        r"(?<![\w.,])(?:(?P<currency>{money}){gap}(?P<amount_after>{number})\s?(?P<scale_before>{scales})"
        r"|(?P<amount>{number})\s?(?P<scale>{scales})\.?\s?(?:{of}\s|d['’])?(?P<currency_after>{money}))(?!\w)",
        romance_quantities.read_scaled_money,
    ),
    Rule(
        "money",
        r"(?:(?P<minus>(?<!\w)[-−–])?(?:(?P<currency>{money}){gap}(?P<amount>{price})"
        r"|(?<![\w.,])(?P<amount_before>{price}){gap}(?P<currency_after>{money})))"
        r"(?:\s?/\s?(?P<per>(?:{units_with_stop})|[a-zà-ÿ]{1,12}[²³]?|[A-ZÀ-Ý]{1,10}|k?Wh))?(?!\w)",
        romance_quantities.read_money,
    ),
    Rule(
        "percent",
        r"(?P<minus>(?<!\w)[-−–])?(?<![\w.,])(?P<amount>{measure}){gap}%(?P<dash>\s?[-–]\s?(?=\d+(?:[.,]\d+)?\s?%))?",
        romance_quantities.read_percent,
    ),
    Rule(
        "range",
        r"(?<![\w.,/-])(?P<first>{thousands}|\d+(?:[.,]\d+)?)\s?[-–]\s?(?P<last>{thousands}|\d+(?:[.,]\d+)?){gap}"
        r"(?P<unit>%|(?:{units}|{money})(?!\w))?(?:/(?P<per>[a-zà-ÿ]{1,12}[²³]?))?(?![\w/-])(?!\.\d)(?!\s*=)",
        romance_quantities.read_range_or_number,
    ),
    # Italians write the sign of degrees in ordinals: 3° piano, but 90° di latitudine.
    Rule(
        "ordinal",
        r"(?<![\w,])(?P<number>\d{1,4})\.?(?P<ending>{ordinal_endings})(?![a-zà-ÿCF-Z\d_]|[ABDE]\w)"
        r"(?!(?<=°)(?!\s(?!di\b)[a-zà-ù]{3}))(?:(?<=[a-z])\.(?=\s[a-zà-ÿ]))?",
        romance_numerals.read_ordinal,
    ),
    Rule(
        "unit",
        r"(?P<minus>(?<!\w)[-−–])?(?<![\w.,])(?P<amount>{measure}){gap}(?P<unit>{units})"
        r"(?:/(?P<per>{units}|[a-zà-ÿ]{3,12}|H|[A-ZÀ-Ý]{3,10})"
        r"|/(?P<many>\d{1,4})\s?(?!(?P=unit)(?!\w))(?P<many_unit>{units})"
        r"|(?P<dash>\s?[-–]\s?(?=\d+(?:[.,]\d+)?\s?(?P=unit)(?!\w)))|\.(?=\s[a-zà-ÿ(]|,))?(?!\w)",
        romance_quantities.read_unit_or_rooms,
    ),
    # Roman numerals
    Rule(
        "numeral",
        r"(?=[IVXL])(?:{after_numbered_noun})(?P<numeral>[IVXL]{1,7})(?![\w'’-])",
        romance_numerals.read_part_of_book,
    ),
    Rule(
        "century",
        r"(?P<numeral>\b[IVX]+)(?:er|e|ème|º|°)?(?=\s+(?:{centuries})\b)",
        romance_numerals.read_centuries,
    ),
    Rule(
        "named_numeral",
        r"\b(?!(?:{articles})\s)(?P<name>[A-ZÀ-Ý][^\W\d_]{1,29}|{centuries})"
        r"\s(?P<numeral>[IVXL]{1,7})(?:er)?(?![\w'’-]|\.[A-Z])",
        romance_numerals.read_numeral_after_name,
    ),
    Rule(
        "sign",
        r"(?:(?<=\d)\s?(?P<sign>x|[+=×÷<>≈±≤≥·−]|(?<=\s)-(?=\s\d+(?:[.,]\d+)?\s?=))\s?(?=[\d-])"
        r"|(?:(?<=[\d)])|(?<=\b[a-zα-ω])|(?<=\d[a-zα-ω]))\s?(?!<\w{1,10}>)(?P<sign_of_variable>[×÷<>≈±≤≥·])\s?"
        r"(?=[\d√(-]|[a-zα-ω](?![a-zA-Zà-ÿ\d])))"
        r"|(?<![\w<>=-])(?P<sign_before>[×÷≈±≤≥]|[<>](?!3(?!\d)))(?=\s?\d)",
        romance_quantities.read_formula_sign,
    ),
    Rule("negative", r"(?<![\w)])[-−](?P<number>{number})(?![\w/])", quantities.read_negative),
    Rule(
        "spaced_number",
        r"(?<![\w.,])(?P<number>[1-9]\d?(?: \d{3})+)(?=\s(?P<noun>[a-zà-ÿ]{4,20})(?!\w))",
        romance_quantities.read_spaced_number,
        (*_SPANISH, *_ITALIAN, *_PORTUGUESE),
    ),
    Rule(
        "numeral_alone",
        r"(?<![\w.-])(?P<numeral>[IVX]{2,7}|M{1,3}[CDXLIVM]{3,12})(?![\w-])",
        romance_numerals.read_numeral_alone,
    ),
    # Codes and acronyms
    Rule(
        "formula",
        r"(?<![\w-])(?P<formula>(?=\w*(?:[₀-₉0-9]|[²-⁴]?[⁺⁻]))(?:{element}[₀-₉0-9]{0,2}){1,8}"
        r"|NaOH|KOH|(?=[A-Za-z]*[a-z])(?:{common_element}|[HCNOFKSPI]){2,5})(?P<ion>[²³⁴]?[⁺⁻])?(?![\w-])"
        r"|(?<=\()(?P<in_brackets>{common_element}|OH)(?=\))"
        r"|(?<!\w)(?P<before_brackets>{common_element})(?=\((?:{element}\d?){1,4}\)\d)",
        romance_letters.read_formula,
    ),
    # A code has a digit and a capital. A single letter and a number may have a space or a hyphen between them.
    Rule(
        "code",
        r"(?<![\w.,/@#-])(?!\d+(?:er|e|h)\b)(?=[\w-]*\d)(?=[\w-]*[A-Z])"
        r"(?:(?:(?<![A-Z])[A-Z]{1,3}(?![A-Z])|(?<!\d)\d{1,9}(?!\d))(?:-(?=\w))?){2,8}(?![\w@]|-\w|[.,:]\d)"
        r"|(?<![\w.,/@#-])(?:[a-zA-Z]\d{1,4}|\d{1,4}[a-zA-Z])(?!\w|[.,:/]\d|\s\d)",
        romance_letters.read_code,
    ),
    Rule(
        "code_letters",
        r"(?<![\w.,/@#-])[A-Z]{1,3}(?:[ -])(?=\d{1,4}(?![\w.,:/-]))",
        romance_letters.read_code_letters,
    ),
    Rule(
        "mixed_code",
        r"(?<![\w.,/@#-])(?=\w*[A-Z])(?=\w*[a-z])[A-Za-z]{1,3}\d{1,4}[A-Za-z]{1,3}(?:\d{1,4}[A-Za-z]{0,3})?(?![\w-])",
        romance_letters.read_code,
    ),
    Rule(
        "capitals_with_number",
        r"(?<![\w.,/@#-])(?P<word>[A-Z]{4,12})(?P<number>\d{1,4})(?![\w-])",
        romance_letters.read_word_with_number,
    ),
    Rule(
        "word_with_number",
        r"(?<![\w.,/@#])(?P<word>[a-zà-ÿ]{2,12})(?P<number>\d{1,4})(?![\w-]|[.,]\d)",
        romance_letters.read_word_with_number,
    ),
    Rule("long_code", r"(?<![\w.,/@#-])(?=\d*[A-Z])(?=[A-Z]*\d)[A-Z\d]{6,24}(?![\w-])", romance_letters.read_code),
    Rule("dotted", r"(?<![\w.])(?:[A-ZÀ-ÖØ-Ý]\.){2,6}(?![A-ZÀ-ÖØ-Ýa-z])", romance_letters.read_dotted),
    Rule(
        "capitals",
        r"(?<![\w.-])(?P<capitals>[A-ZÀ-ÖØ-Ý]{2,6})(?P<letter>-[A-Z](?!\w))?(?P<plural>s)?(?![\w.]\w|\w|['’])",
        romance_letters.read_capitals,
    ),
    Rule("minus", r"−(?=\s?[\w(])", quantities.read_minus),
    Rule("number", r"(?<![\w])(?P<number>{number})(?![\w])", romance_quantities.read_number_of_noun),
)
"""Rules of the four languages. The first that matches at a place is read."""
