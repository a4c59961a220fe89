"""Words of German for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import Money, Noun, Words, parse_names, parse_nouns, parse_pairs

# Short forms that have another meaning with a capital letter.
_SMALL: Final = frozenset(("max.", "min.", "ca", "etc", "lat.", "eig."))


def _with_capitals(table: str) -> dict[str, str]:
    """Parse pairs, and add those that begin a sentence: "Sog."."""
    pairs = parse_pairs(table)
    small = [key for key in pairs if key[0].islower() and len(key) > 2 and key[1:].islower() and key not in _SMALL]
    return {**{key[0].upper() + key[1:]: pairs[key][0].upper() + pairs[key][1:] for key in small}, **pairs}


GERMAN: Final = Words(
    number="de",
    comma="Komma",
    point="Punkt",
    minus="minus",
    to="bis",
    percent="Prozent",
    of="",
    link="",
    first="erster",
    months=parse_names("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
    hour=Noun("Uhr", "Uhr"),
    hour_said=True,
    minutes="",
    money_link="",
    money={
        "€": Money(Noun("Euro", "Euro"), "Cent"),
        "EUR": Money(Noun("Euro", "Euro"), "Cent"),
        "$": Money(Noun("Dollar", "Dollar"), "Cent"),
        "US$": Money(Noun("Dollar", "Dollar"), "Cent"),
        "USD": Money(Noun("Dollar", "Dollar"), "Cent"),
        "£": Money(Noun("Pfund", "Pfund"), "Pence"),
        "GBP": Money(Noun("Pfund", "Pfund"), "Pence"),
        "CHF": Money(Noun("Schweizer Franken", "Schweizer Franken"), "Rappen"),
        "¥": Money(Noun("Yen", "Yen")),
        "₽": Money(Noun("Rubel", "Rubel")),
        "₹": Money(Noun("Rupie", "Rupien", "f")),
        "PLN": Money(Noun("Złoty", "Złoty")),
        "JPY": Money(Noun("Yen", "Yen")),
        "SEK": Money(Noun("schwedische Krone", "schwedische Kronen", "f")),
        **{name: Money(Noun("Tausend Euro", "Tausend Euro")) for name in ("T€", "TEUR", "k€")},
    },
    units=parse_nouns("""
