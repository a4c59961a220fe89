"""Words of Italian for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import Noun, Words, parse_abbreviations, parse_money, parse_names, parse_nouns, parse_pairs

ITALIAN: Final = Words(
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
    money=parse_money("""
€/EUR euro euro m - centesimo centesimi
$/USD/US$ dollaro dollari m - centesimo centesimi
£/GBP sterlina sterline f - penny penny
¥/JPY yen yen m
R$/BRL real real m
CHF franco_svizzero franchi_svizzeri m
"""),
    units=parse_nouns("""
º grado gradi m
s² secondo_quadrato secondi_quadrati m
cent. centesimo centesimi m
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
dm decimetro decimetri m
dl decilitro decilitri m
hl ettolitro ettolitri m
t tonnellata tonnellate f
q quintale quintali m
µg microgrammo microgrammi m
nm nanometro nanometri m
µm micrometro micrometri m
cm² centimetro_quadrato centimetri_quadrati m
mm² millimetro_quadrato millimetri_quadrati m
cm³ centimetro_cubo centimetri_cubi m
m2 metro_quadrato metri_quadrati m
km2 chilometro_quadrato chilometri_quadrati m
kmq chilometro_quadrato chilometri_quadrati m
cmq centimetro_quadrato centimetri_quadrati m
m3 metro_cubo metri_cubi m
mc metro_cubo metri_cubi m
sec secondo secondi m
sec. secondo secondi m
min. minuto minuti m
ms millisecondo millisecondi m
hPa ettopascal ettopascal m
kPa chilopascal chilopascal m
bar bar bar m
mmHg millimetro_di_mercurio millimetri_di_mercurio m
kcal chilocaloria chilocalorie f
cal caloria calorie f
kJ chilojoule chilojoule m
J joule joule m
dB decibel decibel m
mA milliampere milliampere m
mAh milliamperora milliamperora m
Ω ohm ohm m
MW megawatt megawatt m
GW gigawatt gigawatt m
MWh megawattora megawattora m
kHz chilohertz chilohertz m
KB kilobyte kilobyte m
kB kilobyte kilobyte m
Mb megabit megabit m
Gb gigabit gigabit m
Mbit megabit megabit m
Mbps megabit_per_secondo megabit_per_secondo m
Gbps gigabit_per_secondo gigabit_per_secondo m
CV cavallo cavalli m
px pixel pixel m
fps fotogramma_per_secondo fotogrammi_per_secondo m
ppm parte_per_milione parti_per_milione f
oz oncia once f
cucch. cucchiaio cucchiai m
pz. pezzo pezzi m
pz pezzo pezzi m
gg giorno giorni m
gg. giorno giorni m
ab. abitante abitanti m
cpr compressa compresse f
cpr. compressa compresse f
pers. persona persone f
gr grammo grammi m
gr. grammo grammi m
mL millilitro millilitri m
gtt goccia gocce f
conf. confezione confezioni f
p.p. punto_percentuale punti_percentuali m
cc centimetro_cubo centimetri_cubi m
Mpx megapixel megapixel m
MP megapixel megapixel m
mol mole moli f
mmol millimole millimoli f
Ah amperora amperora m
Wh wattora wattora m
kVA chilovoltampere chilovoltampere m
VA voltampere voltampere m
mV millivolt millivolt m
kV chilovolt chilovolt m
mW milliwatt milliwatt m
Pa pascal pascal m
MPa megapascal megapascal m
lx lux lux m
lm lumen lumen m
mSv millisievert millisievert m
atm atmosfera atmosfere f
ng nanogrammo nanogrammi m
UI unità_internazionale unità_internazionali f
GWh gigawattora gigawattora m
TWh terawattora terawattora m
kN chilonewton chilonewton m
Nm newton_metro newton_metri m
km³ chilometro_cubo chilometri_cubi m
dm³ decimetro_cubo decimetri_cubi m
mm³ millimetro_cubo millimetri_cubi m
dL decilitro decilitri m
µl microlitro microlitri m
µL microlitro microlitri m
rpm giro_al_minuto giri_al_minuto m
kbps chilobit_per_secondo chilobit_per_secondo m
°_C grado_centigrado gradi_centigradi m
"""),
    per="per",
    abbreviations=parse_abbreviations("""
