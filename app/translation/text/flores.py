"""Languages of FLORES-200, in the order of NLLB-200's language ids, and more languages that models translate.

Each line: code, preferred BCP-47 tag, English name, and other accepted names (older and ISO 639-2 codes, macrolanguages
that mean this member by default, regions that mean it, other English names).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class FloresLanguage(NamedTuple):
    """One language: FLORES-200 `code`, BCP-47 `tag`, English `name`, and other accepted names in lower case."""

    code: str
    tag: str
    name: str
    others: tuple[str, ...]


_TABLE: Final = """
ace_Arab|ace-Arab|Acehnese (Arabic script)|
ace_Latn|ace|Acehnese|acehnese (latin script)
acm_Arab|acm|Mesopotamian Arabic|iraqi arabic
acq_Arab|acq|Ta'izzi-Adeni Arabic|yemeni arabic
aeb_Arab|aeb|Tunisian Arabic|
afr_Latn|af|Afrikaans|
ajp_Arab|ajp|South Levantine Arabic|
aka_Latn|ak|Akan|
amh_Ethi|am|Amharic|
apc_Arab|apc|North Levantine Arabic|levantine arabic
arb_Arab|ar|Arabic|ara, modern standard arabic, standard arabic
ars_Arab|ars|Najdi Arabic|
ary_Arab|ary|Moroccan Arabic|
arz_Arab|arz|Egyptian Arabic|
asm_Beng|as|Assamese|
ast_Latn|ast|Asturian|
awa_Deva|awa|Awadhi|
ayr_Latn|ay|Central Aymara|aym, aymara
azb_Arab|azb|South Azerbaijani|az-arab, az-ir
azj_Latn|az|Azerbaijani|aze, north azerbaijani, azeri
bak_Cyrl|ba|Bashkir|
bam_Latn|bm|Bambara|
ban_Latn|ban|Balinese|
bel_Cyrl|be|Belarusian|byelorussian
bem_Latn|bem|Bemba|
ben_Beng|bn|Bengali|bangla
bho_Deva|bho|Bhojpuri|bh, bih
bjn_Arab|bjn-Arab|Banjar (Arabic script)|
bjn_Latn|bjn|Banjar|banjar (latin script)
bod_Tibt|bo|Tibetan|tib, standard tibetan
bos_Latn|bs|Bosnian|
bug_Latn|bug|Buginese|
bul_Cyrl|bg|Bulgarian|
cat_Latn|ca|Catalan|valencian
ceb_Latn|ceb|Cebuano|
ces_Latn|cs|Czech|cze
cjk_Latn|cjk|Chokwe|
ckb_Arab|ckb|Central Kurdish|sorani, ku-arab, ku-iq
crh_Latn|crh|Crimean Tatar|
cym_Latn|cy|Welsh|wel
dan_Latn|da|Danish|
deu_Latn|de|German|ger
dik_Latn|dik|Southwestern Dinka|din, dinka
dyu_Latn|dyu|Dyula|
dzo_Tibt|dz|Dzongkha|
ell_Grek|el|Greek|gre, modern greek
eng_Latn|en|English|
epo_Latn|eo|Esperanto|
est_Latn|et|Estonian|ekk
eus_Latn|eu|Basque|baq
ewe_Latn|ee|Ewe|
fao_Latn|fo|Faroese|
pes_Arab|fa|Persian|fas, per, western persian, farsi, iranian persian
fij_Latn|fj|Fijian|
fin_Latn|fi|Finnish|
fon_Latn|fon|Fon|
fra_Latn|fr|French|fre
fur_Latn|fur|Friulian|
fuv_Latn|fuv|Nigerian Fulfulde|ff, ful, fulfulde, fulah
gla_Latn|gd|Scottish Gaelic|
gle_Latn|ga|Irish|irish gaelic
glg_Latn|gl|Galician|
grn_Latn|gn|Guarani|gug
guj_Gujr|gu|Gujarati|
hat_Latn|ht|Haitian Creole|haitian
hau_Latn|ha|Hausa|
heb_Hebr|he|Hebrew|iw
hin_Deva|hi|Hindi|
hne_Deva|hne|Chhattisgarhi|
hrv_Latn|hr|Croatian|
hun_Latn|hu|Hungarian|
hye_Armn|hy|Armenian|arm, eastern armenian
ibo_Latn|ig|Igbo|
ilo_Latn|ilo|Ilocano|iloko
ind_Latn|id|Indonesian|in
isl_Latn|is|Icelandic|ice
ita_Latn|it|Italian|
jav_Latn|jv|Javanese|jw
jpn_Jpan|ja|Japanese|jp
kab_Latn|kab|Kabyle|
kac_Latn|kac|Jingpho|kachin
kam_Latn|kam|Kamba|
kan_Knda|kn|Kannada|
kas_Arab|ks|Kashmiri|kashmiri (arabic script)
kas_Deva|ks-Deva|Kashmiri (Devanagari script)|
kat_Geor|ka|Georgian|geo
knc_Arab|knc-Arab|Central Kanuri (Arabic script)|kr-arab
knc_Latn|knc|Central Kanuri|kr, kau, kanuri, central kanuri (latin script)
kaz_Cyrl|kk|Kazakh|
kbp_Latn|kbp|Kabiyè|kabiye
kea_Latn|kea|Kabuverdianu|cape verdean creole
khm_Khmr|km|Khmer|cambodian
kik_Latn|ki|Kikuyu|gikuyu
kin_Latn|rw|Kinyarwanda|
kir_Cyrl|ky|Kyrgyz|kirghiz
kmb_Latn|kmb|Kimbundu|
kon_Latn|kg|Kikongo|kongo, ktu
kor_Hang|ko|Korean|ko-kore
kmr_Latn|ku|Northern Kurdish|kur, kurdish, kurmanji
lao_Laoo|lo|Lao|laotian
lvs_Latn|lv|Latvian|lav, standard latvian
lij_Latn|lij|Ligurian|
lim_Latn|li|Limburgish|limburgan
lin_Latn|ln|Lingala|
lit_Latn|lt|Lithuanian|
lmo_Latn|lmo|Lombard|
ltg_Latn|ltg|Latgalian|
ltz_Latn|lb|Luxembourgish|
lua_Latn|lua|Luba-Kasai|tshiluba
lug_Latn|lg|Ganda|luganda
luo_Latn|luo|Luo|dholuo
lus_Latn|lus|Mizo|lushai
mag_Deva|mag|Magahi|
mai_Deva|mai|Maithili|
mal_Mlym|ml|Malayalam|
mar_Deva|mr|Marathi|
min_Latn|min|Minangkabau|
mkd_Cyrl|mk|Macedonian|mac
plt_Latn|mg|Malagasy|mlg, plateau malagasy
mlt_Latn|mt|Maltese|
mni_Beng|mni|Meitei|manipuri
khk_Cyrl|mn|Mongolian|mon, halh mongolian
mos_Latn|mos|Mossi|
mri_Latn|mi|Maori|mao, māori
zsm_Latn|ms|Malay|msa, may, standard malay, malaysian
mya_Mymr|my|Burmese|bur, myanmar
nld_Latn|nl|Dutch|dut, flemish
nno_Latn|nn|Norwegian Nynorsk|nynorsk
nob_Latn|nb|Norwegian Bokmål|no, nor, norwegian, bokmål, bokmal, norwegian bokmal
npi_Deva|ne|Nepali|nep
nso_Latn|nso|Northern Sotho|sepedi, pedi
nus_Latn|nus|Nuer|
nya_Latn|ny|Nyanja|chichewa, chewa
oci_Latn|oc|Occitan|
gaz_Latn|om|Oromo|orm, west central oromo
ory_Orya|or|Odia|ori, oriya
pag_Latn|pag|Pangasinan|
pan_Guru|pa|Punjabi|eastern panjabi, eastern punjabi, panjabi
pap_Latn|pap|Papiamento|papiamentu
pol_Latn|pl|Polish|
por_Latn|pt|Portuguese|pb, brazilian portuguese
prs_Arab|prs|Dari|fa-af
pbt_Arab|ps|Pashto|pus, southern pashto, pushto
quy_Latn|qu|Ayacucho Quechua|que, quechua
ron_Latn|ro|Romanian|rum, mo, mol, moldavian
run_Latn|rn|Rundi|kirundi
rus_Cyrl|ru|Russian|
sag_Latn|sg|Sango|
san_Deva|sa|Sanskrit|
sat_Beng|sat|Santali|sat-olck, sat_olck
scn_Latn|scn|Sicilian|
shn_Mymr|shn|Shan|
sin_Sinh|si|Sinhala|sinhalese
slk_Latn|sk|Slovak|slo
slv_Latn|sl|Slovenian|slovene
smo_Latn|sm|Samoan|
sna_Latn|sn|Shona|
snd_Arab|sd|Sindhi|
som_Latn|so|Somali|
sot_Latn|st|Southern Sotho|sesotho
spa_Latn|es|Spanish|castilian
als_Latn|sq|Albanian|sqi, alb, tosk albanian
srd_Latn|sc|Sardinian|
srp_Cyrl|sr|Serbian|sr-latn
ssw_Latn|ss|Swati|
sun_Latn|su|Sundanese|
swe_Latn|sv|Swedish|
swh_Latn|sw|Swahili|swa, kiswahili
szl_Latn|szl|Silesian|
tam_Taml|ta|Tamil|
tat_Cyrl|tt|Tatar|
tel_Telu|te|Telugu|
tgk_Cyrl|tg|Tajik|
tgl_Latn|tl|Tagalog|fil, filipino
tha_Thai|th|Thai|
tir_Ethi|ti|Tigrinya|
taq_Latn|taq|Tamasheq|tmh, tamasheq (latin script)
taq_Tfng|taq-Tfng|Tamasheq (Tifinagh script)|
tpi_Latn|tpi|Tok Pisin|
tsn_Latn|tn|Tswana|
tso_Latn|ts|Tsonga|
tuk_Latn|tk|Turkmen|
tum_Latn|tum|Tumbuka|
tur_Latn|tr|Turkish|
twi_Latn|tw|Twi|
tzm_Tfng|tzm|Central Atlas Tamazight|ber, tamazight
uig_Arab|ug|Uyghur|uighur
ukr_Cyrl|uk|Ukrainian|
umb_Latn|umb|Umbundu|
urd_Arab|ur|Urdu|
uzn_Latn|uz|Uzbek|uzb, northern uzbek
vec_Latn|vec|Venetian|
vie_Latn|vi|Vietnamese|
war_Latn|war|Waray|
wol_Latn|wo|Wolof|
xho_Latn|xh|Xhosa|
ydd_Hebr|yi|Yiddish|yid, ji, eastern yiddish
yor_Latn|yo|Yoruba|
yue_Hant|yue|Cantonese|yue chinese, zh-yue
zho_Hans|zh|Chinese|cmn, chi, zh-cn, zh-sg, zh-my, mandarin, mandarin chinese, simplified chinese, chinese (simplified)
zho_Hant|zh-Hant|Traditional Chinese|cmn-hant, zh-tw, zh-hk, zh-mo, zt, chinese (traditional)
zul_Latn|zu|Zulu|
"""


_MORE: Final = """
bre_Latn|br|Breton|
fry_Latn|fy|West Frisian|frisian, western frisian
"""


def _languages(table: str) -> tuple[FloresLanguage, ...]:
    languages = []
    for line in table.strip().splitlines():
        code, tag, name, others = line.split("|")
        languages.append(FloresLanguage(code, tag, name, tuple(other for other in others.split(", ") if other)))
    return tuple(languages)


FLORES_LANGUAGES: Final = _languages(_TABLE)
MORE_LANGUAGES: Final = _languages(_MORE)
