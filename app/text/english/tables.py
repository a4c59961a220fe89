"""Word lists of English normalisation: abbreviations, units, currencies, symbols."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Written with a full stop; read as the word. Case matters only where a capital is given.
ABBREVIATIONS: Final[dict[str, str]] = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "messrs": "messers", "prof": "professor", "jr": "junior",
    "sr": "senior", "vs": "versus", "etc": "etc", "approx": "approximately", "dept": "department",
    "est": "established", "inc": "incorporated", "ltd": "limited", "corp": "corporation", "co": "company",
    "bros": "brothers", "assn": "association", "univ": "university", "govt": "government", "mt": "mount",
    "ave": "avenue", "blvd": "boulevard", "rd": "road", "ln": "lane", "hwy": "highway", "apt": "apartment",
    "gen": "general", "capt": "captain", "lt": "lieutenant", "col": "colonel", "sgt": "sergeant", "maj": "major",
    "cpl": "corporal", "cmdr": "commander", "adm": "admiral", "rev": "reverend", "hon": "honorable",
    "gov": "governor", "sen": "senator", "rep": "representative", "pres": "president", "supt": "superintendent",
    "jan": "january", "feb": "february", "mar": "march", "apr": "april", "jun": "june", "jul": "july",
    "aug": "august", "sep": "september", "sept": "september", "oct": "october", "nov": "november",
    "dec": "december", "mon": "monday", "tue": "tuesday", "tues": "tuesday", "wed": "wednesday",
    "thu": "thursday", "thur": "thursday", "thurs": "thursday", "fri": "friday", "min": "minutes", "max": "maximum",
    "tel": "telephone", "misc": "miscellaneous", "intl": "international", "natl": "national", "cf": "compare",
    "viz": "namely", "ca": "circa", "al": "al", "esq": "esquire", "fwd": "forward", "ed": "edition",
}  # fmt: skip

# Abbreviations that are words too: only with these starts, or before a number.
ONLY_CAPITALISED: Final = _words(
    "mar jun jul sep oct nov dec mon tue wed thu fri gen col maj adm rev hon gov sen rep pres mt ave co est ed "
    "sat sun jan feb apr aug sept tues thur thurs inc corp max min"
)
BEFORE_NUMBER: Final[dict[str, str]] = {
    "no": "number", "nos": "numbers", "vol": "volume", "fig": "figure", "figs": "figures", "ch": "chapter",
    "pp": "pages", "p": "page", "sec": "section", "eq": "equation", "art": "article", "ext": "extension", "pt": "part",
}  # fmt: skip
LATIN: Final[dict[str, str]] = {
    "e.g.": "for example", "i.e.": "that is", "a.k.a.": "also known as", "w/o": "without", "w/": "with",
    "b/c": "because", "n.b.": "note well", "et al.": "et al", "ph.d.": "P H D", "r.i.p.": "R I P",
}  # fmt: skip

MONTHS: Final[dict[str, int]] = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ), start=1,
    )
    for name in names.split()
}  # fmt: skip
MONTH_NAMES: Final = tuple(name for name in MONTHS if len(name) > 4 or name in ("may", "june", "july"))

# sign or code: (one, many, hundredth, hundredths)
CURRENCIES: Final[dict[str, tuple[str, str, str, str]]] = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "us$": ("U S dollar", "U S dollars", "cent", "cents"),
    "a$": ("australian dollar", "australian dollars", "cent", "cents"),
    "c$": ("canadian dollar", "canadian dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "jeon", "jeon"),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "₿": ("bitcoin", "bitcoins", "cent", "cents"),
    "¢": ("cent", "cents", "", ""),
    "₴": ("hryvnia", "hryvnias", "kopek", "kopeks"),
    "₺": ("lira", "liras", "kurus", "kurus"),
    "usd": ("U S dollar", "U S dollars", "cent", "cents"),
    "eur": ("euro", "euros", "cent", "cents"),
    "gbp": ("pound", "pounds", "penny", "pence"),
    "jpy": ("yen", "yen", "sen", "sen"),
}

SCALES: Final[dict[str, str]] = {
    "k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion",
    "tn": "trillion", "thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion",
}  # fmt: skip

# unit: (one, many). Case matters: mW and MW, b and B.
UNITS: Final[dict[str, tuple[str, str]]] = {
    "km": ("kilometer", "kilometers"), "cm": ("centimeter", "centimeters"), "mm": ("millimeter", "millimeters"),
    "µm": ("micrometer", "micrometers"), "nm": ("nanometer", "nanometers"), "m": ("meter", "meters"),
    "mi": ("mile", "miles"), "ft": ("foot", "feet"), "yd": ("yard", "yards"), "yds": ("yard", "yards"),
    "kg": ("kilogram", "kilograms"), "g": ("gram", "grams"), "mg": ("milligram", "milligrams"),
    "µg": ("microgram", "micrograms"), "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"), "L": ("liter", "liters"), "l": ("liter", "liters"), "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"), "gal": ("gallon", "gallons"), "ms": ("millisecond", "milliseconds"),
    "µs": ("microsecond", "microseconds"), "ns": ("nanosecond", "nanoseconds"), "s": ("second", "seconds"),
    "sec": ("second", "seconds"), "secs": ("second", "seconds"), "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"), "h": ("hour", "hours"), "hr": ("hour", "hours"), "hrs": ("hour", "hours"),
    "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"), "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"), "W": ("watt", "watts"), "kW": ("kilowatt", "kilowatts"),
    "MW": ("megawatt", "megawatts"), "GW": ("gigawatt", "gigawatts"), "kWh": ("kilowatt hour", "kilowatt hours"),
    "V": ("volt", "volts"), "mV": ("millivolt", "millivolts"), "kV": ("kilovolt", "kilovolts"), "A": ("amp", "amps"),
    "mA": ("milliamp", "milliamps"), "mAh": ("milliamp hour", "milliamp hours"), "Ω": ("ohm", "ohms"),
    "KB": ("kilobyte", "kilobytes"), "kB": ("kilobyte", "kilobytes"), "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"), "TB": ("terabyte", "terabytes"), "PB": ("petabyte", "petabytes"),
    "KiB": ("kibibyte", "kibibytes"), "MiB": ("mebibyte", "mebibytes"), "GiB": ("gibibyte", "gibibytes"),
    "kbps": ("kilobit per second", "kilobits per second"), "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"), "mph": ("mile per hour", "miles per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"), "km/h": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"), "m/s": ("meter per second", "meters per second"),
    "rpm": ("revolution per minute", "revolutions per minute"), "fps": ("frame per second", "frames per second"),
    "dB": ("decibel", "decibels"), "N": ("newton", "newtons"), "J": ("joule", "joules"),
    "kJ": ("kilojoule", "kilojoules"),
    "Pa": ("pascal", "pascals"), "kPa": ("kilopascal", "kilopascals"), "hPa": ("hectopascal", "hectopascals"),
    "psi": ("pound per square inch", "pounds per square inch"), "kcal": ("kilocalorie", "kilocalories"),
    "cal": ("calorie", "calories"), "ha": ("hectare", "hectares"), "px": ("pixel", "pixels"),
    "ppm": ("part per million", "parts per million"), "mol": ("mole", "moles"),
    "m²": ("square meter", "square meters"), "m2": ("square meter", "square meters"),
    "m³": ("cubic meter", "cubic meters"), "km²": ("square kilometer", "square kilometers"),
    "cm²": ("square centimeter", "square centimeters"), "cm³": ("cubic centimeter", "cubic centimeters"),
    "ft²": ("square foot", "square feet"), "°C": ("degree celsius", "degrees celsius"),
    "°F": ("degree fahrenheit", "degrees fahrenheit"), "°": ("degree", "degrees"), "%": ("percent", "percent"),
    "‰": ("per mille", "per mille"), "℃": ("degree celsius", "degrees celsius"),
    "℉": ("degree fahrenheit", "degrees fahrenheit"), "in": ("inch", "inches"), "″": ("inch", "inches"),
    "′": ("foot", "feet"), "tsp": ("teaspoon", "teaspoons"), "tbsp": ("tablespoon", "tablespoons"),
    "pp": ("percentage point", "percentage points"),
}  # fmt: skip


# Symbols that are spoken wherever they stand.
SPOKEN_SYMBOLS: Final[dict[str, str]] = {
    "&": "and", "@": "at", "%": "percent", "+": "plus", "=": "equals", "×": "times", "÷": "divided by",
    "±": "plus or minus", "≈": "approximately", "≠": "is not equal to", "≤": "less than or equal to",
    "≥": "greater than or equal to", "√": "square root of", "∞": "infinity", "°": "degrees", "−": "minus",
    "→": "to", "∑": "sum of", "∫": "integral of", "€": "euros", "£": "pounds", "$": "dollars", "¥": "yen",
    "§": "section", "©": "copyright", "®": "registered", "™": "trademark", "№": "number", "∈": "in", "∂": "partial",
    "∆": "delta", "∇": "nabla", "<": "less than", ">": "greater than", "#": "hash", "‰": "per mille", "¢": "cents",
}  # fmt: skip

OPERATORS: Final[dict[str, str]] = {
    "<=": "less than or equal to", ">=": "greater than or equal to", "!=": "not equal to", "==": "equals",
    "->": "to", "&&": "and", "||": "or",
}  # fmt: skip

# Signs inside addresses.
ADDRESS_SIGNS: Final[dict[str, str]] = {
    ".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", "?": "question mark", "=": "equals",
    "&": "and", "#": "hash", "%": "percent", "+": "plus", ":": "colon", "~": "tilde",
}  # fmt: skip

# Symbols that are markup or decoration unless they stand between numbers.
ONLY_BETWEEN_NUMBERS: Final[dict[str, str]] = {
    "*": "times", "/": "divided by", "^": "to the power of", "<": "less than", ">": "greater than", "~": "to",
}  # fmt: skip

NUMBERED_THINGS: Final = _words(
    "chapter part volume act scene section book phase stage level type war appendix figure table article title "
    "episode season grade class category schedule psalm exhibit world vol bowl"
)
REGNAL_NAMES: Final = _words(
    "louis henry charles george edward elizabeth james william richard philip peter paul john pius benedict "
    "francis catherine frederick napoleon alexander nicholas ivan ferdinand gustav carl christian leopold albert "
    "alfonso george mary gregory leo clement innocent boniface urban ramesses rameses cleopatra ptolemy xerxes "
    "darius"
)

SPOKEN_DOMAINS: Final = _words("com org net info biz app dev edu gov mil")  # read as words; other domains are spelled
AFTER_REGNAL: Final = _words("of was is and had has died ruled reigned became who in the came took made did")
VULGAR_FRACTIONS: Final[dict[str, tuple[str, str]]] = {
    "½": ("1", "2"), "⅓": ("1", "3"), "⅔": ("2", "3"), "¼": ("1", "4"), "¾": ("3", "4"), "⅕": ("1", "5"),
    "⅖": ("2", "5"), "⅗": ("3", "5"), "⅘": ("4", "5"), "⅙": ("1", "6"), "⅚": ("5", "6"), "⅐": ("1", "7"),
    "⅛": ("1", "8"), "⅜": ("3", "8"), "⅝": ("5", "8"), "⅞": ("7", "8"), "⅑": ("1", "9"), "⅒": ("1", "10"),
}  # fmt: skip
