"""Tokenizers of M2M-100 (arXiv:2010.11125) and SMaLL-100 (arXiv:2210.11621), whose networks are NLLB's.

Text is cut by sentencepiece.bpe.model, which also normalizes it. Ids come from vocab.json, by the piece's text: its
order is not that of the SentencePiece model. The languages follow the last piece, in alphabetical order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from models.contract import WeightsError, WeightsMissingError
from models.files import read_json
from models.nllb.config import NllbConfig
from models.nllb.text import TranslationTokenizer, check_specials

# FLORES-200 code of each language, in the order of ids. It lacks br and fy: these are written alike. `zh` is zho_Hans.
_LANGUAGES = """
af:afr_Latn am:amh_Ethi ar:arb_Arab ast:ast_Latn az:azj_Latn ba:bak_Cyrl be:bel_Cyrl bg:bul_Cyrl bn:ben_Beng br:bre_Latn
bs:bos_Latn ca:cat_Latn ceb:ceb_Latn cs:ces_Latn cy:cym_Latn da:dan_Latn de:deu_Latn el:ell_Grek en:eng_Latn es:spa_Latn
et:est_Latn fa:pes_Arab ff:fuv_Latn fi:fin_Latn fr:fra_Latn fy:fry_Latn ga:gle_Latn gd:gla_Latn gl:glg_Latn gu:guj_Gujr
ha:hau_Latn he:heb_Hebr hi:hin_Deva hr:hrv_Latn ht:hat_Latn hu:hun_Latn hy:hye_Armn id:ind_Latn ig:ibo_Latn ilo:ilo_Latn
is:isl_Latn it:ita_Latn ja:jpn_Jpan jv:jav_Latn ka:kat_Geor kk:kaz_Cyrl km:khm_Khmr kn:kan_Knda ko:kor_Hang lb:ltz_Latn
lg:lug_Latn ln:lin_Latn lo:lao_Laoo lt:lit_Latn lv:lvs_Latn mg:plt_Latn mk:mkd_Cyrl ml:mal_Mlym mn:khk_Cyrl mr:mar_Deva
ms:zsm_Latn my:mya_Mymr ne:npi_Deva nl:nld_Latn no:nob_Latn ns:nso_Latn oc:oci_Latn or:ory_Orya pa:pan_Guru pl:pol_Latn
ps:pbt_Arab pt:por_Latn ro:ron_Latn ru:rus_Cyrl sd:snd_Arab si:sin_Sinh sk:slk_Latn sl:slv_Latn so:som_Latn sq:als_Latn
sr:srp_Cyrl ss:ssw_Latn su:sun_Latn sv:swe_Latn sw:swh_Latn ta:tam_Taml th:tha_Thai tl:tgl_Latn tn:tsn_Latn tr:tur_Latn
uk:ukr_Cyrl ur:urd_Arab uz:uzn_Latn vi:vie_Latn wo:wol_Latn xh:xho_Latn yi:ydd_Hebr yo:yor_Latn zh:zho_Hans zu:zul_Latn
"""
LANGUAGES: dict[str, str] = dict(item.split(":") for item in _LANGUAGES.split())
"""M2M-100's name -> FLORES-200 code."""


class M2m100Tokenizer(TranslationTokenizer):
    """Tokenizer of M2M-100; with `target_first`, of SMaLL-100."""

    def __init__(
        self, model: str | Path, vocabulary: str | Path, config: NllbConfig, *, target_first: bool = False
    ) -> None:
        """Read the SentencePiece model and vocab.json. Raises WeightsError unless they have `config`'s layout."""
        for path in (model, vocabulary):
            if not Path(path).is_file():
                raise WeightsMissingError(f"{path} does not exist")
        try:
            self._processor = SentencePieceProcessor(model_file=str(model))
        except (OSError, RuntimeError) as error:
            raise WeightsError(f"{model}: not a SentencePiece model: {error}") from error
        ids = _read_ids(vocabulary)
        size = len(ids) + len(LANGUAGES)
        if size > config.vocab_size:
            raise WeightsError(f"{vocabulary}: {size} tokens and languages, but the checkpoint has {config.vocab_size}")
        check_specials(vocabulary, ids, config)
        self.target_first = target_first
        self.unused = range(size, config.vocab_size)
        languages = {code: len(ids) + place for place, code in enumerate(LANGUAGES.values())}
        self._unknown = config.unk_token_id
        special = {config.bos_token_id, config.pad_token_id, config.eos_token_id, self._unknown}
        # Without the special ones: no text is a special token, whatever its characters.
        self._ids = {piece: id_ for piece, id_ in ids.items() if id_ not in special}
        self._pieces = {id_: piece for piece, id_ in self._ids.items()}
        super().__init__(languages, special | set(languages.values()), size, config.eos_token_id)

    def pieces(self, text: str) -> list[int]:
        return [self._ids.get(piece, self._unknown) for piece in self._processor.encode(text, out_type=str)]

    def piece(self, id_: int) -> str:
        return self._pieces.get(id_, "")

    def join(self, ids: Sequence[int]) -> str:
        text: str = self._processor.decode([self._pieces[id_] for id_ in ids])
        return text

    def _by_frequency(self) -> Iterable[int]:
        # The SentencePiece model has them in the order in which its training merged them: most frequent first.
        return sorted(range(self.size), key=lambda id_: self._processor.piece_to_id(self.piece(id_)))


def _read_ids(path: str | Path) -> dict[str, int]:
    """Return piece -> id of vocab.json. Raises WeightsError unless the ids are 0, 1, 2, ... in any order."""
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: not a vocabulary: {error}") from error
    if not isinstance(found, dict) or not all(type(id_) is int for id_ in found.values()):
        raise WeightsError(f"{path}: a vocabulary is an object of pieces and their whole numbers")
    if sorted(found.values()) != list(range(len(found))):
        raise WeightsError(f"{path}: {len(found)} pieces must have the ids 0 to {len(found) - 1}, each once")
    return found
