"""Written forms of Spanish, French, Italian and Portuguese beside those of every language.

Their expressions; acronyms, codes and paths.
"""

from __future__ import annotations

import re
from typing import Final

from app.text.word_sets import word_set
from app.text.written import addresses, letters
from app.text.written.forms import NUMBER, Found, either
from app.text.written.numbers import roman
from app.text.written.romance_abbreviations import AbbreviationForms

_ROMAN: Final = r"[IVX]{1,7}"
_DAYS_LONG: Final = (
    "lunes martes miércoles jueves viernes sábado domingo lundi mardi mercredi jeudi vendredi samedi dimanche "
    "lunedì martedì mercoledì giovedì venerdì sabato domenica segunda terça quarta quinta sexta segunda-feira "
    "terça-feira quarta-feira quinta-feira sexta-feira"
)
_COUNTED: Final = (
    "edición|aniversario|congreso|legislatura|jornadas?|encuentro|torneo|festival|edizione|anniversario|congresso"
    "|convegno|guerra|trimestre|trim|semestre|sessione|sesión|sessão|república|repubblica|convención|giornata|edição|aniversário|encontro|jornada|torneio|semana|settimana|concurso|concorso|premio|prêmio"
)
"""Nouns in small letters that a Roman numeral before them counts."""
_ONES: Final = (
    "Guerr[ae]|República|Congres[os]+|Concilio|Festival|Jornadas?|Bienal|Cumbre|Impero|Império|Imperio"
    "|Reich|Encontro|Simp[óo]sio|Forum|Fórum|Foro|Salón|Mostra|Copa|Torneo|Edición"
)
"""Nouns that a numeral of one letter before them counts."""
_ARTICLES: Final = "El|La|Los|Las|En|Del|Al|Il|Lo|Le|Les|I|Nel|Dal|O|A|Os|As|No|Na|Da|Do|Au|Du|Ce|Este|Questo"
_BEFORE_ORDINAL: Final = (
    "la La el El il Il al del lo Lo o O a A os as do da no na ao à dal nel nella della alla un una um"
)
"""Articles before a Roman numeral that counts a noun."""
_PHONES: Final = {
    "es": r"(?<![\w.,])[6789]\d{8}(?![\w,]|\.\d)",
    "fr-fr": r"(?<![\w.,])0(?:[1-9](?:[ .-]?\d{2}){4}| 8\d\d(?: \d\d){3})(?!\w|[.,]\d)",
    "it": r"(?<![\w.,])(?:3\d{2}[ .-]?\d{3}[ .-]?\d{3,4}|800[ .-]\d{3}[ .-]?\d{3}"
    r"|0\d{1,3}(?:(?:[ .-]\d{2,4}){2,4}|[./]\d{5,8}))(?!\w|[.,]\d)",
    "pt-br": r"(?<![\w.,])(?:(?:0?\d{2}\s)?(?!(?:1\d|20)\d\d-(?:1\d|20)\d\d)9?\d{4}-\d{4}"
    r"|\d{3}\.\d{3}\.\d{3}-\d\d|\d\d\.\d{3}\.\d{3}(?:/\d{4})?-\d\d?|0[38]00[ -]?\d{3}[ -]?\d{4})(?!\w|[.,]\d)",
}
_BEFORE_MONTHS: Final = "desde hasta en em até in depuis fin début mi finales fino da dal de"
"""Words before an abbreviated month that no number follows."""
_BEFORE_DAYS: Final = (
    "dal al del du au desde el los le les il i la na no nas nos ao aos à às cada ogni chaque este esta ce questo"
)
"""Words before an abbreviated day of the week."""
_TITLES: Final = word_set(
    "Sr Sra Srta Sres Srs Dr Dra Drs Dres Prof Profa Ing Lic Avda Avv Arch Geom Sig Dott Eng Exmo Ilmo Gral Av"
)
"""Titles that may lack their full stop before a name."""
_WINDS: Final = ("NE", "NO", "SE", "SO", "NW", "SW")
_FROM: Final = re.compile(r"\b(?:de|da|do|du|del|dal|al|au|hacia|vers|verso|para)\s$")
_FOLDERS: Final = (
    "rama carpeta directorio ruta repositorio branche dossier répertoire branch ramo cartella directory repository "
    "pasta diretório repositório"
)
"""Nouns before a path."""
_CROWD: Final = (
    r"\s(?:de\s|di\s|d['’])(?:vistas|vues|views|visualiza\w+|visualizzazioni|reproduc\w+|seguidor\w+|followers?|abonn\w+"
    r"|usu[aá]rios|utilisateurs|utenti|iscritti|suscriptores|inscritos|d[oó]lares|dollars|dollari|euros?|personas|pessoas"
    r"|personnes|persone|habitant\w+|abitanti|descargas|t[ée]l[ée]chargements|downloads?)\b"
)
"""What is counted in millions."""
_BEFORE_DECADES: Final = "los os nos dos les años anos anni années"
_BARE: Final = word_set(
    "kg km cm mm mg ml cl dl hl hg kW kWh MW MWh GW GHz MHz kHz Hz kB KB MB GB TB Go Mo To dB kcal km² m² m³ cm² °C °F"
)
"""Units that are read without a number, after one of these words."""
_ONE_UNIT: Final = word_set("al il el le au du un por par per um ao do o cada ogni")
_MANY_UNITS: Final = word_set("en in em de di los les os i des dei quantos quanti pocos")