km Kilometer Kilometer m
m Meter Meter m
cm Zentimeter Zentimeter m
mm Millimeter Millimeter m
kg Kilogramm Kilogramm m
g Gramm Gramm m
mg Milligramm Milligramm m
t Tonne Tonnen f
l Liter Liter m
L Liter Liter m
cl Zentiliter Zentiliter m
ml Milliliter Milliliter m
h Stunde Stunden f
Std. Stunde Stunden f
min Minute Minuten f
Min. Minute Minuten f
s Sekunde Sekunden f
Sek. Sekunde Sekunden f
ha Hektar Hektar m
m² Quadratmeter Quadratmeter m
qm Quadratmeter Quadratmeter m
km² Quadratkilometer Quadratkilometer m
m³ Kubikmeter Kubikmeter m
°C Grad_Celsius Grad_Celsius m
°F Grad_Fahrenheit Grad_Fahrenheit m
° Grad Grad m
‰ Promille Promille m
W Watt Watt m
kW Kilowatt Kilowatt m
kWh Kilowattstunde Kilowattstunden f
PS PS PS m
V Volt Volt m
A Ampere Ampere m
Hz Hertz Hertz m
kHz Kilohertz Kilohertz m
MHz Megahertz Megahertz m
GHz Gigahertz Gigahertz m
kB Kilobyte Kilobyte m
MB Megabyte Megabyte m
GB Gigabyte Gigabyte m
TB Terabyte Terabyte m
Ct. Cent Cent m
ct Cent Cent m
TL Teelöffel Teelöffel m
EL Esslöffel Esslöffel m
Stk. Stück Stück m
J. Jahr Jahre m
dm Dezimeter Dezimeter m
µm Mikrometer Mikrometer m
μm Mikrometer Mikrometer m
nm Nanometer Nanometer m
cm² Quadratzentimeter Quadratzentimeter m
mm² Quadratmillimeter Quadratmillimeter m
cm³ Kubikzentimeter Kubikzentimeter m
ccm Kubikzentimeter Kubikzentimeter m
qkm Quadratkilometer Quadratkilometer m
µg Mikrogramm Mikrogramm m
μg Mikrogramm Mikrogramm m
hl Hektoliter Hektoliter m
dl Deziliter Deziliter m
ms Millisekunde Millisekunden f
mA Milliampere Milliampere m
mAh Milliamperestunde Milliamperestunden f
Ah Amperestunde Amperestunden f
mV Millivolt Millivolt m
kV Kilovolt Kilovolt m
Wh Wattstunde Wattstunden f
MW Megawatt Megawatt m
GW Gigawatt Gigawatt m
MWh Megawattstunde Megawattstunden f
GWh Gigawattstunde Gigawattstunden f
TWh Terawattstunde Terawattstunden f
kWp Kilowatt_Peak Kilowatt_Peak m
Pa Pascal Pascal m
hPa Hektopascal Hektopascal m
kPa Kilopascal Kilopascal m
mbar Millibar Millibar m
kJ Kilojoule Kilojoule m
kcal Kilokalorie Kilokalorien f
dB Dezibel Dezibel m
Nm Newtonmeter Newtonmeter m
kN Kilonewton Kilonewton m
Ω Ohm Ohm m
kΩ Kiloohm Kiloohm m
MΩ Megaohm Megaohm m
mmHg Millimeter_Quecksilbersäule Millimeter_Quecksilbersäule m
mol Mol Mol m
mmol Millimol Millimol m
pt Punkt Punkt m
px Pixel Pixel m
MP Megapixel Megapixel m
dpi dpi dpi m
lm Lumen Lumen m
KB Kilobyte Kilobyte m
PB Petabyte Petabyte m
kbit Kilobit Kilobit m
Mbit Megabit Megabit m
MBit Megabit Megabit m
Gbit Gigabit Gigabit m
GBit Gigabit Gigabit m
U/min Umdrehung_pro_Minute Umdrehungen_pro_Minute f
Zoll Zoll Zoll m
Wo. Woche Wochen f
Tg. Tag Tage m
Ztr. Zentner Zentner m
Bft Beaufort Beaufort m
Msp. Messerspitze Messerspitzen f
Pck. Päckchen Päckchen m
Pkg. Packung Packungen f
"""),
    per="pro",
    abbreviations=_with_capitals("""
