"""Words of French for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import Noun, Words, parse_abbreviations, parse_money, parse_names, parse_nouns, parse_pairs

FRENCH: Final = Words(
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
    money=parse_money("""
€/EUR euro euros m - centime centimes
$/USD/US$/$US dollar dollars m - cent cents
£/GBP livre livres f - penny pence
¥/JPY yen yens m
R$/BRL réal réaux m
CHF franc_suisse francs_suisses m
$CA/CAD dollar_canadien dollars_canadiens m
FCFA/XOF franc_CFA francs_CFA m
"""),
    units=parse_nouns("""
s² seconde_au_carré secondes_au_carré f
cts centime centimes m
ct centime centimes m
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
dm décimètre décimètres m
dl décilitre décilitres m
hl hectolitre hectolitres m
t tonne tonnes f
µg microgramme microgrammes m
nm nanomètre nanomètres m
µm micromètre micromètres m
cm² centimètre_carré centimètres_carrés m
mm² millimètre_carré millimètres_carrés m
cm³ centimètre_cube centimètres_cubes m
m2 mètre_carré mètres_carrés m
km2 kilomètre_carré kilomètres_carrés m
m3 mètre_cube mètres_cubes m
sec seconde secondes f
sec. seconde secondes f
min. minute minutes f
mn minute minutes f
j jour jours m
ms milliseconde millisecondes f
hPa hectopascal hectopascals m
kPa kilopascal kilopascals m
bar bar bars m
bars bar bars m
mmHg millimètre_de_mercure millimètres_de_mercure m
kcal kilocalorie kilocalories f
cal calorie calories f
kJ kilojoule kilojoules m
J joule joules m
dB décibel décibels m
mA milliampère milliampères m
mAh milliampère-heure milliampères-heure m
Ω ohm ohms m
MW mégawatt mégawatts m
GW gigawatt gigawatts m
MWh mégawattheure mégawattheures m
kHz kilohertz kilohertz m
ko kilooctet kilooctets m
Ko kilooctet kilooctets m
TB térabyte térabytes m
Mb mégabit mégabits m
Gb gigabit gigabits m
Mbit mégabit mégabits m
Gbit gigabit gigabits m
Mbps mégabit_par_seconde mégabits_par_seconde m
Gbps gigabit_par_seconde gigabits_par_seconde m
ch cheval chevaux m
px pixel pixels m
ips image_par_seconde images_par_seconde f
fps image_par_seconde images_par_seconde f
tr tour tours m
ppm partie_par_million parties_par_million f
oz once onces f
c._à_s. cuillère_à_soupe cuillères_à_soupe f
c._à_c. cuillère_à_café cuillères_à_café f
c.à.s. cuillère_à_soupe cuillères_à_soupe f
c.à.c. cuillère_à_café cuillères_à_café f
c._à_soupe cuillère_à_soupe cuillères_à_soupe f
c._à_café cuillère_à_café cuillères_à_café f
càs cuillère_à_soupe cuillères_à_soupe f
càc cuillère_à_café cuillères_à_café f
pers. personne personnes f
hab. habitant habitants m
cp comprimé comprimés m
cp. comprimé comprimés m
gr gramme grammes m
kgs kilo kilos m
mL millilitre millilitres m
kn nœud nœuds m
pts point points m
cc centimètre_cube centimètres_cubes m
ppp point_par_pouce points_par_pouce m
Mpx mégapixel mégapixels m
Mpix mégapixel mégapixels m
mol mole moles f
mmol millimole millimoles f
Ah ampère-heure ampères-heure m
Wh wattheure wattheures m
kVA kilovoltampère kilovoltampères m
VA voltampère voltampères m
mV millivolt millivolts m
kV kilovolt kilovolts m
mW milliwatt milliwatts m
Pa pascal pascals m
MPa mégapascal mégapascals m
lx lux lux m
lm lumen lumens m
mSv millisievert millisieverts m
atm atmosphère atmosphères f
ng nanogramme nanogrammes m
UI unité_internationale unités_internationales f
GWh gigawattheure gigawattheures m
TWh térawattheure térawattheures m
kN kilonewton kilonewtons m
Nm newton_mètre newtons_mètres m
km³ kilomètre_cube kilomètres_cubes m
dm³ décimètre_cube décimètres_cubes m
mm³ millimètre_cube millimètres_cubes m
dL décilitre décilitres m
µl microlitre microlitres m
µL microlitre microlitres m
kbit kilobit kilobits m
Kbps kilobit_par_seconde kilobits_par_seconde m
enf. enfant enfants m
°_C degré_Celsius degrés_Celsius m
"""),
    per="par",
    abbreviations=parse_abbreviations("""