V.LE=viale; P.ZZA=piazza; P.ZA=piazza; C.SO=corso; P.LE=piazzale; L.GO=largo; V.LO=vicolo; Cmq=comunque; Grz=grazie;
lett.=lettera; civ.=civile; Cass.=cassazione; Pal.=palazzina; pal.=palazzina; arr.=arredato; lat.=latitudine;
long.=longitudine; carr.=carrozza; bin.=binario; sg.=seguente; ss.=seguenti; n.d.r.=nota del redattore; N.d.R.=nota
del redattore; eq.=equazione; S.M.=sua maestà; sq.=seguente; et al.=et al; temp.=temperatura; pers.=persona;
conf.=confezione; q.tà=quantità; qta=quantità; app.=appartamento; appto=appartamento; b.go=borgo; B.go=borgo;
ch.mo=chiarissimo; Ch.mo=chiarissimo; cons.=consigliere; fatt.=fattura; f.to=firmato; F.to=firmato; ibid.=ibidem;
id.=idem; lab.=laboratorio; m.llo=maresciallo; op. cit.=opera citata; p.c.=per conoscenza; P.tta=piazzetta;
Sig.ri=signori; sig.ri=signori; S.ta=santa; S.to=santo; staz.=stazione; suppl.=supplemento; univ.=università;
Univ.=università; cmq=comunque; nn=non; tvb=ti voglio bene; msg=messaggio; grz=grazie; xké=perché; xche=perché;
qlc=qualcosa; qlcn=qualcuno; dim.=dimensioni; descr.=descrizione; iscr.=iscrizione; lic.=licenza; mod.=modello;
ord.=ordine; prot.=protocollo; Prot.=protocollo; racc.=raccomandata; reg.=regione; rep.=reparto; ric.=ricevuta;
risc.=riscaldamento; Ill.ma=illustrissima; Preg.ma=pregiatissima; Spett.li=spettabili; Gent.li=gentili;
dott.sse=dottoresse; Rev.=reverendo; M°=maestro; S.E.=sua eccellenza; dev.mo=devotissimo; aff.mo=affezionatissimo;
cel.=cellulare; Cel.=cellulare; autostr.=autostrada; gall.=galleria; sott.=sottosegretario; amb.=ambasciatore;
max=massimo; sez.=sezione; acc.=accessori; bil.=bilancio; c.ca=circa; p.le=piazzale; vle=viale; pzza=piazza;
tav.=tavola; Tav.=tavola; rist.=ristorante; Rist.=ristorante; sab.=sabato; lim.=limite; lung.=lunghezza;
largh.=larghezza; vel.=velocità; Vel.=velocità; pot.=potenza; ass.=assicurazione; ist.=istituto; Ist.=istituto;
fac.=facoltà; dr=dottor; obbl.=obbligatorio; facolt.=facoltativo; ins.=insegnante; resp.=responsabile;
cell.=cellulare; incl.=incluso; escl.=escluso; Spett.le=spettabile; spett.le=spettabile; trim.=trimestre; C#=c sharp;
sigg.=signori; pH=pi acca; sig.=signor; Sig.=signor; sig.ra=signora; Sig.ra=signora; sig.na=signorina; Sigg.=signori;
dott.=dottor; Dott.=dottor; dott.ssa=dottoressa; Dott.ssa=dottoressa; dr.=dottor; Dr.=dottor; prof.=professor;
Prof.=professor; prof.ssa=professoressa; Prof.ssa=professoressa; avv.=avvocato; Avv.=avvocato; ing.=ingegner;
Ing.=ingegner; ecc.=eccetera; es.=esempio; p. es.=per esempio; p.es.=per esempio; n.=numero; N.=numero; nº=numero;
n°=numero; pag.=pagina; pagg.=pagine; tel.=telefono; Tel.=telefono; cap.=capitolo; vol.=volume; art.=articolo;
ca.=circa; a.C.=avanti Cristo; d.C.=dopo Cristo; a. C.=avanti Cristo; d. C.=dopo Cristo; max.=massimo; min.=minimo;
P.zza=piazza; V.le=viale; C.so=corso; c.so=corso; v.le=viale; p.zza=piazza; p.za=piazza; S.p.A.=esse pi a; vs.=versus;
on.=onorevole; On.=onorevole; cfr.=confronta; c.a.=corrente anno; pp.=pagine; gg.=giorni; arch.=architetto;
geom.=geometra; rag.=ragioniere; spett.=spettabile; Spett.=spettabile; egr.=egregio; Egr.=egregio; gent.=gentile;
mln=milioni; mld=miliardi; ved.=vedi; tel=telefono; dip.=dipartimento; Cfr.=confronta; segg.=seguenti; seg.=seguente;
S.r.l.=esse erre elle; s.r.l.=esse erre elle; Srl=esse erre elle; S.R.L.=esse erre elle; SRL=esse erre elle;
s.p.a.=esse pi a; SpA=esse pi a; S.P.A.=esse pi a; S.n.c.=esse enne ci; s.n.c.=esse enne ci; S.a.s.=esse a esse;
s.a.s.=esse a esse; Soc.=società; soc.=società; F.lli=fratelli; f.lli=fratelli; c/o=presso; P.IVA=partita iva; P.
IVA=partita iva; p.iva=partita iva; C.F.=codice fiscale; c.f.=codice fiscale; Cod.=codice; cod.=codice;
Fraz.=frazione; fraz.=frazione; Loc.=località; loc.=località; Prov.=provincia; prov.=provincia; P.le=piazzale;
L.go=largo; l.go=largo; V.lo=vicolo; v.lo=vicolo; P.za=piazza; Vic.=vicolo; N.B.=nota bene; n.b.=nota bene; NB=nota
bene; P.S.=post scriptum; p.s.=post scriptum; Pres.=presidente; pres.=presidente; Sen.=senatore; sen.=senatore;
Cav.=cavaliere; cav.=cavaliere; Dr.ssa=dottoressa; dr.ssa=dottoressa; D.ssa=dottoressa; Mons.=monsignor;
mons.=monsignor; a.m.=a emme; p.m.=pi emme; tot.=totale; Tot.=totale; cad.=cadauno; q.b.=quanto basta; a.s.=anno
scolastico; d.lgs.=decreto legislativo; D.Lgs.=decreto legislativo; D.lgs.=decreto legislativo; D.L.=decreto legge;
d.l.=decreto legge; D.P.R.=decreto del presidente della repubblica; c.c.=codice civile; c.p.=codice penale;
c.p.c.=codice di procedura civile; Es.=esempio; Arch.=architetto; Geom.=geometra; Rag.=ragioniere; Gent.=gentile;
Gent.mo=gentilissimo; Gent.ma=gentilissima; gent.mo=gentilissimo; gent.ma=gentilissima; Preg.mo=pregiatissimo;
Ill.mo=illustrissimo; Egr. Sig.=egregio signor; Proff.=professori; proff.=professori; Dott.ri=dottori; Pag.=pagina;
Pagg.=pagine; Art.=articolo; artt.=articoli; Artt.=articoli; Cap.=capitolo; capp.=capitoli; Vol.=volume; voll.=volumi;
Max.=massimo; Min.=minimo; Ca.=circa; mitt.=mittente; dest.=destinatario; ind.=indirizzo; int.le=internazionale;
naz.=nazionale; trad.=traduzione; S.=san; SS.=santissimi; m²=metro quadrato; km²=chilometro quadrato; m³=metro cubo;
km/h=chilometri per ora; A.C.=avanti Cristo; D.C.=dopo Cristo; ac.=accademico; A.A.=anno accademico; a.a.=anno
accademico; Amm.=amministrazione; amm.=amministrazione; Dir.=direttore; dir.=direttore; Uff.=ufficio; uff.=ufficio;
rif.=riferimento; Rif.=riferimento; all.to=allegato; u.s.=ultimo scorso; p.v.=prossimo venturo; c.m.=corrente mese;
s.l.m.=sul livello del mare; Sig.na=signorina; on.le=onorevole; On.le=onorevole; comm.=commendatore;
Comm.=commendatore; gen.le=generale; Gen.=generale; Col.=colonnello; Cap.no=capitano; Ten.=tenente; Magg.=maggiore;
Mar.=maresciallo; str.=strada; Str.=strada; C.da=contrada; c.da=contrada; S.Em.=sua eminenza; S. Em.=sua eminenza
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
k mila mila m
K mila mila m
M milione milioni m
Mln milione milioni m
MLN milione milioni m
MLD miliardo miliardi m
Mld miliardo miliardi m
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
