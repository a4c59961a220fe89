"""Words of each language for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import Money, Noun, Words, parse_names, parse_nouns, parse_pairs

_ES: Final = Words(
    number="es",
    comma="coma",
    point="punto",
    minus="menos",
    to="a",
    percent="por ciento",
    of="de",
    link="de",
    first="uno",
    months=parse_names("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
    hour=Noun("hora", "horas", "f"),
    hour_said=False,
    minutes="",
    money_link="con",
    money={
        "€": Money(Noun("euro", "euros")),
        "$": Money(Noun("dólar", "dólares")),
        "£": Money(Noun("libra", "libras", "f")),
        "¥": Money(Noun("yen", "yenes")),
        "R$": Money(Noun("real", "reales")),
    },
    units=parse_nouns("""
km kilómetro kilómetros m
m metro metros m
cm centímetro centímetros m
mm milímetro milímetros m
kg kilo kilos m
g gramo gramos m
mg miligramo miligramos m
l litro litros m
L litro litros m
ml mililitro mililitros m
h hora horas f
min minuto minutos m
s segundo segundos m
ha hectárea hectáreas f
m² metro_cuadrado metros_cuadrados m
km² kilómetro_cuadrado kilómetros_cuadrados m
m³ metro_cúbico metros_cúbicos m
°C grado_centígrado grados_centígrados m
ºC grado_centígrado grados_centígrados m
°F grado_Fahrenheit grados_Fahrenheit m
° grado grados m
W vatio vatios m
kW kilovatio kilovatios m
kWh kilovatio_hora kilovatios_hora m
V voltio voltios m
Hz hercio hercios m
MHz megahercio megahercios m
GHz gigahercio gigahercios m
MB megabyte megabytes m
GB gigabyte gigabytes m
TB terabyte terabytes m
"""),
    per="por",
    abbreviations=parse_pairs("""
Sr.=señor; Sra.=señora; Srta.=señorita; Sres.=señores; D.=don; Dña.=doña; Dr.=doctor; Dra.=doctora; Prof.=profesor;
Ud.=usted; Uds.=ustedes; Vd.=usted; Lic.=licenciado; Ing.=ingeniero; EE. UU.=Estados Unidos; EE.UU.=Estados Unidos;
p. ej.=por ejemplo; p.ej.=por ejemplo; etc.=etcétera; núm.=número; n.º=número; nº=número; N.º=número; Nº=número;
pág.=página; págs.=páginas; tel.=teléfono; Tel.=teléfono; Tfno.=teléfono; Av.=avenida; Avda.=avenida; av.=avenida;
C/=calle; Pza.=plaza; aprox.=aproximadamente; máx.=máximo; mín.=mínimo; cap.=capítulo; vol.=volumen; art.=artículo;
a. C.=antes de Cristo; d. C.=después de Cristo; a.C.=antes de Cristo; d.C.=después de Cristo; S.A.=ese a; a. m.=a eme;
p. m.=pe eme; a.m.=a eme; p.m.=pe eme; vs.=versus; izq.=izquierda; dcha.=derecha; Sto.=santo; Sta.=santa; Gral.=general
"""),
    signs=parse_pairs(
        "+=más; ==igual a; ×=por; ÷=dividido entre; <=menor que; >=mayor que; ≈=aproximadamente; ±=más menos"
    ),
    centuries="siglo siglos",
    ordinal_centuries=False,
    regnal=10,
    address=parse_pairs(
        "_=guion bajo; .=punto; /=barra; @=arroba; -=guion; :=dos puntos; "
        "?=interrogación; ==igual; &=y; #=almohadilla; ~=virgulilla; +=más"
    ),
)

_FR: Final = Words(
    number="fr",
    comma="virgule",
    point="point",
    minus="moins",
    to="à",
    percent="pour cent",
    of="de",
    link="",
    first="premier",
    months=parse_names("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
    hour=Noun("heure", "heures", "f"),
    hour_said=True,
    minutes="",
    money_link="",
    money={
        "€": Money(Noun("euro", "euros")),
        "$": Money(Noun("dollar", "dollars")),
        "£": Money(Noun("livre", "livres", "f")),
        "¥": Money(Noun("yen", "yens")),
        "R$": Money(Noun("réal", "réaux")),
    },
    units=parse_nouns("""