enf.=enfants; Bjr=bonjour; Bsr=bonsoir; Stp=s'il te plaît; Tjs=toujours; Bcp=beaucoup; dr.=droite; dte=droite;
gche=gauche; univ.=université; S. A. R.=son altesse royale; S. A. S.=son altesse sérénissime; lat.=latitude;
long.=longitude; parc.=parcelle; voit.=voiture; éq.=équation; n.d.l.r.=note de la rédaction; N.D.L.R.=note de la
rédaction; NDLR=note de la rédaction; S. M.=sa majesté; S.M.=sa majesté; S. E.=son excellence; et al.=et al; r.=rue;
port.=portable; temp.=température; compr.=comprimé; gél.=gélule; adr.=adresse; anc.=ancien; arrdt=arrondissement;
bibl.=bibliothèque; circ.=circulaire; c/o=chez; dépt=département; fol.=folio; ibid.=ibidem; id.=idem;
i.e.=c'est-à-dire; introd.=introduction; loc. cit.=loco citato; obs.=observation; préf.=préface; qté=quantité;
Qté=quantité; s.d.=sans date; suppl.=supplément; sup.=supérieur; inf.=inférieur; s.v.p.=s'il vous plaît;
tabl.=tableau; RdC=rez-de-chaussée; RDC=rez-de-chaussée; rdc=rez-de-chaussée; HT=hors taxes; H.T.=hors taxes;
Pdt=président; sem.=semaine; nbre=nombre; stp=s'il te plaît; rdv=rendez-vous; dsl=désolé; auj.=aujourd'hui; qd=quand;
bjr=bonjour; bsr=bonsoir; imm.=immeuble; Z.I.=zone industrielle; Z.A.=zone artisanale; ch. de fer=chemin de fer;
ctre=centre; mens.=mensuel; corresp.=correspondance; cplt=complet; nº=numéro; div.=divers; enr.=enregistré;
gds=grands; hebd.=hebdomadaire; int.=intérieur; ext.=extérieur; lg.=longueur; mod.=modèle; ord.=ordinaire;
orig.=original; rem.=remarque; rens.=renseignements; Rens.=renseignements; sect.=section; ss=sous; terr.=terrasse;
chf.=chauffage; cuis.=cuisine; sdb=salle de bains; ptes=portes; J.-B.=Jean-Baptiste; Dre=docteure; Pre=professeure;
trim.=trimestre; C#=c sharp; apr.=après; hôp.=hôpital; T°=température; c-à-d=c'est-à-dire; ét.=étage; pH=pé hache;
M.=monsieur; MM.=messieurs; Mme=madame; Mmes=mesdames; Mlle=mademoiselle; Dr=docteur; Pr=professeur; Me=maître;
St=saint; Ste=sainte; etc.=et cetera; p. ex.=par exemple; p.ex.=par exemple; c.-à-d.=c'est-à-dire; n°=numéro;
N°=numéro; av.=avenue; bd=boulevard; Bd=boulevard; bvd=boulevard; pl.=place; tél.=téléphone; Tél.=téléphone;
vol.=volume; chap.=chapitre; art.=article; env.=environ; max.=maximum; min.=minimum; av. J.-C.=avant Jésus-Christ;
apr. J.-C.=après Jésus-Christ; vs=versus; svp=s'il vous plaît; SVP=s'il vous plaît; cf.=confer; éd.=édition;
lun.=lundi; mar.=mardi; mer.=mercredi; jeu.=jeudi; ven.=vendredi; sam.=samedi; dim.=dimanche; RDV=rendez-vous;
pp.=pages; Mgr=monseigneur; Mlles=mesdemoiselles; hab.=habitants; dép.=département; cad=c'est-à-dire; qqn=quelqu'un;
qqch=quelque chose; RN=route nationale; bd.=boulevard; réf.=référence; suiv.=suivants; Cf.=confer; Ex.=exemple;
ex.=exemple; P.S.=post-scriptum; P.-S.=post-scriptum; N.B.=nota bene; NB=nota bene; Cie=compagnie; Sté=société;
Ets=établissements; resp.=responsable; rte=route; all.=allée; imp.=impasse; sq.=square; pl=place; fg=faubourg;
chem.=chemin; rés.=résidence; Rés.=résidence; Vve=veuve; Drs=docteurs; Mes=maîtres; Prs=professeurs; trad.=traduction;
coll.=collection; fasc.=fascicule; rééd.=réédition; Dr.=docteur; Pr.=professeur; Mr=monsieur; Mr.=monsieur;
Mme.=madame; Mlle.=mademoiselle; Av.=avenue; Bd.=boulevard; Bld=boulevard; blvd=boulevard; bld=boulevard;
Blvd=boulevard; Pl.=place; R.=rue; ill.=illustration; dir.=direction; Env.=environ; Max.=maximum; Min.=minimum;
Chap.=chapitre; Art.=article; Vol.=volume; nb=nombre; Nb=nombre; tjs=toujours; bcp=beaucoup; pb=problème; qq=quelque;
qqs=quelques; pdt=pendant; ds=dans; càd=c'est-à-dire; càd.=c'est-à-dire; ann.=annexe; sept.=septembre;
J.-C.=Jésus-Christ; incl.=inclus; excl.=exclu; Réf.=référence; Ref.=référence; ref.=référence; Dép.=département;
dpt=département; Dpt=département; arr.=arrondissement; Arr.=arrondissement; gal=général; Gal=général; Cdt=commandant;
Col.=colonel; Cne=capitaine; Lt=lieutenant; Sgt=sergent; prof.=professeur; Prof.=professeur; ap. J.-C.=après
Jésus-Christ; av. JC=avant Jésus-Christ; ap. JC=après Jésus-Christ; apr. JC=après Jésus-Christ; exp.=expéditeur;
dest.=destinataire; pers.=personnes; m²=mètre carré; km²=kilomètre carré; m³=mètre cube; km/h=kilomètres à l'heure;
s/s=sous; op. cit.=opus citatum; St.=saint; Ste.=sainte; Sts=saints; N.-D.=Notre-Dame; S.A.R.=son altesse royale;
PJ=pièce jointe; P.J.=pièce jointe; n°s=numéros; asap=dès que possible; T.T.C.=toutes taxes comprises; TTC=toutes
taxes comprises; cent.=centimes
"""),
    signs=parse_pairs(
        "+=plus; ==égale; ×=fois; ÷=divisé par; <=inférieur à; >=supérieur à; ≈=environ; ±=plus ou moins; "
        "≤=inférieur ou égal à; ≥=supérieur ou égal à; ·=fois; −=moins; -=moins"
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
K mille mille m
"""),
    parts={2: ("demi", "demis"), 3: ("tiers", "tiers"), 4: ("quart", "quarts")},
    dated="le au du",
)
