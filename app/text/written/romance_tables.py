"""Words that Spanish, French, Italian and Portuguese have beside those of `tables`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.text.word_sets import word_set
from app.text.written.words import parse_names, parse_pairs


@dataclass(frozen=True, slots=True)
class Romance:
    """Words of one language.

    `letters` are the names of a to z, `single` those of letters that are words when they stand alone. `days` and
    `months` are abbreviations, without a full stop. `numbered` are abbreviations that are read before a number.
    `number_sign` is the word of "nº". `squared`, `cubed` and `power` follow a base, and the base follows
    `logarithm`. `halves` are those of a masculine
    and a feminine noun: half a liter, half a cup; `and_half` those after a whole number. `short_words` are words of
    two letters, which in capitals are no acronyms.
    """

    letters: str
    single: dict[str, str]
    days: dict[str, str]
    months: dict[str, str]
    numbered: dict[str, str]
    number_sign: str
    squared: str
    cubed: str
    power: str
    root: str
    logarithm: str
    signs: dict[str, str]
    by: str
    times: str
    out_of: str
    per_thousand: str
    duration_link: str
    halves: tuple[str, str]
    and_half: tuple[str, str]
    short_words: frozenset[str]


def _shortened(names: str, table: str) -> dict[str, str]:
    """Return abbreviations of months: those of `table`, in the order of `names`, "/" between several."""
    pairs = zip(parse_names(names), parse_names(table), strict=True)
    return {form: name for name, forms in pairs for form in forms.split("/")}


_GREEK: Final = "α=alfa; β=beta; γ=gamma; δ=delta; Δ=delta; ε=épsilon; λ=lambda; µ=mu; μ=mu; π=pi; σ=sigma; Σ=sigma; "
_GREEK_TOO: Final = "θ=theta; φ=phi; ω=omega; Ω=omega; ρ=ro; τ=tau"

ROMANCE: Final = {
    "es": Romance(
        letters="a be ce de e efe ge hache i jota ka ele eme ene o pe cu erre ese te u uve uve_doble equis "
        "i_griega zeta",
        single={"y": "i griega"},
        days=parse_pairs(
            "lun=lunes; mar=martes; mié=miércoles; miér=miércoles; mie=miércoles; mier=miércoles; jue=jueves; "
            "vie=viernes; sáb=sábado; sab=sábado; dom=domingo"
        ),
        months=_shortened(
            "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
            "ene feb mar/mzo abr may jun jul ago/agt sep/sept/set oct nov dic",
        ),
        numbered=parse_pairs(
            "p.=página; km=kilómetro; km.=kilómetro; KM=kilómetro; of.=oficina; fig.=figura; tab.=tabla; "
            "t.=tomo; ed.=edición; s.=siglo; ss.=siglos; "
            "apdo.=apartado; ap.=apartado; pta.=puerta; esc.=escalera; inc.=inciso; párr.=párrafo; nº.=número; "
            "num.=número; No.=número; Cap.=capítulo; cap.=capítulo; pág=página; tel=teléfono; Tel=teléfono; "
            "ext.=extensión; "
            "Ext.=extensión; cód.=código; CP=código postal; C.P.=código postal; hab.=habitación; §=párrafo; #=número; "
            "figs.=figuras; tabs.=tablas; arts.=artículos; Arts.=artículos; caps.=capítulos; vols.=volúmenes; "
            "núms.=números; eds.=ediciones; "
            "Nro.=número; nro.=número; int.=interior; lám.=lámina; cel.=celular; Cel.=celular; máx=máximo; mín=mínimo"
        ),
        number_sign="número",
        squared="al cuadrado",
        cubed="al cubo",
        power="elevado a",
        root="raíz cuadrada de",
        logarithm="logaritmo en base",
        signs=parse_pairs(
            f"{_GREEK}{_GREEK_TOO}; ∞=infinito; ≠=distinto de; ∈=pertenece a; ∑=sumatorio de; ∛=raíz cúbica de"
        ),
        by="por",
        times="veces",
        out_of="sobre",
        per_thousand="por mil",
        duration_link="y",
        halves=("medio", "media"),
        and_half=("y medio", "y media"),
        short_words=word_set(
            "al da de di el en es fe ha he ir la le lo me mi ni no os oí ok re se si sí sé su te ti "
            "tu tú un va ve vi ya yo ay ah oh eh uf ja ex"
        ),
    ),
    "fr-fr": Romance(
        letters="a bé cé dé eu effe gé hache i ji ka elle emme enne o pé ku erre esse té u vé double_vé ixe "
        "i_grec zède",
        single={"y": "i grec"},
        days=parse_pairs("lun=lundi; mar=mardi; mer=mercredi; jeu=jeudi; ven=vendredi; sam=samedi; dim=dimanche"),
        months=_shortened(
            "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
            "janv/jan févr/fév/fev mars avr mai juin juil/juill août sept/sep oct nov déc/dec",
        ),
        numbered=parse_pairs(
            "p.=page; P.=page; km=kilomètre; KM=kilomètre; fig.=figure; tab.=tableau; t.=tome; ch.=chapitre; "
            "bât.=bâtiment; "
            "Bât.=bâtiment; apt.=appartement; appt.=appartement; app.=appartement; esc.=escalier; ét.=étage; "
            "ex.=exemple; no=numéro; No=numéro; N°=numéro; tél=téléphone; Tél=téléphone; §=paragraphe; al.=alinéa; "
            "appt=appartement; apt=appartement; bât=bâtiment; esc=escalier; "
            "BP=boîte postale; CP=code postal; Apt=appartement; #=numéro; max=maximum; min=minimum; s.=siècle; "
            "éd.=édition; ann.=annexe"
        ),
        number_sign="numéro",
        squared="au carré",
        cubed="au cube",
        power="puissance",
        root="racine carrée de",
        logarithm="logarithme en base",
        signs=parse_pairs(
            f"{_GREEK.replace('alfa', 'alpha').replace('épsilon', 'epsilon')}{_GREEK_TOO}; ∞=infini; "
            "≠=différent de; ∈=appartient à; ∑=somme de; ∛=racine cubique de"
        ),
        by="par",
        times="fois",
        out_of="sur",
        per_thousand="pour mille",
        duration_link="",
        halves=("un demi", "une demi"),
        and_half=("et demi", "et demie"),
        short_words=word_set(
            "ai au ça ce de du dû eh en es et eu il je la là le ma me mi ne né ni nu on or ou où pu sa se si "
            "su ta te tu un va vu ah oh ok ex as nu os ha hé"
        ),
    ),
    "it": Romance(
        letters="a bi ci di e effe gi acca i i_lunga cappa elle emme enne o pi cu erre esse ti u vu doppia_vu "
        "ics ipsilon zeta",
        single={},
        days=parse_pairs(
            "lun=lunedì; mar=martedì; mer=mercoledì; gio=giovedì; giov=giovedì; "
            "merc=mercoledì; mart=martedì; ven=venerdì; sab=sabato; dom=domenica"
        ),
        months=_shortened(
            "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
            "genn/gen febb/feb mar apr mag giu lug ago sett/set ott nov dic",
        ),
        numbered=parse_pairs(
            "p.=pagina; km=chilometro; km.=chilometro; KM=chilometro; fig.=figura; tab.=tabella; t.=tomo; "
            "int.=interno; sc.=scala; "
            "nr.=numero; Nr.=numero; num.=numero; pag=pagina; max=massimo; min=minimo; sez.=sezione; par.=paragrafo; "
            "§=paragrafo; #=numero; CAP=cap; c.=comma; co.=comma; lett.=lettera; ed.=edizione; all.=allegato; "
            "vers.=versione; cell.=cellulare; Cell.=cellulare; sec.=secolo; secc.=secoli; h.=ore; s.=secolo; "
            "figg.=figure; tabb.=tabelle; sezz.=sezioni; nn.=numeri; "
            "v.=volume; q.=quota; C.P.=casella postale; l.=legge; civ.=civico; min.=minimo"
        ),
        number_sign="numero",
        squared="al quadrato",
        cubed="al cubo",
        power="elevato a",
        root="radice quadrata di",
        logarithm="logaritmo in base",
        signs=parse_pairs(
            f"{_GREEK.replace('épsilon', 'epsilon')}{_GREEK_TOO.replace('theta', 'teta').replace('phi', 'fi')}; "
            "∞=infinito; ≠=diverso da; ∈=appartiene a; ∑=sommatoria di; ∛=radice cubica di"
        ),
        by="per",
        times="volte",
        out_of="su",
        per_thousand="per mille",
        duration_link="e",
        halves=("mezzo", "mezza"),
        and_half=("e mezzo", "e mezza"),
        short_words=word_set(
            "ad ah ai al ci da dà di do ed eh fa fu fa gi ha ho il in io la là le li lì lo ma me mi ne né no oh ok "
            "se sé si sì sa so su sta te ti tu un va ve vi vo ex po usa"
        ),
    ),
    "pt-br": Romance(
        letters="á bê cê dê é efe gê agá i jota cá ele eme ene ó pê quê erre esse tê u vê dáblio xis ípsilon zê",
        single={"a": "á", "e": "é", "o": "ó", "y": "ípsilon"},
        days=parse_pairs(
            "seg=segunda; ter=terça; qua=quarta; qui=quinta; sex=sexta; sáb=sábado; sab=sábado; dom=domingo"
        ),
        months=_shortened(
            "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
            "jan fev mar abr mai jun jul ago set out nov dez",
        ),
        numbered=parse_pairs(
            "p.=página; pg.=página; pgs.=páginas; km=quilômetro; km.=quilômetro; KM=quilômetro; fig.=figura; "
            "tab.=tabela; "
            "t.=tomo; ap.=apartamento; Ap.=apartamento; Apto.=apartamento; bl.=bloco; Bl.=bloco; qd.=quadra; "
            "Qd.=quadra; "
            "lt.=lote; Lt.=lote; cj.=conjunto; Cj.=conjunto; sl.=sala; Sl.=sala; n.=número; N.=número; num.=número; "
            "fl.=folha; fls.=folhas; inc.=inciso; §=parágrafo; #=número; cel.=celular; Cel.=celular; "
            "tel=telefone; Tel=telefone; séc=século; sécs.=séculos; Séc.=século; máx=máximo; mín=mínimo; "
            "figs.=figuras; tabs.=tabelas; caps.=capítulos; núms.=números; "
            "Cap.=capítulo; séc.=século; v.=volume; cx.=caixa; proc.=processo; Proc.=processo; ed.=edição; al.=alínea;"
        ),
        number_sign="número",
        squared="ao quadrado",
        cubed="ao cubo",
        power="elevado a",
        root="raiz quadrada de",
        logarithm="logaritmo na base",
        signs=parse_pairs(
            f"{_GREEK.replace('épsilon', 'épsilon')}{_GREEK_TOO.replace('theta', 'teta').replace('phi', 'fi')}; "
            "∞=infinito; ≠=diferente de; ∈=pertence a; ∑=somatório de; ∛=raiz cúbica de"
        ),
        by="por",
        times="vezes",
        out_of="de",
        per_thousand="por mil",
        duration_link="e",
        halves=("meio", "meia"),
        and_half=("e meio", "e meia"),
        short_words=word_set(
            "ah ai ao as da de do dó eh em eu fé há ir já lá lê má me na no né nó nu oh ok os ou oi "
            "pó pé pá se si só sé te ti tu um vá vê vi ex"
        ),
    ),
}
"""Language tag -> its words."""