km kilomètre kilomètres m
m mètre mètres m
cm centimètre centimètres m
mm millimètre millimètres m
kg kilo kilos m
g gramme grammes m
mg milligramme milligrammes m
l litre litres m
L litre litres m
cl centilitre centilitres m
ml millilitre millilitres m
h heure heures f
min minute minutes f
s seconde secondes f
ha hectare hectares m
m² mètre_carré mètres_carrés m
km² kilomètre_carré kilomètres_carrés m
m³ mètre_cube mètres_cubes m
°C degré_Celsius degrés_Celsius m
°F degré_Fahrenheit degrés_Fahrenheit m
° degré degrés m
W watt watts m
kW kilowatt kilowatts m
kWh kilowattheure kilowattheures m
V volt volts m
Hz hertz hertz m
MHz mégahertz mégahertz m
GHz gigahertz gigahertz m
Mo mégaoctet mégaoctets m
Go gigaoctet gigaoctets m
To téraoctet téraoctets m
MB mégabyte mégabytes m
GB gigabyte gigabytes m
"""),
    per="par",
    abbreviations=parse_pairs("""
M.=monsieur; MM.=messieurs; Mme=madame; Mmes=mesdames; Mlle=mademoiselle; Dr=docteur; Pr=professeur; Me=maître;
St=saint; Ste=sainte; etc.=et cetera; p. ex.=par exemple; p.ex.=par exemple; c.-à-d.=c'est-à-dire; n°=numéro;
N°=numéro; nº=numéro; av.=avenue; bd=boulevard; Bd=boulevard; bvd=boulevard; pl.=place; tél.=téléphone; Tél.=téléphone;
vol.=volume; chap.=chapitre; art.=article; env.=environ; max.=maximum; min.=minimum; av. J.-C.=avant Jésus-Christ;
apr. J.-C.=après Jésus-Christ; vs=versus; svp=s'il vous plaît; SVP=s'il vous plaît; cf.=confer; éd.=édition;
lun.=lundi; mar.=mardi; mer.=mercredi; jeu.=jeudi; ven.=vendredi; sam.=samedi; dim.=dimanche; RDV=rendez-vous
"""),
    signs=parse_pairs(
        "+=plus; ==égale; ×=fois; ÷=divisé par; <=inférieur à; >=supérieur à; ≈=environ; ±=plus ou moins"
    ),
    centuries="siècle siècles",
    ordinal_centuries=True,
    regnal=1,
    address=parse_pairs(
        "_=tiret bas; .=point; /=barre oblique; @=arobase; -=tiret; :=deux-points; "
        "?=point d'interrogation; ==égale; &=et; #=dièse; ~=tilde; +=plus"
    ),
    tens=True,
)

_IT: Final = Words(
    number="it",
    comma="virgola",
    point="punto",
    minus="meno",
    to="a",
    percent="per cento",
    of="di",
    link="",
    first="primo",
    months=parse_names("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
    hour=Noun("ora", "ore", "f"),
    hour_said=False,
    minutes="e",
    money_link="e",
    money={
        "€": Money(Noun("euro", "euro")),
        "$": Money(Noun("dollaro", "dollari")),
        "£": Money(Noun("sterlina", "sterline", "f")),
        "¥": Money(Noun("yen", "yen")),
        "R$": Money(Noun("real", "real")),
    },
    units=parse_nouns("""
km chilometro chilometri m
m metro metri m
cm centimetro centimetri m
mm millimetro millimetri m
kg chilo chili m
hg etto etti m
g grammo grammi m
mg milligrammo milligrammi m
l litro litri m
L litro litri m
cl centilitro centilitri m
ml millilitro millilitri m
h ora ore f
min minuto minuti m
s secondo secondi m
ha ettaro ettari m
m² metro_quadrato metri_quadrati m
mq metro_quadro metri_quadri m
km² chilometro_quadrato chilometri_quadrati m
m³ metro_cubo metri_cubi m
°C grado_centigrado gradi_centigradi m
°F grado_Fahrenheit gradi_Fahrenheit m
° grado gradi m
W watt watt m
kW chilowatt chilowatt m
kWh chilowattora chilowattora m
V volt volt m
Hz hertz hertz m
MHz megahertz megahertz m
GHz gigahertz gigahertz m
MB megabyte megabyte m
GB gigabyte gigabyte m
TB terabyte terabyte m
"""),
    per="per",
    abbreviations=parse_pairs("""
