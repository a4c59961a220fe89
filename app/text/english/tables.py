"""Word lists of English normalization: abbreviations, units, currencies, symbols."""

from __future__ import annotations

from typing import Final

from app.text.word_sets import word_set

# Abbreviations with a full stop, in small letters, and their words.
ABBREVIATIONS: Final[dict[str, str]] = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "messrs": "messers", "prof": "professor", "jr": "junior",
    "sr": "senior", "vs": "versus", "etc": "etc", "approx": "approximately", "dept": "department",
    "est": "estimated", "inc": "incorporated", "ltd": "limited", "corp": "corporation", "co": "company",
    "bros": "brothers", "assn": "association", "univ": "university", "govt": "government", "mt": "mount",
    "hwy": "highway", "apt": "apartment", "temp": "temperature", "incl": "including", "excl": "excluding",
    "lb": "pound", "lbs": "pounds", "oz": "ounces",
    "attn": "attention", "qty": "quantity", "tsp": "teaspoon", "tbsp": "tablespoon", "yrs": "years", "wks": "weeks",
    "mins": "minutes", "hrs": "hours", "secs": "seconds", "cont": "continued", "orig": "originally", "avg": "average",
    "ref": "reference", "encl": "enclosed", "asst": "assistant", "ext": "extension", "vol": "volume",
    "vols": "volumes", "figs": "figures",
    "gen": "general", "capt": "captain", "lt": "lieutenant", "col": "colonel", "sgt": "sergeant", "maj": "major",
    "cpl": "corporal", "cmdr": "commander", "adm": "admiral", "rev": "reverend", "hon": "honorable",
    "gov": "governor", "sen": "senator", "rep": "representative", "pres": "president", "supt": "superintendent",
    "min": "minimum", "max": "maximum",
    "tel": "telephone", "misc": "miscellaneous", "intl": "international", "natl": "national", "cf": "compare",
    "viz": "namely", "ca": "circa", "al": "al", "esq": "esquire", "fwd": "forward", "ed": "edition",
    "wm": "william", "chas": "charles", "thos": "thomas",
    "mgr": "manager", "mtg": "meeting", "atty": "attorney", "div": "division", "ea": "each", "yr": "year",
    "hr": "hour", "wk": "week",
    "fr": "father", "msgr": "monsignor", "pvt": "private", "insp": "inspector", "amb": "ambassador",
    "esp": "especially",
    "resp": "respectively", "equiv": "equivalent", "usu": "usually", "mfg": "manufacturing", "mgmt": "management",
    "pkg": "package", "pkgs": "packages", "abbr": "abbreviation", "assoc": "associate", "acct": "account",
    "addr": "address", "desc": "description", "diam": "diameter", "dist": "district", "elev": "elevation",
    "freq": "frequency", "hosp": "hospital", "illus": "illustrated", "maint": "maintenance", "prev": "previous",
    "prelim": "preliminary", "req": "required", "sched": "schedule", "std": "standard", "subj": "subject",
    "transl": "translated", "depts": "departments", "assocs": "associates", "cert": "certificate",
    "hdqrs": "headquarters", "mass": "massachusetts", "conn": "connecticut", "calif": "california", "fla": "florida",
    "ariz": "arizona", "mich": "michigan", "minn": "minnesota", "wis": "wisconsin", "colo": "colorado",
    "okla": "oklahoma", "tenn": "tennessee", "penn": "pennsylvania", "nev": "nevada", "mont": "montana",
}  # fmt: skip