z. B.=zum Beispiel; z.B.=zum Beispiel; bspw.=beispielsweise; d. h.=das heißt; d.h.=das heißt; u. a.=unter anderem;
u.a.=unter anderem; u. U.=unter Umständen; u.U.=unter Umständen; z. T.=zum Teil; z.T.=zum Teil; i. d. R.=in der Regel;
i.d.R.=in der Regel; o. Ä.=oder Ähnliches; o.Ä.=oder Ähnliches; u. Ä.=und Ähnliches; u.Ä.=und Ähnliches; s. o.=siehe
oben; s.o.=siehe oben; s. u.=siehe unten; s.u.=siehe unten; v. a.=vor allem; v.a.=vor allem; m. E.=meines Erachtens;
i. A.=im Auftrag; i.A.=im Auftrag; a. D.=außer Dienst; a.D.=außer Dienst; z. Zt.=zurzeit; z. Hd.=zu Händen; v.
Chr.=vor Christus; n. Chr.=nach Christus; v.Chr.=vor Christus; n.Chr.=nach Christus; usw.=und so weiter; u.=und;
u.s.w.=und so weiter; od.=oder; usf.=und so fort; etc.=et cetera; bzw.=beziehungsweise; ca.=circa; evtl.=eventuell;
ggf.=gegebenenfalls; inkl.=inklusive; exkl.=exklusive; zzgl.=zuzüglich; max.=maximal; min.=minimal; mind.=mindestens;
sog.=sogenannt; vgl.=vergleiche; gem.=gemäß; geb.=geboren; gest.=gestorben; verh.=verheiratet; Dr.=Doktor;
Prof.=Professor; Hr.=Herr; Hrn.=Herrn; Fr.=Frau; Frl.=Fräulein; Dipl.-Ing.=Diplomingenieur; Ing.=Ingenieur;
Nr.=Nummer; Nrn.=Nummern; Str.=Straße; Pl.=Platz; Abb.=Abbildung; Abs.=Absatz; Art.=Artikel; Aufl.=Auflage; Bd.=Band;
Kap.=Kapitel; Tab.=Tabelle; Hrsg.=Herausgeber; Tel.=Telefon; Mio.=Millionen; Mrd.=Milliarden; Tsd.=Tausend;
Jh.=Jahrhundert; St.=Sankt; MwSt.=Mehrwertsteuer; MwSt=Mehrwertsteuer; Hbf.=Hauptbahnhof; Hbf=Hauptbahnhof;
allg.=allgemein; Std.=Stunden; Min.=Minuten; Sek.=Sekunden; Jan.=Januar; Feb.=Februar; Apr.=April; Aug.=August;
Sept.=September; Okt.=Oktober; Nov.=November; Dez.=Dezember; vs.=versus; Jr.=Junior; Verf.=Verfasser; Anm.=Anmerkung;
Bsp.=Beispiel; bzgl.=bezüglich; tgl.=täglich; jährl.=jährlich; mtl.=monatlich; Whg.=Wohnung; Zi.=Zimmer; zw.=zwischen;
o. g.=oben genannte; o.g.=oben genannte; i. V.=in Vertretung; i.V.=in Vertretung; lt.=laut; Jhd.=Jahrhundert;
Ziff.=Ziffer; Hausnr.=Hausnummer; Tel.-Nr.=Telefonnummer; ggü.=gegenüber; u. v. m.=und vieles mehr; u.v.m.=und vieles
mehr; u. s. w.=und so weiter; bes.=besonders; eig.=eigentlich; eigtl.=eigentlich; einschl.=einschließlich;
entspr.=entsprechend; gegr.=gegründet; insb.=insbesondere; insbes.=insbesondere; jmd.=jemand; jmdn.=jemanden;
lfd.=laufend; m. M.=meiner Meinung; n. V.=nach Vereinbarung; p. a.=pro anno; rd.=rund; resp.=respektive; s.=siehe;
staatl.=staatlich; städt.=städtisch; stv.=stellvertretend; ugs.=umgangssprachlich; urspr.=ursprünglich; v. l.=von
links; versch.=verschiedene; zus.=zusammen; zzt.=zurzeit; z.Zt.=zurzeit; z.Hd.=zu Händen; a. a. O.=am angegebenen Ort;
Anl.=Anlage; Az.=Aktenzeichen; Betr.=Betreff; Bhf.=Bahnhof; Bj.=Baujahr; Ew.=Einwohner; Jg.=Jahrgang; Mitgl.=Mitglied;
Mwst.=Mehrwertsteuer; Pers.=Personen; Univ.=Universität; Vors.=Vorsitzender; Zs.=Zeitschrift; Ztg.=Zeitung; i. H.
v.=in Höhe von; i.H.v.=in Höhe von; Abt.=Abteilung; Anh.=Anhang; tägl.=täglich; wöchentl.=wöchentlich;
monatl.=monatlich; Fa.=Firma; Ges.=Gesellschaft; u. dgl.=und dergleichen; e. V.=eingetragener Verein;
e.V.=eingetragener Verein; i. S. d.=im Sinne des; i. S. v.=im Sinne von; i. Allg.=im Allgemeinen; k. A.=keine Angabe;
b. w.=bitte wenden; s. a.=siehe auch; vorm.=vormittags; nachm.=nachmittags; Art.-Nr.=Artikelnummer;
Best.-Nr.=Bestellnummer; Kd.-Nr.=Kundennummer; Kto.-Nr.=Kontonummer; Rg.-Nr.=Rechnungsnummer; Dipl.=Diplom;
Mag.=Magister; h. c.=honoris causa; h.c.=honoris causa; dt.=deutsch; engl.=englisch; frz.=französisch;
ital.=italienisch; lat.=lateinisch; griech.=griechisch; österr.=österreichisch; ev.=evangelisch; kath.=katholisch;
techn.=technisch; wiss.=wissenschaftlich; öffentl.=öffentlich; Red.=Redaktion; Nachf.=Nachfolger; Gebr.=Gebrüder;
Inh.=Inhaber; Stellv.=Stellvertreter; mögl.=möglichst; vllt.=vielleicht; vll.=vielleicht; vlt.=vielleicht;
vllt=vielleicht; LG=liebe Grüße; VG=viele Grüße; MfG=mit freundlichen Grüßen; mfg=mit freundlichen Grüßen; usw=und so
weiter; bzw=beziehungsweise; zB=zum Beispiel; z.b.=zum Beispiel; evtl=eventuell; ggf=gegebenenfalls; inkl=inklusive;
zzgl=zuzüglich; Nr=Nummer; Dr=Doktor; Prof=Professor; Tel=Telefon; vgl=vergleiche; etc=et cetera; vs=versus; ca=circa;
Std=Stunden; Pkw=P K W; Pkws=P K Ws; Lkw=L K W; Lkws=L K Ws; PKW=P K W; LKW=L K W; Kfz=K F Z; ü. M.=über Meer; ü.
NN=über Normalnull; ü. d. M.=über dem Meeresspiegel; i. d. F.=in der Fassung; n. a.=nicht angegeben; a. M.=am Main;
a.M.=am Main; a. d.=an der; u. v. a.=und viele andere; u.v.a.=und viele andere; ehem.=ehemalig; Erw.=Erwachsene;
Kd.=Kinder; Feb=Februar; Okt=Oktober; Dez=Dezember; Sept=September; Nov=November; Aug=August; Mt.=Mount; z.
Z.=zurzeit; z.Z.=zurzeit; jun.=junior; sen.=senior; wg.=wegen; geschl.=geschlossen; gesp.=gesperrt;
Dipl.-Psych.=Diplompsychologe; Dipl.-Kfm.=Diplomkaufmann; gek.=gekürzt; erg.=ergänzt; verb.=verbessert;
überarb.=überarbeitet; erw.=erweitert; bearb.=bearbeitet; hrsg.=herausgegeben; veröff.=veröffentlicht;
frdl.=freundlich; herzl.=herzlich; gel.=gelegentlich; bzg.=bezüglich; voll.=vollendet; betr.=betreffend;
zuz.=zuzüglich; abz.=abzüglich; abzgl.=abzüglich; kl.=klein; gr.=groß; Anz.=Anzahl; Aufg.=Aufgabe; Bem.=Bemerkung;
Best.=Bestellung; Gew.=Gewicht; Hers.=Hersteller; Kat.=Kategorie; Lfg.=Lieferung; Rg.=Rechnung; Vertr.=Vertrag;
Wohng.=Wohnung; Zimmerm.=Zimmermann; TN=Teilnehmer; TOP=Tagesordnungspunkt; Rückm.=Rückmeldung; USt.=Umsatzsteuer;
USt=Umsatzsteuer; innerh.=innerhalb; außerh.=außerhalb; d. M.=dieses Monats; d. J.=dieses Jahres; v. J.=vorigen
Jahres; Dtzd.=Dutzend; Fam.=Familie; Hzg.=Herzog; Gf.=Graf; Frhr.=Freiherr; Präs.=Präsident;
Min.-Präs.=Ministerpräsident; Pfr.=Pfarrer; Hptm.=Hauptmann; Gen.=General; Dir.=Direktor; Abg.=Abgeordnete;
Urt.=Urteil; Buchst.=Buchstabe; Abschn.=Abschnitt; Rep.=Republik; Reg.=Regierung; Bev.=Bevölkerung;
Durchschn.=Durchschnitt; durchschn.=durchschnittlich; Ausg.=Ausgabe; Bearb.=Bearbeitung; Kand.=Kandidat;
Vorst.=Vorstand; Gesch.=Geschichte; Übers.=Übersetzung; Zeichn.=Zeichnung; Kl.=Klasse; Sch.=Schule; Verk.=Verkauf;
Angeb.=Angebot; Gebäud.=Gebäude; Prod.=Produktion; Techn.=Technik; Temp.=Temperatur; Geschw.=Geschwister;
Pol.=Polizei; Krhs.=Krankenhaus; Ltg.=Leitung; Ltr.=Leiter; Hptst.=Hauptstadt; südl.=südlich; nördl.=nördlich;
östl.=östlich; westl.=westlich; südöstl.=südöstlich; nordöstl.=nordöstlich; ungef.=ungefähr; gegenw.=gegenwärtig;
jew.=jeweils; ungl.=ungleich; vollst.=vollständig; unvollst.=unvollständig; Lt.=Laut; Veranst.=Veranstaltung;
stellv.=stellvertretend; lit.=litera; vorauss.=voraussichtlich; schriftl.=schriftlich; mündl.=mündlich;
telef.=telefonisch; persönl.=persönlich; erf.=erforderlich; zul.=zulässig; Verw.=Verwaltung; Bhf=Bahnhof; Tsd=Tausend;
Mio=Millionen; Mrd=Milliarden; Mitarb.=Mitarbeiter; Sprechst.=Sprechstunde; Haltest.=Haltestelle; Bgm.=Bürgermeister;
Min=Minuten; Verl.=Verlag; Jhdt.=Jahrhundert; u. E.=unseres Erachtens; m. W.=meines Wissens; e. G.=eingetragene
Genossenschaft; Ltd.=Limited; Inc.=Incorporated; jur.=jur; med.=med; phil.=phil; rer.=rer; nat.=nat; dent.=dent;
habil.=habil; hl.=heilige; Hl.=Heilige; BGBl.=Bundesgesetzblatt; ebd.=ebenda; Strg=Steuerung; Stck.=Stück; Pkt.=Punkt;
Pkte.=Punkte; Kto.=Konto; Bez.=Bezirk; Lkr.=Landkreis
"""),
    signs=parse_pairs(
        "+=plus; ==gleich; ×=mal; ÷=geteilt durch; <=kleiner als; >=größer als; ≈=ungefähr; ±=plus minus; "
        "≤=kleiner oder gleich; ≥=größer oder gleich; ·=mal; −=minus; -=minus"
    ),
    centuries="Jahrhundert",
    ordinal_centuries=True,
    regnal=0,
    address=parse_pairs(
        "_=Unterstrich; .=Punkt; /=Schrägstrich; @=ät; -=Bindestrich; :=Doppelpunkt; ?=Fragezeichen; ==gleich; "
        "&=und; #=Raute; ~=Tilde; +=plus; \\=Backslash"
    ),
    numbered="Kapitel Band Teil Akt Artikel Stufe Phase Abschnitt Klasse Typ Szene Buch Anhang Satz Kap. Bd. Art.",
    scales=parse_nouns("""
Tsd Tausend Tausend m
Tausend Tausend Tausend m
Mio Million Millionen f
Mrd Milliarde Milliarden f
MIO Million Millionen f
MRD Milliarde Milliarden f
k Tausend Tausend m
Bio Billion Billionen f
Million Million Millionen f
Millionen Million Millionen f
Milliarde Milliarde Milliarden f
Milliarden Milliarde Milliarden f
"""),
    parts={
        2: ("halb", "halbe"),
        3: ("Drittel", "Drittel"),
        7: ("Siebtel", "Siebtel"),
        8: ("Achtel", "Achtel"),
        16: ("Sechzehntel", "Sechzehntel"),
    },
)