sig.=signor; Sig.=signor; sig.ra=signora; Sig.ra=signora; sig.na=signorina; Sigg.=signori; dott.=dottor; Dott.=dottor;
dott.ssa=dottoressa; Dott.ssa=dottoressa; dr.=dottor; Dr.=dottor; prof.=professor; Prof.=professor;
prof.ssa=professoressa; Prof.ssa=professoressa; avv.=avvocato; Avv.=avvocato; ing.=ingegner; Ing.=ingegner;
ecc.=eccetera; es.=esempio; p. es.=per esempio; p.es.=per esempio; n.=numero; N.=numero; nº=numero; n°=numero;
pag.=pagina; pagg.=pagine; tel.=telefono; Tel.=telefono; cap.=capitolo; vol.=volume; art.=articolo; ca.=circa;
a.C.=avanti Cristo; d.C.=dopo Cristo; a. C.=avanti Cristo; d. C.=dopo Cristo; max.=massimo; min.=minimo; P.zza=piazza;
V.le=viale; C.so=corso; S.p.A.=esse pi a; vs.=versus; on.=onorevole; On.=onorevole; cfr.=confronta; c.a.=corrente anno
"""),
    signs=parse_pairs(
        "+=più; ==uguale a; ×=per; ÷=diviso; <=minore di; >=maggiore di; ≈=circa; ±=più o meno; "
        "≤=minore o uguale a; ≥=maggiore o uguale a; ·=per; −=meno; -=meno"
    ),
    centuries="secolo secoli",
    ordinal_centuries=True,
    regnal=99,
    address=parse_pairs(
        "_=trattino basso; .=punto; /=barra; @=chiocciola; -=trattino; :=due punti; "
        "?=punto interrogativo; ==uguale; &=e; #=cancelletto; ~=tilde; +=più"
    ),
)

_PT: Final = Words(
    number="pt_BR",
    comma="vírgula",
    point="ponto",
    minus="menos",
    to="a",
    percent="por cento",
    of="de",
    link="de",
    first="primeiro",
    months=parse_names("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"),
    hour=Noun("hora", "horas", "f"),
    hour_said=False,
    minutes="e",
    money_link="e",
    money={
        "€": Money(Noun("euro", "euros"), "centavos"),
        "$": Money(Noun("dólar", "dólares"), "centavos"),
        "US$": Money(Noun("dólar", "dólares"), "centavos"),
        "R$": Money(Noun("real", "reais"), "centavos"),
        "£": Money(Noun("libra", "libras", "f"), "centavos"),
        "¥": Money(Noun("iene", "ienes")),
    },
    units=parse_nouns("""
km quilômetro quilômetros m
m metro metros m
cm centímetro centímetros m
mm milímetro milímetros m
kg quilo quilos m
g grama gramas m
mg miligrama miligramas m
l litro litros m
L litro litros m
ml mililitro mililitros m
h hora horas f
min minuto minutos m
s segundo segundos m
ha hectare hectares m
m² metro_quadrado metros_quadrados m
km² quilômetro_quadrado quilômetros_quadrados m
m³ metro_cúbico metros_cúbicos m
°C grau_Celsius graus_Celsius m
ºC grau_Celsius graus_Celsius m
°F grau_Fahrenheit graus_Fahrenheit m
° grau graus m
W watt watts m
kW quilowatt quilowatts m
kWh quilowatt-hora quilowatts-hora m
V volt volts m
Hz hertz hertz m
MHz megahertz megahertz m
GHz gigahertz gigahertz m
MB megabyte megabytes m
GB gigabyte gigabytes m
TB terabyte terabytes m
"""),
    per="por",
    abbreviations=parse_pairs("""