class RomanceForms(AbbreviationForms):
    """Written forms of one of the four languages. Methods are safe on any thread."""

    def _compile(self) -> re.Pattern[str]:
        # No form begins within a word: places between two letters are left at once.
        return re.compile(rf"(?!(?<=[^\W\d_])[^\W\d_])(?:{super()._compile().pattern})")

    def _groups(self) -> dict[str, str]:
        words, more = self._words, self._more
        days, months = either(self._day_names), either(self._months)
        units, money = either(words.units), either(words.money)
        link = r"\s(?:de\s)?|[/-]"
        years = r"\d{4}"
        long_days = "|".join(_DAYS_LONG.split())
        greek = "".join(sign for sign in more.signs if sign.isalpha())
        signs = "".join(sign for sign in more.signs if not sign.isalpha())
        rates = either(unit for unit in words.units if re.fullmatch(r"[a-z]{2,}\.", unit))
        articles = "|".join(rf"(?<=\b{word}\s)" for word in _BEFORE_ORDINAL.split())
        measured = "|".join(rf"(?<=\d\s{unit})|(?<=\d{unit})" for unit in ("mm", "cm", "dm", "m", "km"))
        boulevard = r"|BD(?=\s[A-ZÀ-Ý]{3})" if self._french else ""
        titles = either(short[:-1] for short in words.abbreviations if short[:-1] in _TITLES and short[-1] == ".")
        no_vi = r"(?<!VI\s)" if self._tag == "it" else ""  # a word there
        before_months = "|".join(rf"(?<=\b(?i:{word})\s)" for word in _BEFORE_MONTHS.split())
        before_days = "|".join(rf"(?<=\b(?i:{word}) )" for word in _BEFORE_DAYS.split())
        in_folder = "|".join(rf"(?<=\b{word}\s)" for word in _FOLDERS.split())
        in_decades = "|".join(rf"(?<=\b(?i:{word})\s)" for word in _BEFORE_DECADES.split())
        bare = either(unit for unit in words.units if unit in _BARE)
        befores = "|".join(rf"(?<=\b{word}\s)" for word in sorted(_ONE_UNIT | _MANY_UNITS))
        base = super()._groups()
        # "El XX Congreso": an article is no name of a monarch.
        base["roman"] = base["roman"].replace(r"\b(?P<rw>", rf"\b(?!(?:{_ARTICLES})\s)(?P<rw>", 1)
        base["date"] = (
            r"(?<![\d/.,-])(?P<d2>\d{1,2})(?P<s2>[/.-])(?P<m2>\d{1,2})(?P=s2)(?P<y2>\d{4}|\d\d)"
            r"(?P<dt>\s?[-–]\s?(?=\d{1,2}[/.]\d{1,2}[/.]\d\d))?(?![\d/-](?<!\s\d)|[.,]\d)"
        )
        base["fraction"] = (
            rf"(?:\b(?P<fw>{either([*words.dated.split(), *words.dated.title().split()])}"
            rf"|(?:{long_days}|{days})[.,]{{0,2}})\s)?"
            r"(?<![\w.,/])(?P<fn>\d{1,2})/(?P<fd>\d{1,3})(?![\w/]|[.,]\d|\s?(?:h|min|kg|g|k?m|m?l)(?!\w))"
        )
        base["clock"] = (
            r"(?<![\d:.,])(?P<h>[01]?\d|2[0-4])(?:(?::|\s?[hH]\s?)(?P<mi>[0-5]\d)(?!\d|\.\d{3})|[hH]s?(?!\w))(?!:)"
            r"(?:\s?h(?:s|rs)?\b|\s?(?P<ap>[ap])\.?\s?m\b(?:\.(?!\s*$))?|(?!\w))"
            r"(?P<ct>\s?[-–]\s?(?=\d{1,2}[:hH]))?"
        )
        base["sign"] = (
            r"(?:(?<=\d)\s?(?P<g>x|[+=×÷<>≈±≤≥·−]|(?<=\s)-(?=\s\d+(?:[.,]\d+)?\s?=))\s?(?=[\d-])"
            r"|(?:(?<=[\d)])|(?<=\b[a-zα-ω])|(?<=\d[a-zα-ω]))\s?(?!<\w{1,10}>)(?P<g3>[×÷<>≈±≤≥·])\s?"
            r"(?=[\d√(-]|[a-zα-ω](?![a-zA-Zà-ÿ\d])))"
            r"|(?<![\w<>=-])(?P<g2>[×÷≈±≤≥]|[<>](?!3(?!\d)))(?=\s?\d)"
        )
        base["ordinal"] = (
            base["ordinal"].replace(r"(?<!\w)(?P<o>", r"(?<![\w,])(?P<o>") + r"(?:(?<=[a-z])\.(?=\s[a-zà-ÿ]))?"
        )
        thousands = r"\d{1,3}(?:[ .\u00a0\u202f]\d{3})+" if self._french else r"\d{1,3}(?:\.\d{3})+"
        base["range"] = base["range"].replace(r"\d+(?:[.,]\d+)?", rf"{thousands}|\d+(?:[.,]\d+)?")
        coins = either(code for code in words.money if re.fullmatch("[A-Z]{3}", code))
        american = rf"(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d\d)?|{NUMBER})" if self._gendered else NUMBER
        if self._tag == "es":  # 3'50 €
            american = rf"(?:\d{{1,4}}'\d{{1,2}}|{american})"
            for kind in ("unit", "percent"):
                base[kind] = base[kind].replace(NUMBER, rf"(?:\d{{1,4}}'\d{{1,2}}|{NUMBER})")
        base["money"] = base["money"].replace(NUMBER, american)
        base["ordinal"] = base["ordinal"].replace(r"(?!\w)(?!(?<=°)", r"(?![a-zà-ÿCF-Z\d_]|[ABDE]\w)(?!(?<=°)")
        base["percent"] += r"(?P<pr>\s?[-–]\s?(?=\d+(?:[.,]\d+)?\s?%))?"
        base["range"] = base["range"].replace(
            r"(?![\w/-])(?!\.\d)", r"(?:/(?P<re>[a-zà-ÿ]{1,12}[²³]?))?(?![\w/-])(?!\.\d)"
        )
        base["dial"] = (
            r"(?<![\w.,])(?:\+\d{1,3}(?:\s?\(0\))?(?:[ .-]?\(?\d{1,9}\)?){1,6}|\(\d{2,4}\)\s?9?\s?\d{3,5}[ -]\d{3,4}"
            r"|0\d{1,4}[ /-]\d{5,8}|\d{5}-\d{3,4})(?![\w-]|[.,]\d)"
        )
        each = rf"(?:\s?/\s?(?P<mu>(?:{rates})|[a-zà-ÿ]{{1,12}}[²³]?|[A-ZÀ-Ý]{{1,10}}|k?Wh))?"
        base["money"] = base["money"].replace(rf"(?:/(?P<mu>{units}))?", each)
        base["unit"] = base["unit"].replace(
            "(?:/(?P<up>h|s|m²|kg|l))?",
            rf"(?:/(?P<up>{units}|[a-zà-ÿ]{{3,12}}|H|[A-ZÀ-Ý]{{3,10}})|/(?P<ux>\d{{1,4}})\s?(?!(?P=u)(?!\w))(?P<uy>{units})"
            r"|(?P<ut>\s?[-–]\s?(?=\d+(?:[.,]\d+)?\s?(?P=u)(?!\w)))|\.(?=\s[a-zà-ÿ(]|,))?",
        )
        first = {
            "address": base.pop("address"),
            "path": r"(?<![\w/])(?P<pt>(?:[A-Z]:\\|~/|\.{1,2}/|/(?=\w+/))[\w.\\/-]{2,200})"
            rf"|(?<![\w/.])(?:[\w-]{{1,40}}/){{1,8}}[\w-]{{1,64}}\.(?:{addresses.FILES})(?!\w)"
            rf"|(?<=\s)(?=\w)(?:{in_folder})(?P<rp>\w{{1,40}}(?:/[\w-]{{1,40}}){{1,8}})(?!\w)"
            r"|(?<![\w.])(?P<sn>[A-Za-z0-9]{1,40}(?:_[A-Za-z0-9]{1,40}){1,8})(?!\w)",
            "account": letters.PATTERNS["account"],
            "iso": base.pop("iso").replace("-(?P<m>", "(?P<is>[-/])(?P<m>").replace("-(?P<d>", "(?P=is)(?P<d>"),
            "date": base.pop("date"),
            "abbreviated": rf"(?<![\w.,/-])(?:(?P<md0>\d{{1,2}})\s?[-–]\s?)?(?P<md>\d{{1,2}})"
            rf"(?:er|º|°)?(?:{link})(?P<mn>{months})"
            rf"(?:\.|(?=(?:{link}){years})|(?<=[/-]\w{{3}})(?!\w))(?:(?:{link})(?P<my>{years}|(?<=-)\d\d)(?![\d-]))?",
            "roman_month": r"(?<![\w./-])(?P<rmd>\d{1,2})(?P<rmsep>[-/.])(?P<rmm>X?I{1,3}|I?[VX]|VI{1,3})"
            r"(?:(?P=rmsep)(?P<rmy>\d{4}|\d\d))?(?![\w/-])",
            "month_name": rf"(?<!\w)(?P<mn2>{months})\.?(?=\s(?:de\s)?{years}(?!\d))",
            "day_pair": rf"(?<!\w)(?P<w1>{days})\.?(?P<ws>\s?[-–/]\s?|\s(?:[ye]|et|[aà])\s(?:(?:el|il|la|le)\s)?)"
            rf"(?P<w2>{days})(?:\.|(?!\w))",
            "month_pair": rf"(?<!\w)(?P<mp1>{months})"
            r"(?:\.?\s?[-–/]\s?|\.\s(?P<mpl>[aàyàe]|al|au|até|et)\s)"
            rf"(?P<mp2>{months})(?:\.|(?!\w))",
            "month_alone": rf"(?<=\s)(?=\w)(?:{before_months})(?P<ma1>{months})\.(?!\s(?:de\s)?\d)",
            "weekday": rf"(?<!\w)(?P<w3>{days})(?:\.(?=,?\s\d)|(?=,?\s\d{{1,2}}/\d))"
            rf"|(?<= )(?=\w)(?:{before_days})(?P<w4>{days})(?:\.(?=[,;:)]|\s[a-zà-ÿ(])|(?=\.$))",
            "date_pair": r"(?<![\w/.,-])(?P<p1>\d{1,2})(?P<ps>/|-(?=(?:1[0-2]|0?[1-9])\s))(?P<p2>\d{1,2})"
            r"(?P<pl>\s(?:a|al|au|à|até|ao)\s)(?P<p3>\d{1,2})(?P=ps)(?P<p4>\d{1,2})(?![\w/-]|[.,]\d)",
            "month_of": r"(?<![\w/.,])(?P<mo>0[1-9]|1[0-2])/(?P<moy>(?:19|20)\d\d)(?![\w/])",
            "duration": r"(?<![\w.,:])(?P<dh>\d{1,3})(?P<dg>\s?)[hH]\s?(?P<dm>\d{1,2})"
            r"\s?(?:min|MIN|mn|m|['′])(?!\w)(?:\.(?!\s*$))?(?:\s?(?P<ds>[0-5]?\d)\s?(?:s(?!\w)|[\"″]|''))?",
            "short_duration": r"(?<![\w.,:])(?P<sm2>\d{1,3})\s?min\s?(?P<ss2>\d{1,2})"
            r"(?P<sx2>\s?s(?:eg|ec)?(?!\w))?(?!\w|[.,]\d)",
            "elapsed": r"(?<![\d:])(?P<eh>\d{1,2}):(?P<em>[0-5]\d):(?P<es>[0-5]\d)(?![\d:])"
            r"|(?<![\d:])(?P<om>2[5-9]|[3-9]\d):(?P<os>[0-5]\d)(?![\d:])",
            "phone": rf"(?P<p>{_PHONES[self._tag]})",
            "clock": base.pop("clock"),
            "ratio": r"(?<![\w:.,])(?P<ra>\d{1,3}):(?P<rb>\d{1,3}(?:[. ]\d{3}){0,2})(?![\w:]|[.,]\d)",
            "power": r"(?P<pw>(?<![\w.,])\d+(?:[.,]\d+)?|(?<!\w)(?P<pk>\d{1,3})?(?![ckdhm]?m[²³])[A-Za-zα-ω]{1,2}|\))"
            r"(?P<px>⁻?[⁰¹²³⁴-⁹]{1,3}(?![⁺⁻])|\^[-−]?\d{1,3}|\^[-−]?[a-z])(?!\w)",
            "subscript": r"(?<!\w)(?:(?P<lg>log)|(?P<sv>[A-Za-zα-ω]))(?P<sd>[₀-₉]{1,3})(?!\w)",
            "root": r"(?P<ro>√)\s?(?:\((?=[^()]{1,40}\)))?(?=[\w(])",
            "greek": rf"(?P<gr>(?<![^\W\d])[{greek}](?![^\W\d_]{{2}})|[{signs}])",
            "coefficient": rf"(?<![\w.,])(?P<cf>\d{{1,4}})(?=[{greek}])",
            "amperes": rf"(?<![\w.,])(?P<am>{NUMBER})\s?A(?!\w|\s[A-Z\d])",
            "again": r"(?<![\w.,-])(?P<ag>\d{1,4})(?P<ag2>bis|ter|quater)(?!\w)",
            "and_half": r"(?<=[a-zà-ÿ]\s)(?P<ah>[ye]|et)\s(?:1/2|½)(?!\w|[./,]?\d|\s?[a-zà-ÿ])",
            "mixed": r"(?<![\w.,/])(?:(?P<mw>\d{1,3})\s?)?(?:(?P<mf>[½⅓⅔¼¾⅛])"
            r"|(?(mw)(?<=\s))(?P<mt>[1-9])/(?P<mb>[2-9]))"
            rf"(?![\w/]|[.,]\d)(?:\s?(?P<mu2>{units})(?!\w)|\s(?P<mx>[a-zà-ÿ]{{3,20}}))?",
            "pages": r"(?<![\w.,])(?P<pgn>\d{1,3}(?:\.\d{3})?)\s(?:pp?|págs?|pagg?)\.(?!\s?\d|\s?m\.)",
            "per_thousand": rf"(?<![\w.,])(?P<pt2>{NUMBER})\s?‰",
            "thousands": r"(?<![\w.,])(?P<kn>\d{1,4}(?:[.,]\d{1,2})?)"
            rf"(?:k|(?<=\d\d)K|(?P<km>M|m(?={_CROWD})))(?![\w/€$£])"
            rf"|(?<![\w.,])(?P<kp>{NUMBER})\s?(?P<ks>{either(words.scales)})\.?(?=\s(?:de\s|di\s|d['’])(?!{money}))",
            "years": r"(?<![\w.,/-])(?P<y1>1[5-9]\d\d|20\d\d)(?P<ys>[-–])(?P<y3>\d\d)(?![\w/-]|[.,]\d)",
            "height": rf"(?<![\w.,])(?P<hm>\d{{1,4}})(?P<hu>m|{money})(?P<hc>\d\d)(?!\w|[.,]\d)",
            "variable": r"(?<![\w'’.])(?:y(?=\s?[=+−×<>≤≥])|(?<=[=+−×<>≤≥]\s)y(?!\w))",
            "word_rate": r"(?<=[a-zà-ÿ])(?P<wr>/)(?P<wu>día|semana|mes|año|hora|jour|semaine|mois|an|heure|giorno"
            r"|settimana|mese|anno|ora|dia|mês|ano)(?!\w)",
            "era_range": r"(?<=[Cc]\.)(?P<er>\s?[-–]\s?)(?=\d)",
            "bare_unit": rf"(?<=\s)(?:{befores})(?P<bu>{bare})(?!\w|\s?\d|/)",
            "see": r"(?<![\w.])(?P<se>[Vv]\.)(?=\s(?:figg?|tabb?|capp?|chap|artt?|pp?|págs?|pagg?|nota|supra|§|n\.))",
            "less": r"(?P<le>(?:(?<=\bJ)-(?=\d)|(?<=\b[a-z])-(?=\d)|(?<=\b[a-z]\s)-(?=\s\d)|(?<=[²³]\s)-(?=\s)))",
            "divided": r"(?<=\d)\s(?P<dv>:)\s(?=\d+\s?=)",
            "decade": rf"(?:(?<=\s)(?=['’\d])(?:{in_decades})['’]?|(?<![\w.,])(?=\d{{3}})|(?<=\b[A-Z]-))"
            r"(?P<de>(?:1[5-9]|20)?[2-9]0|(?:1[5-9]|20)\d0|7[0-8]7|(?<=-)\d\d)['’]?s"
            r"(?:(?P<dei>,?\s(?:y|e|et|ed|a|al)\s(?:l?os\s)?)['’]?(?P<de2>[2-9]0)['’]?s)?(?!\w)",
            "times": r"(?<![\w.,])(?P<t>\d{1,3})[xX](?=\s[a-zà-ÿ])",
            "meridiem": r"(?<![\w:.,])(?P<mh>1[0-2]|[1-9])\s?(?P<ma>[ap])m(?!\w)",
            "minutes": r"(?<![\w.,'])(?P<mq>\d{1,3})(?:['′]\s?(?P<sq>[0-5]?\d)(?:[\"″]|'')|′|'(?=[\s,.;)]|$))",
            "roman_range": rf"(?<![\w-])(?P<ra1>{_ROMAN})\s?[-–]\s?(?P<ra2>{_ROMAN})(?![\w-])",
            "money_code": rf"(?:US)?[$€£]\s?(?P<mcn>{american})\s(?P<mcc>{coins})(?!\w)",
            "prices": rf"(?:(?<!\w)(?P<mrc>{money})\s?)?(?<![\w.,-])(?P<mr1>{NUMBER})\s?(?P<mra>{money})?\s?[-–]\s?"
            rf"(?(mrc)(?:{money})?|(?(mra)|(?!)))\s?(?P<mr2>{NUMBER})\s?(?(mra)(?:{money}))(?:/(?P<mre>[a-zà-ÿ]{{1,12}}[²³]?))?"
            r"(?![\w-])",
            "inches": r"(?<![\w.,])(?P<in>\d{1,3}(?:[.,]\d)?)[\"″](?=[\s.,;)]|$)",
            **self._own_groups(units),
            "product": rf"(?<![\w.,])(?P<x1>{NUMBER})[xX×](?P<x2>{NUMBER})(?:[xX×](?P<x3>{NUMBER}))?"
            rf"(?:\s?(?P<xu>{units}))?(?![\w=])",
            "roman_first": rf"(?<![\w.])(?P<rf>[IVX]{{2,7}}|[IVX](?=\s(?:{_ONES})(?!\w)))"
            r"(?:[º°ª]\s(?=(?P<ry>[a-zà-ÿ]{3,}))"
            rf"|[º°ª]?\s(?=(?P<rx>[A-ZÀ-Ý][a-zà-ÿ]{{2,}}|{no_vi}[A-ZÀ-Ý]{{5,}}|(?:{_COUNTED})(?!\w))))",
            "roman_and": r"(?:(?<=\by )|(?<=\be )|(?<=\bet ))(?P<rk>[IVX]{1,5})"
            r"(?=\s(?:de|di|da|do)\s[A-Z]|\sd['’][A-Z])",
            "roman_noun": rf"(?<=\s)(?=[IVX])(?:{articles})(?P<rv>[IVX]{{2,7}}(?=\s[a-zà-ÿ])|[IVX])"
            rf"\s(?=(?P<rz>[a-zà-ÿ]{{4,20}}(?!\w)|[A-ZÀ-Ý][a-zà-ÿ]{{3,}}))",
            "between": rf"(?=\s?[xX×])(?:{measured})\s?(?P<bw>[xX×])\s?(?=\d+(?:[.,]\d+)?\s?(?:{units})(?!\w))",
            "numbered": rf"(?<![\w.])(?P<nb>{either(self._before_number)})"
            r"(?::?\s?(?P<nr>[IVX]+)(?![\w–-])|(?=:?\s?(?:\d|[IVX]+[–-]|[A-Z](?![\w.])|[(+]{1,2}\d)))",
        }
        capitals = {name: letters.PATTERNS[name] for name in ("formula", "code", "dotted", "capitals")}
        alone = r"(?<![\w.-])(?P<rl>[IVX]{2,7}|M{1,3}[CDXLIVM]{3,12})(?![\w-])"
        base.pop("phone")
        last = {"number": base.pop("number")}
        short = base.pop("short")
        return {
            **first,
            "short": short,
            "title": rf"(?<![\w.])(?P<ti>(?:{titles})(?=\s[A-ZÀ-Ý]){boulevard})",
            "initial": r"(?<![\w.])(?!(?:[A-ZÀ-Ý]\.){2,6}(?!\s?[A-ZÀ-Ý]))(?P<it>[A-ZÀ-Ý])\.-?(?=\s?[A-ZÀ-Ý][\w.])",
            **base,
            "spaced": r"(?<![\w.,])(?P<sp>[1-9]\d?(?: \d{3})+)(?=\s(?P<sy>[a-zà-ÿ]{4,20})(?!\w))"
            if not self._french
            else r"(?P<sp>(?P<sy>(?!)))",
            "roman_alone": alone,
            **capitals,
            "minus": r"(?P<mi2>−)(?=\s?[\w(])",
            **last,
        }

    def _own_groups(self, units: str) -> dict[str, str]:
        """Return the groups that only this language has."""
        if self._portuguese:
            return {
                "hour": r"(?:(?<=\bàs )|(?<=\bà ))(?P<hr>[12]|2[12])(?![\d:hª.,/]|\s?h)",
                "versus": r"(?<![\w.,])(?P<va>\d{1,2})\s?x\s?(?P<vb>\d{1,2})"
                rf"(?![\w/]|[.,]\d|\s?(?:{units}|x|=)(?!\w))",
                "lady": r"(?<!\w)(?P<la>D\.)(?=\s(?P<ln>[A-ZÀ-Ý][a-zà-ÿ]+))",
            }
        if self._french:
            return {
                "ordinal_range": rf"(?<!\w)(?P<og1>{_ROMAN})(?:er|re|e|ème)\s?[-–]\s?(?={_ROMAN}(?:e|ème)(?!\w))",
                "french_ordinal": rf"(?<!\w)(?P<fo1>{_ROMAN})(?:er|ère|re|e|ème)s?(?P<fs>\ss\.)?(?!\w)",
                "each_of": r"(?:(?<=\d[hj])|(?<=\d\s[hj]))(?P<eo>/)(?=\d)",
            }
        if self._tag == "it":
            return {
                "each_of": r"(?<=\dh)(?P<eo>/)(?=\d)",
                "nth_after": r"(?:(?<=\b[ai]l )|(?<=\b(?i:dal) )|(?<=\bnel )|(?<=\bdel )|(?<=\bsul )|(?<=\bè )|(?<=l'))"
                r"(?P<na>\d{1,3})°(?!\s?[CFNSEO](?!\w)|\w)",
                "floor": r"(?<![\w.,])(?P<fl>\d{1,2})°\sp\.(?!\s?\d)",
                "aged": r"(?<![\w.,])(?P<ae>\d{1,3})enn(?P<ag3>[ei])(?!\w)",
                "clock_dot": r"(?:(?<=\balle )|(?<=\bdalle )|(?<=\bore )|(?<=\ble ))"
                r"(?P<hd>[01]?\d|2[0-4])[.,](?P<md2>[0-5]\d)(?!\d|[.,]\d)(?:\sh(?!\w))?",
                "hour": r"(?<=all')(?P<hr>1)(?![\d:h]|[.,]\d)",
                "centuries": rf"(?<!\w)(?P<rm>{_ROMAN})"
                rf"(?=(?:\s?[-–]\s?|\s(?:e|al|o|ed)\s(?:il\s)?){_ROMAN}\s(?:secolo|sec\.))",
                "century_after": rf"(?<!\w)(?P<ca2>{_ROMAN})\s(?P<ca3>sec\.)",
                "unnumbered": r"(?<=, )(?P<un2>s\.n\.c\.)",
                "nth": r"(?<!\w)(?P<nt>\d{1,4})(?:-?esim(?P<ng>[oaie])|\^)(?!\w)",
            }
        return {
            "hour": r"(?:(?<=\ba la )|(?<=\ba las )|(?<=\bde la )|(?<=\bes la ))(?P<hr>2?1)(?![\d:hªº/]|[.,]\d|\s?h)",
            "clock_dot": r"(?:(?<=\blas )|(?<=\bde )(?=\d{1,2}\.\d\d\sa\s\d{1,2}\.\d\d)|(?<=\.\d\d a ))"
            r"(?P<hd>[01]?\d|2[0-4])(?:\.|,(?=\d\d\sh))(?P<md2>[0-5]\d)(?!\d|[.,]\d)(?:\sh(?!\w))?",
        }

    def _path(self, match: re.Match[str]) -> Found | str:
        names = {**self._words.address, "\\": self._backslash}
        if match["sn"] or match["rp"]:
            return addresses.words(match.group(), names, self._numbers)
        text = match.group().rstrip(".")
        return match.start(), match.start() + len(text), addresses.words(text, names, self._numbers)

    @property
    def _backslash(self) -> str:
        return {"fr-fr": "barre oblique inverse", "it": "barra rovesciata"}.get(self._tag, "barra invertida")

    def _account(self, match: re.Match[str]) -> str:
        return self._letters.account(match["ac"])

    def _formula(self, match: re.Match[str]) -> str:
        said = self._letters.spell(match["fo"] or match["fo2"] or match["fo3"])
        ion = match["io"]
        if not ion:
            return said
        count = {"²": 2, "³": 3, "⁴": 4}.get(ion[0])
        sign = self._words.signs["+"] if ion[-1] == "⁺" else self._words.minus
        return " ".join(filter(None, (said, self._numbers.cardinal(count) if count else "", sign)))

    def _code(self, match: re.Match[str]) -> str | Found | None:
        if match["co3"]:
            text = match["co3"]
            known = roman(text[:-1]) is not None and text[-1] == " "
            return None if known or (len(text) == 2 and text[-1] == " ") else self._spelled_before(match)
        if match["co4"]:
            return self._letters.code_word(match["co4"])
        if match["co6"]:
            word = match["co6"].rstrip("0123456789")
            return f"{word} {self._letters.spell(match['co6'][len(word) :])}"
        if match["co5"] or match["co7"]:
            return self._letters.spell(match["co5"] or match["co7"])
        return self._letters.spell(match["co"] or match["co2"])

    def _spelled_before(self, match: re.Match[str]) -> str | None:
        text = match["co3"]
        if text[-1] == " " and not self._letters.is_spelled(text[:-1], alone=not self._in_capitals(match)):
            return None
        return self._letters.spell(text)

    def _dotted(self, match: re.Match[str]) -> Found:
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, self._letters.spell(match["dl"])

    def _capitals(self, match: re.Match[str]) -> str | None:
        text = match["ca"]
        wind = text in _WINDS and _FROM.search(match.string, 0, match.start()) and not self._in_capitals(match)
        if match["cx"] is None and not wind and not self._letters.is_spelled(text, alone=not self._in_capitals(match)):
            return None
        said = self._letters.spell(text + (match["cx"] or ""))
        return f"{said}s" if match["cs"] and self._gendered else said

    @staticmethod
    def _next_word(match: re.Match[str]) -> str:
        found = re.match(r"\s([^\W\d_]+)", match.string[match.end() : match.end() + 32])
        return found[1] if found else ""

    def _nth(self, match: re.Match[str]) -> str:
        ending = match["ng"] or ("a" if self._feminine(self._next_word(match)) else "o")
        return self._numbers.ordinal(int(match["nt"]))[:-1] + ending

    def _each_of(self, match: re.Match[str]) -> str:
        return self._more.out_of

    def _between(self, match: re.Match[str]) -> str:
        return self._more.by

    def _subscript(self, match: re.Match[str]) -> str:
        number = self._numbers.cardinal(int(match["sd"].translate(letters.LOWERED)))
        if match["lg"]:
            return f"{self._more.logarithm} {number} {self._words.of}"
        name = match["sv"]
        return f"{self._more.signs.get(name) or self._more.single.get(name.lower(), name.lower())} {number}"

    def _word_rate(self, match: re.Match[str]) -> str | None:
        counted = re.search(r"\d\s[a-zà-ÿ]+$", match.string[: match.start()])
        return self._each(match["wu"]) if counted else match["wu"]

    def _era_range(self, match: re.Match[str]) -> str:
        return self._words.to

    def _nth_after(self, match: re.Match[str]) -> str:
        return self._numbers.ordinal(int(match["na"]), "f" if self._feminine(self._next_word(match)) else "m")

    def _floor(self, match: re.Match[str]) -> Found:
        last = not match.string[match.end() :].strip()
        return match.start(), match.end() - last, f"{self._numbers.ordinal(int(match['fl']))} piano"

    def _aged(self, match: re.Match[str]) -> str:
        years = self._numbers.cardinal(int(match["ae"])).replace("tré", "tre")
        return f"{years if years.endswith('tre') else years[:-1]}enn{match['ag3']}"

    def _again(self, match: re.Match[str]) -> str:
        return f"{self._numbers.cardinal(int(match['ag']))} {match['ag2']}"

    def _variable(self, match: re.Match[str]) -> str:
        return self._more.single.get("y", "y")

    def _bare_unit(self, match: re.Match[str]) -> str:
        noun = self._words.units[match["bu"]]
        return noun.many if match.string[: match.start()].split()[-1].lower() in _MANY_UNITS else noun.one