# Abbreviations that are words too: only with these starts, or before a number.
ONLY_CAPITALIZED: Final = word_set(
    "gen col maj adm rev hon gov sen rep pres mt ed ref fr amb pvt mass conn calif fla ariz mich "
    "minn wis colo okla tenn penn nev mont"
)
# Abbreviations that are names or verbs too: not at the end of a sentence.
ONLY_INSIDE: Final = word_set("max min temp est esp std desc dist")
BEFORE_NUMBER: Final[dict[str, str]] = {
    "no": "number", "nos": "numbers", "vol": "volume", "fig": "figure", "figs": "figures", "ch": "chapter",
    "approx": "approximately", "qty": "quantity", "hwy": "highway", "rm": "room", "pp": "pages", "pg": "page",
    "ex": "example", "p": "page", "pgs": "pages", "sec": "section", "eq": "equation", "art": "article",
    "ext": "extension", "pt": "part", "c": "circa", "ca": "circa", "min": "minimum", "max": "maximum",
    "temp": "temperature", "apt": "apartment", "ste": "suite", "rt": "route", "rte": "route", "vols": "volumes",
    "chs": "chapters", "secs": "sections", "est": "established", "op": "opus", "ed": "edition", "bldg": "building",
    "fl": "floor", "pop": "population", "mk": "mark", "cat": "category", "para": "paragraph", "precip": "precipitation",
    "lat": "latitude", "wt": "weight", "ht": "height", "exp": "expires", "ep": "episode", "eps": "episodes",
}  # fmt: skip
LATIN: Final[dict[str, str]] = {
    "e.g.": "for example", "i.e.": "that is", "a.k.a.": "also known as", "w/o": "without", "w/": "with",
    "b/c": "because", "n.b.": "note well", "et al.": "et al", "ph.d.": "P H D", "r.i.p.": "R I P",
    "c/o": "care of", "y/o": "year old", "w/out": "without", "v.": "versus",
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
DAYS: Final[dict[str, str]] = {
    name: names.split()[0]
    for names in ("monday mon", "tuesday tue tues", "wednesday wed", "thursday thu thur thurs", "friday fri",
                  "saturday sat", "sunday sun")
    for name in names.split()
}  # fmt: skip
# Short names that have other meanings: days and months only beside a date, a time or another short name.
AMBIGUOUS_CALENDAR: Final = word_set("jan mar sat sun")
FULL_MONTHS: Final = word_set("january february march april may june july august september october november december")
MONTH_NAMES: Final = tuple(name for name in MONTHS if len(name) > 4 or name in ("may", "june", "july"))

# Symbols that are spoken wherever they stand.
SPOKEN_SYMBOLS: Final[dict[str, str]] = {
    "&": "and", "@": "at", "%": "percent", "+": "plus", "=": "equals", "×": "times", "÷": "divided by",
    "±": "plus or minus", "≈": "approximately", "≠": "is not equal to", "≤": "less than or equal to",
    "≥": "greater than or equal to", "√": "square root of", "∞": "infinity", "°": "degrees", "−": "minus",
    "→": "to", "∑": "sum of", "∫": "integral of", "€": "euros", "£": "pounds", "$": "dollars", "¥": "yen",
    "§": "section", "©": "copyright", "®": "registered", "™": "trademark", "№": "number", "∈": "in", "∂": "partial",
    "∆": "delta", "∇": "nabla", "<": "less than", ">": "greater than", "#": "hash", "‰": "per mille", "¢": "cents",
    "∪": "union", "∩": "intersection", "⊂": "is a subset of", "⊆": "is a subset of",
    "∀": "for all",     "∃": "there exists",
    "⇒": "implies", "⇔": "if and only if", "∝": "is proportional to", "∅": "empty set", "∴": "therefore",
    "∵": "because",
    "∠": "angle", "∏": "product of", "∉": "not in", "¬": "not", "∧": "and", "∨": "or", "≡": "is equivalent to",
    "♭": "flat", "♯": "sharp", "★": "star", "¶": "paragraph", "↑": "up", "↓": "down",
}  # fmt: skip

OPERATORS: Final[dict[str, str]] = {
    "<=": "less than or equal to", ">=": "greater than or equal to", "!=": "not equal to", "==": "equals",
    "+=": "plus equals", "-=": "minus equals", "*=": "times equals", "->": "to", "&&": "and", "||": "or",
}  # fmt: skip

# Signs inside addresses.
ADDRESS_SIGNS: Final[dict[str, str]] = {
    ".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", "?": "question mark", "=": "equals",
    "&": "and", "#": "hash", "%": "percent", "+": "plus", ":": "colon", "~": "tilde", "\\": "backslash",
}  # fmt: skip

# Symbols that are markup or decoration unless they stand between numbers.
ONLY_BETWEEN_NUMBERS: Final[dict[str, str]] = {
    "*": "times", "/": "divided by", "^": "to the power of", "<": "less than", ">": "greater than", "~": "to",
}  # fmt: skip

NUMBERED_THINGS: Final = word_set(
    "chapter part volume act scene section book phase stage level type war appendix figure table article title episode "
    "season grade class category schedule psalm exhibit world vol bowl"
)
REGNAL_NAMES: Final = word_set(
    "louis henry charles george edward elizabeth james william richard philip peter paul john pius benedict francis "
    "catherine frederick napoleon alexander nicholas ivan ferdinand gustav carl christian leopold albert alfonso "
    "ramses thutmose amenhotep constantine justinian otto haakon harald margrethe wilhelm friedrich karl juan felipe "
    "umberto mehmed suleiman murad selim sixtus julius eugene stephen celestine emmanuel mary gregory "
    "leo clement innocent boniface urban ramesses rameses cleopatra ptolemy xerxes darius"
)

SPOKEN_DOMAINS: Final = word_set("com org net info biz app dev edu gov mil")  # read as words
AFTER_REGNAL: Final = word_set(
    "fought won lost wrote built led left lived sent gave met will would did then "
    "of was is and had has died ruled reigned became who in the came took made did"
)
VULGAR_FRACTIONS: Final[dict[str, tuple[str, str]]] = {
    "½": ("1", "2"), "⅓": ("1", "3"), "⅔": ("2", "3"), "¼": ("1", "4"), "¾": ("3", "4"), "⅕": ("1", "5"),
    "⅖": ("2", "5"), "⅗": ("3", "5"), "⅘": ("4", "5"), "⅙": ("1", "6"), "⅚": ("5", "6"), "⅐": ("1", "7"),
    "⅛": ("1", "8"), "⅜": ("3", "8"), "⅝": ("5", "8"), "⅞": ("7", "8"), "⅑": ("1", "9"), "⅒": ("1", "10"),
}  # fmt: skip

# Abbreviations without a full stop. WORDS: always. BARE_TITLES: before a capital. STREETS: after a name.
WORDS: Final[dict[str, str]] = {
    "vs": "versus", "eg": "for example", "ie": "that is", "ctrl": "control", "asap": "A S A P", "phd": "P H D",
    "aka": "also known as", "wwi": "world war one", "wwii": "world war two", "etc": "etc", "ltd": "limited",
    "cmd": "command", "esc": "escape", "thx": "thanks", "pls": "please", "plz": "please", "mtg": "meeting",
    "msg": "message", "tmrw": "tomorrow", "ppl": "people", "phds": "PHDs", "idk": "I D K",
    "imo": "I M O", "imho": "I M H O", "iirc": "I I R C", "afaik": "A F A I K", "irl": "I R L", "omw": "on my way",
    "yoy": "year over year", "qoq": "quarter over quarter", "hrs": "hours",
}  # fmt: skip
# Words of messages with a digit in them.
CHAT: Final[dict[str, str]] = {
    "gr8": "great", "l8r": "later", "b4": "before", "2day": "today", "2nite": "tonight", "2moro": "tomorrow",
    "m8": "mate", "h8": "hate", "w8": "wait", "str8": "straight", "4ever": "forever",
}  # fmt: skip
BARE_TITLES: Final[dict[str, str]] = {
    "Dr": "doctor", "Mr": "mister", "Mrs": "missus", "Ms": "miz", "Prof": "professor", "Sgt": "sergeant",
    "Capt": "captain", "Mt": "mount", "Ft": "fort", "Lt": "lieutenant", "Messrs": "messers",
}  # fmt: skip
# Abbreviations that need no full stop before a number.
BARE_BEFORE_NUMBER: Final = word_set(
    "apt ste vol vols fig figs hwy ext rm rt rte chs pp pgs nos approx max min qty temp bldg ep eps"
)
STREETS: Final[dict[str, str]] = {
    "st": "street", "dr": "drive", "ave": "avenue", "av": "avenue", "blvd": "boulevard", "rd": "road", "ln": "lane",
    "ct": "court", "sq": "square", "pl": "place", "pkwy": "parkway", "hwy": "highway", "ter": "terrace",
    "cres": "crescent", "expy": "expressway", "tpke": "turnpike",
}  # fmt: skip
DIRECTIONS: Final = {
    "N": "north", "S": "south", "E": "east", "W": "west",
    "NE": "northeast", "NW": "northwest", "SE": "southeast", "SW": "southwest",
}  # fmt: skip
COUNTIES: Final = word_set("Durham Cork Kerry Galway Mayo Clare Down Antrim Dublin Donegal Kildare Wicklow Meath Louth")

# Words before a number that is read in pairs ("room 404"), digit by digit, or as a telephone number.
PAIRED: Final = word_set(
    "room flight route highway suite apartment apt gate channel boeing airbus bus train bldg building studio "
    "rm rte rt hwy interstate area platform ext extension exit error xbox rtx gtx peugeot ferrari"
)
SPELLED: Final = word_set(
    "code pin account isbn zip ssn serial passcode password postcode otp acct routing iban tracking"
)
IDENTIFIED: Final = word_set("order invoice ticket reference ref confirmation booking id member customer case")
TELEPHONES: Final = word_set("phone tel telephone call dial ring fax mobile cell text whatsapp")
LETTERED: Final = word_set("seat row unit flat figure fig section appendix table question step zone hall box door")
VERSIONED: Final = word_set(
    "version python ubuntu django kernel linux go node php macos ios android release rust ruby perl swift kotlin scala "
    "java julia typescript react angular rails tensorflow pytorch numpy pandas chrome firefox safari debian fedora "
    "windows blender docker kubernetes postgres postgresql mysql redis openssl gcc clang llvm cmake cuda npm "
    "scipy"
)
EMERGENCY: Final = word_set("911 999 112 111 110 119 000 101 988 311 411 211")
BIBLE: Final = word_set(
    "genesis exodus leviticus numbers deuteronomy joshua judges ruth samuel kings chronicles ezra nehemiah esther job "
    "psalm psalms proverbs ecclesiastes isaiah jeremiah lamentations ezekiel daniel hosea joel amos obadiah jonah "
    "micah nahum habakkuk zephaniah haggai zechariah malachi matthew mark luke john acts romans corinthians galatians "
    "ephesians philippians colossians thessalonians timothy titus philemon hebrews james peter jude revelation surah "
    "quran"
)
# Short names of books of the Bible, before a chapter and verse.
BIBLE_BOOKS: Final[dict[str, str]] = {
    "gen": "genesis", "ex": "exodus", "exod": "exodus", "lev": "leviticus", "num": "numbers", "deut": "deuteronomy",
    "josh": "joshua", "sam": "samuel", "ps": "psalm", "prov": "proverbs", "eccl": "ecclesiastes", "isa": "isaiah",
    "jer": "jeremiah", "ezek": "ezekiel", "dan": "daniel", "hos": "hosea", "mic": "micah", "zech": "zechariah",
    "mal": "malachi", "matt": "matthew", "mt": "matthew", "mk": "mark", "lk": "luke", "jn": "john", "rom": "romans",
    "cor": "corinthians", "gal": "galatians", "eph": "ephesians", "phil": "philippians", "col": "colossians",
    "thess": "thessalonians", "tim": "timothy", "heb": "hebrews", "jas": "james", "pet": "peter", "rev": "revelation",
}  # fmt: skip
VERSED: Final = BIBLE | frozenset(BIBLE_BOOKS)
STATES: Final[dict[str, str]] = {
    "AL": "alabama", "AK": "alaska", "AZ": "arizona", "AR": "arkansas", "CA": "california", "CO": "colorado",
    "CT": "connecticut", "DE": "delaware", "FL": "florida", "GA": "georgia", "HI": "hawaii", "ID": "idaho",
    "IL": "illinois", "IN": "indiana", "IA": "iowa", "KS": "kansas", "KY": "kentucky", "LA": "louisiana",
    "ME": "maine", "MD": "maryland", "MA": "massachusetts", "MI": "michigan", "MN": "minnesota", "MS": "mississippi",
    "MO": "missouri", "MT": "montana", "NE": "nebraska", "NV": "nevada", "NH": "new hampshire", "NJ": "new jersey",
    "NM": "new mexico", "NY": "new york", "NC": "north carolina", "ND": "north dakota", "OH": "ohio",
    "OK": "oklahoma", "OR": "oregon", "PA": "pennsylvania", "RI": "rhode island", "SC": "south carolina",
    "SD": "south dakota", "TN": "tennessee", "TX": "texas", "UT": "utah", "VT": "vermont", "VA": "virginia",
    "WA": "washington", "WV": "west virginia", "WI": "wisconsin", "WY": "wyoming", "DC": "D C",
}  # fmt: skip
GREEK: Final[dict[str, str]] = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "ο": "omicron", "π": "pi", "ρ": "rho",
    "σ": "sigma", "ς": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip
# Words in small letters after a measure that it does not describe: "a 5 km or 10 km run".
NO_NOUN: Final = word_set(
    "of or and to per is was were are has had in on at for from by with than if as but so that which who will would "
    "can could he she it i you we they there here a an the more less each every off away apart ago later now then "
    "today until while when"
)
# Parts of addresses that are spelled, although they have a vowel.
SPELLED_NAMES: Final = word_set("ai io uk eu py ipv")