Sr.=senhor; Sra.=senhora; Srs.=senhores; Srta.=senhorita; Dr.=doutor; Dra.=doutora; Prof.=professor; Profa.=professora;
Profª=professora; D.=dona; Exmo.=excelentíssimo; etc.=et cetera; p. ex.=por exemplo; p.ex.=por exemplo; nº=número;
n.º=número; Nº=número; pág.=página; págs.=páginas; tel.=telefone; Tel.=telefone; Av.=avenida; av.=avenida; R.=rua;
Pça.=praça; Rod.=rodovia; aprox.=aproximadamente; máx.=máximo; mín.=mínimo; cap.=capítulo; vol.=volume; art.=artigo;
a.C.=antes de Cristo; d.C.=depois de Cristo; a. C.=antes de Cristo; d. C.=depois de Cristo; vs.=versus;
V. Exa.=vossa excelência; apto.=apartamento; Ltda.=limitada; Cia.=companhia; Sto.=santo; Sta.=santa; Gal.=general;
Eng.=engenheiro; obs.=observação
"""),
    signs=parse_pairs(
        "+=mais; ==igual a; ×=vezes; ÷=dividido por; <=menor que; >=maior que; ≈=aproximadamente; ±=mais ou menos; "
        "≤=menor ou igual a; ≥=maior ou igual a; ·=vezes; −=menos; -=menos"
    ),
    centuries="século séculos",
    ordinal_centuries=False,
    regnal=10,
    address=parse_pairs(
        "_=sublinhado; .=ponto; /=barra; @=arroba; -=hífen; :=dois pontos; "
        "?=interrogação; ==igual; &=e; #=cerquilha; ~=til; +=mais"
    ),
)

_DE: Final = Words(
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
"""),
    per="pro",
    abbreviations=parse_pairs("""
z. B.=zum Beispiel; z.B.=zum Beispiel; bspw.=beispielsweise; d. h.=das heißt; d.h.=das heißt; u. a.=unter anderem;
u.a.=unter anderem; u. U.=unter Umständen; u.U.=unter Umständen; z. T.=zum Teil; z.T.=zum Teil;
i. d. R.=in der Regel; i.d.R.=in der Regel; o. Ä.=oder Ähnliches; o.Ä.=oder Ähnliches; u. Ä.=und Ähnliches;
u.Ä.=und Ähnliches; s. o.=siehe oben; s.o.=siehe oben; s. u.=siehe unten; s.u.=siehe unten; v. a.=vor allem;
v.a.=vor allem; m. E.=meines Erachtens; i. A.=im Auftrag; i.A.=im Auftrag; a. D.=außer Dienst; a.D.=außer Dienst;
z. Zt.=zurzeit; z. Hd.=zu Händen; v. Chr.=vor Christus; n. Chr.=nach Christus; v.Chr.=vor Christus;
n.Chr.=nach Christus; usw.=und so weiter; usf.=und so fort; etc.=et cetera; bzw.=beziehungsweise; ca.=circa;
evtl.=eventuell; ggf.=gegebenenfalls; inkl.=inklusive; exkl.=exklusive; zzgl.=zuzüglich; max.=maximal; min.=minimal;
mind.=mindestens; sog.=sogenannt; vgl.=vergleiche; gem.=gemäß; geb.=geboren; gest.=gestorben; verh.=verheiratet;
Dr.=Doktor; Prof.=Professor; Hr.=Herr; Hrn.=Herrn; Fr.=Frau; Frl.=Fräulein; Dipl.-Ing.=Diplomingenieur;
Ing.=Ingenieur; Nr.=Nummer; Nrn.=Nummern; Str.=Straße; Pl.=Platz; Abb.=Abbildung; Abs.=Absatz; Art.=Artikel;
Aufl.=Auflage; Bd.=Band; Kap.=Kapitel; Tab.=Tabelle; Hrsg.=Herausgeber; Tel.=Telefon; Mio.=Millionen;
Mrd.=Milliarden; Tsd.=Tausend; Jh.=Jahrhundert; St.=Sankt; MwSt.=Mehrwertsteuer; MwSt=Mehrwertsteuer;
Hbf.=Hauptbahnhof; Hbf=Hauptbahnhof; allg.=allgemein; Std.=Stunden; Min.=Minuten; Sek.=Sekunden; Jan.=Januar;
Feb.=Februar; Apr.=April; Aug.=August; Sept.=September; Okt.=Oktober; Nov.=November; Dez.=Dezember; vs.=versus;
Jr.=Junior; Verf.=Verfasser; Anm.=Anmerkung; Bsp.=Beispiel; bzgl.=bezüglich; tgl.=täglich; jährl.=jährlich;
mtl.=monatlich; Whg.=Wohnung; Zi.=Zimmer; zw.=zwischen; o. g.=oben genannte; o.g.=oben genannte; i. V.=in Vertretung;
i.V.=in Vertretung; lt.=laut; Jhd.=Jahrhundert; Ziff.=Ziffer; Hausnr.=Hausnummer; Tel.-Nr.=Telefonnummer;
ggü.=gegenüber; u. v. m.=und vieles mehr; u.v.m.=und vieles mehr; u. s. w.=und so weiter; bes.=besonders;
eig.=eigentlich; eigtl.=eigentlich; einschl.=einschließlich; entspr.=entsprechend; gegr.=gegründet;
insb.=insbesondere; insbes.=insbesondere; jmd.=jemand; jmdn.=jemanden; lfd.=laufend; m. M.=meiner Meinung;
n. V.=nach Vereinbarung; p. a.=pro anno; rd.=rund; resp.=respektive; s.=siehe; staatl.=staatlich; städt.=städtisch;
stv.=stellvertretend; ugs.=umgangssprachlich; urspr.=ursprünglich; v. l.=von links; versch.=verschiedene;
zus.=zusammen; zzt.=zurzeit; z.Zt.=zurzeit; z.Hd.=zu Händen; a. a. O.=am angegebenen Ort; Anl.=Anlage;
Az.=Aktenzeichen; Betr.=Betreff; Bhf.=Bahnhof; Bj.=Baujahr; Ew.=Einwohner; Jg.=Jahrgang; Mitgl.=Mitglied;
Mwst.=Mehrwertsteuer; Pers.=Personen; Univ.=Universität; Vors.=Vorsitzender; Zs.=Zeitschrift; Ztg.=Zeitung;
Stck.=Stück; Pkt.=Punkt; Pkte.=Punkte; Kto.=Konto; Bez.=Bezirk; Lkr.=Landkreis
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
        "&=und; #=Raute; ~=Tilde; +=plus"
    ),
)

WORDS: Final = {"de": _DE, "es": _ES, "fr-fr": _FR, "it": _IT, "pt-br": _PT}
"""Language tag -> its words."""
