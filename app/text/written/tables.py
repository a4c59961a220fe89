"""Words of each language for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.german_tables import GERMAN
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
a. C.=antes de Cristo; d. C.=después de Cristo; a.C.=antes de Cristo; d.C.=después de Cristo; S.A.=ese a;
a. m.=a eme; p. m.=pe eme; a.m.=a eme; p.m.=pe eme; vs.=versus; izq.=izquierda; dcha.=derecha; Sto.=santo;
Sta.=santa; Gral.=general; pp.=páginas; dpto.=departamento; Dpto.=departamento; Mª=María; ss.=siguientes;
Excmo.=excelentísimo; tfno.=teléfono; hab.=habitantes; adm.=administración; Col.=colonia; Cía.=compañía
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
    numbered="capítulo tomo parte acto sección artículo fase tipo nivel título volumen libro escena cap. vol. art.",
    scales=parse_nouns("""
millón millón millones m
millones millón millones m
M millón millones m
miles mil mil m
mil mil mil m
"""),
    parts={2: ("medio", "medios"), 3: ("tercio", "tercios")},
    dated="el al del día",
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
N°=numéro; nº=numéro; av.=avenue; bd=boulevard; Bd=boulevard; bvd=boulevard; pl.=place; tél.=téléphone;
Tél.=téléphone; vol.=volume; chap.=chapitre; art.=article; env.=environ; max.=maximum; min.=minimum;
av. J.-C.=avant Jésus-Christ; apr. J.-C.=après Jésus-Christ; vs=versus; svp=s'il vous plaît; SVP=s'il vous plaît;
cf.=confer; éd.=édition; lun.=lundi; mar.=mardi; mer.=mercredi; jeu.=jeudi; ven.=vendredi; sam.=samedi;
dim.=dimanche; RDV=rendez-vous; pp.=pages; Mgr=monseigneur; Mlles=mesdemoiselles; hab.=habitants; dép.=département;
cad=c'est-à-dire; qqn=quelqu'un; qqch=quelque chose; RN=route nationale; bd.=boulevard; réf.=référence;
suiv.=suivants
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
    numbered="chapitre tome partie acte section article phase type niveau titre volume livre scène chap. vol. art.",
    scales=parse_nouns("""
million million millions m
millions million millions m
milliard milliard milliards m
milliards milliard milliards m
M million millions m
Md milliard milliards m
Mds milliard milliards m
k mille mille m
"""),
    parts={2: ("demi", "demis"), 3: ("tiers", "tiers"), 4: ("quart", "quarts")},
    dated="le au du",
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
sig.=signor; Sig.=signor; sig.ra=signora; Sig.ra=signora; sig.na=signorina; Sigg.=signori; dott.=dottor;
Dott.=dottor; dott.ssa=dottoressa; Dott.ssa=dottoressa; dr.=dottor; Dr.=dottor; prof.=professor; Prof.=professor;
prof.ssa=professoressa; Prof.ssa=professoressa; avv.=avvocato; Avv.=avvocato; ing.=ingegner; Ing.=ingegner;
ecc.=eccetera; es.=esempio; p. es.=per esempio; p.es.=per esempio; n.=numero; N.=numero; nº=numero; n°=numero;
pag.=pagina; pagg.=pagine; tel.=telefono; Tel.=telefono; cap.=capitolo; vol.=volume; art.=articolo; ca.=circa;
a.C.=avanti Cristo; d.C.=dopo Cristo; a. C.=avanti Cristo; d. C.=dopo Cristo; max.=massimo; min.=minimo;
P.zza=piazza; V.le=viale; C.so=corso; c.so=corso; v.le=viale; p.zza=piazza; p.za=piazza; S.p.A.=esse pi a;
vs.=versus; on.=onorevole; On.=onorevole; cfr.=confronta;
c.a.=corrente anno; pp.=pagine; gg.=giorni; arch.=architetto; geom.=geometra; rag.=ragioniere; spett.=spettabile;
Spett.=spettabile; egr.=egregio; Egr.=egregio; gent.=gentile; mln=milioni; mld=miliardi; ved.=vedi; tel=telefono;
dip.=dipartimento
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
    numbered="capitolo tomo parte atto sezione articolo fase tipo livello titolo volume libro scena cap. vol. art.",
    scales=parse_nouns("""
mln milione milioni m
mld miliardo miliardi m
milione milione milioni m
milioni milione milioni m
miliardo miliardo miliardi m
miliardi miliardo miliardi m
mila mila mila m
"""),
    parts={2: ("mezzo", "mezzi")},
    dated="il al dal del",
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
Sr.=senhor; Sra.=senhora; Srs.=senhores; Srta.=senhorita; Dr.=doutor; Dra.=doutora; Prof.=professor;
Profa.=professora; Profª=professora; D.=dona; Exmo.=excelentíssimo; etc.=et cetera; p. ex.=por exemplo;
p.ex.=por exemplo; nº=número; n.º=número; Nº=número; pág.=página; págs.=páginas; tel.=telefone; Tel.=telefone;
Av.=avenida; av.=avenida; R.=rua; Pça.=praça; Rod.=rodovia; aprox.=aproximadamente; máx.=máximo; mín.=mínimo;
cap.=capítulo; vol.=volume; art.=artigo; a.C.=antes de Cristo; d.C.=depois de Cristo; a. C.=antes de Cristo;
d. C.=depois de Cristo; vs.=versus; V. Exa.=vossa excelência; apto.=apartamento; Ltda.=limitada; Cia.=companhia;
Sto.=santo; Sta.=santa; Gal.=general; Eng.=engenheiro; obs.=observação; pp.=páginas; séc.=século; ed.=edição;
hab.=habitantes; Al.=alameda; Jd.=jardim; Pres.=presidente; Gov.=governador; Dep.=deputado; Cel.=coronel; tb.=também;
Trav.=travessa; Dras.=doutoras; Srtas.=senhoritas
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
    numbered="capítulo tomo parte ato seção artigo fase tipo nível título volume livro cena cap. vol. art.",
    scales=parse_nouns("""
mi milhão milhões m
bi bilhão bilhões m
milhão milhão milhões m
milhões milhão milhões m
bilhão bilhão bilhões m
bilhões bilhão bilhões m
mil mil mil m
"""),
    parts={2: ("meio", "meios"), 3: ("terço", "terços")},
    dated="em dia no do ao",
)

WORDS: Final = {"de": GERMAN, "es": _ES, "fr-fr": _FR, "it": _IT, "pt-br": _PT}
"""Language tag -> its words."""
