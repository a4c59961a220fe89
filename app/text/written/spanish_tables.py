"""Words of Spanish for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import Noun, Words, parse_abbreviations, parse_money, parse_names, parse_nouns, parse_pairs

SPANISH: Final = Words(
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
    money=parse_money("""
€/EUR euro euros m - céntimo céntimos
$/USD/US$/U$S dólar dólares m - centavo centavos
£/GBP libra libras f - penique peniques
¥/JPY yen yenes m
R$/BRL real reales m
CHF franco_suizo francos_suizos m
MXN peso_mexicano pesos_mexicanos m
ARS peso_argentino pesos_argentinos m
COP peso_colombiano pesos_colombianos m
CLP peso_chileno pesos_chilenos m
S/ sol soles m
"""),
    units=parse_nouns("""
º grado grados m
s² segundo_al_cuadrado segundos_al_cuadrado m
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
dm decímetro decímetros m
cl centilitro centilitros m
dl decilitro decilitros m
hl hectolitro hectolitros m
t tonelada toneladas f
µg microgramo microgramos m
mcg microgramo microgramos m
nm nanómetro nanómetros m
µm micrómetro micrómetros m
cm² centímetro_cuadrado centímetros_cuadrados m
mm² milímetro_cuadrado milímetros_cuadrados m
cm³ centímetro_cúbico centímetros_cúbicos m
m2 metro_cuadrado metros_cuadrados m
km2 kilómetro_cuadrado kilómetros_cuadrados m
m3 metro_cúbico metros_cúbicos m
seg segundo segundos m
seg. segundo segundos m
min. minuto minutos m
hs hora horas f
hrs hora horas f
ms milisegundo milisegundos m
hPa hectopascal hectopascales m
kPa kilopascal kilopascales m
bar bar bares m
mmHg milímetro_de_mercurio milímetros_de_mercurio m
kcal kilocaloría kilocalorías f
cal caloría calorías f
kJ kilojulio kilojulios m
J julio julios m
dB decibelio decibelios m
mA miliamperio miliamperios m
mAh miliamperio_hora miliamperios_hora m
Ω ohmio ohmios m
MW megavatio megavatios m
GW gigavatio gigavatios m
MWh megavatio_hora megavatios_hora m
kHz kilohercio kilohercios m
KB kilobyte kilobytes m
kB kilobyte kilobytes m
Mb megabit megabits m
Gb gigabit gigabits m
Mbit megabit megabits m
Mbps megabit_por_segundo megabits_por_segundo m
Gbps gigabit_por_segundo gigabits_por_segundo m
kbps kilobit_por_segundo kilobits_por_segundo m
CV caballo caballos m
px píxel píxeles m
fps fotograma_por_segundo fotogramas_por_segundo m
rpm revolución_por_minuto revoluciones_por_minuto f
ppm parte_por_millón partes_por_millón f
lb libra libras f
lbs libra libras f
oz onza onzas f
cda. cucharada cucharadas f
cdas. cucharada cucharadas f
cdta. cucharadita cucharaditas f
cdtas. cucharadita cucharaditas f
ptos. punto puntos m
pts. punto puntos m
uds. unidad unidades f
ud. unidad unidades f
hab. habitante habitantes m
comp. comprimido comprimidos m
pers. persona personas f
gr gramo gramos m
gr. gramo gramos m
grs. gramo gramos m
kgs kilo kilos m
mts. metro metros m
mts metro metros m
cms centímetro centímetros m
amp. ampolla ampollas f
pp punto_porcentual puntos_porcentuales m
p.p. punto_porcentual puntos_porcentuales m
cc centímetro_cúbico centímetros_cúbicos m
ppp punto_por_pulgada puntos_por_pulgada m
Mpx megapíxel megapíxeles m
MP megapíxel megapíxeles m
mol mol moles m
mmol milimol milimoles m
Ah amperio_hora amperios_hora m
Wh vatio_hora vatios_hora m
kVA kilovoltamperio kilovoltamperios m
VA voltamperio voltamperios m
mV milivoltio milivoltios m
kV kilovoltio kilovoltios m
mW milivatio milivatios m
Pa pascal pascales m
MPa megapascal megapascales m
lx lux lux m
lm lumen lúmenes m
mSv milisievert milisieverts m
atm atmósfera atmósferas f
ng nanogramo nanogramos m
UI unidad_internacional unidades_internacionales f
ft pie pies m
mph milla_por_hora millas_por_hora f
GWh gigavatio_hora gigavatios_hora m
TWh teravatio_hora teravatios_hora m
PB petabyte petabytes m
kN kilonewton kilonewtons m
Nm newton_metro newtons_metro m
hm³ hectómetro_cúbico hectómetros_cúbicos m
km³ kilómetro_cúbico kilómetros_cúbicos m
dm³ decímetro_cúbico decímetros_cúbicos m
mm³ milímetro_cúbico milímetros_cúbicos m
mL mililitro mililitros m
dL decilitro decilitros m
µl microlitro microlitros m
µL microlitro microlitros m
kbit kilobit kilobits m
Gbit gigabit gigabits m
°_C grado_centígrado grados_centígrados m
"""),
    per="por",
    abbreviations=parse_abbreviations("""
esc.=escalera; párr.=párrafo; párrs.=párrafos; Ud=usted; Vd=usted; C. P.=código postal; Tb=también; pl.=plaza;
dupl.=duplicado; parc.=parcela; Apto.=apartamento; lat.=latitud; long.=longitud; N.os=números; n.os=números;
nos.=números; N. de la R.=nota de la redacción; ec.=ecuación; and.=andén; vag.=vagón; N. del E.=nota del editor; et
al.=et al; Vds.=ustedes; Sras.=señoras; SS. AA. RR.=sus altezas reales; SS.AA.RR.=sus altezas reales; n/ref.=nuestra
referencia; s/ref.=su referencia; Srs.=señores; blq.=bloque; Stgo.=Santiago; Ltda.=limitada; S.A. de C.V.=ese a de ce
uve; S. A. de C. V.=ese a de ce uve; nov.=noviembre; oct.=octubre; dic.=diciembre; ene.=enero; febr.=febrero;
sept.=septiembre; temp.=temperatura; pol. ind.=polígono industrial; Pol. Ind.=polígono industrial; pers.=persona;
tfnos.=teléfonos; tels.=teléfonos; bda.=barriada; urb.=urbanización; esq.=esquina; plta.=planta; sr.=señor;
sra.=señora; srta.=señorita; sres.=señores; dr.=doctor; dra.=doctora; dña.=doña; lic.=licenciado; ing.=ingeniero;
secr.=secretario; coord.=coordinador; dcto.=descuento; dto.=descuento; docs.=documentos; fasc.=fascículo;
fdo.=firmado; gta.=glorieta; hnos.=hermanos; íd.=ídem; mens.=mensual; N.ª S.ª=Nuestra Señora; Ntro.=nuestro;
obs.=observaciones; op. cit.=obra citada; p. a.=por ausencia; p. o.=por orden; ppal.=principal; pto.=punto; S. M.=su
majestad; S.M.=su majestad; SS. MM.=sus majestades; SS.MM.=sus majestades; S. A. R.=su alteza real; S.A.R.=su alteza
real; sig.=siguiente; sigs.=siguientes; s. f.=sin fecha; s.f.=sin fecha; tít.=título; univ.=universidad; v.
gr.=verbigracia; v.gr.=verbigracia; VV. AA.=varios autores; VV.AA.=varios autores; AA. VV.=autores varios; DD.
HH.=derechos humanos; DD.HH.=derechos humanos; DDHH=derechos humanos; FF. CC.=ferrocarriles; FF.CC.=ferrocarriles; OO.
PP.=obras públicas; ejs.=ejemplos; tb.=también; tb=también; xq=porque; pq=porque; arts.=artículos; r.p.m.=revoluciones
por minuto; c. c.=centímetros cúbicos; vid.=véase; ibid.=ibídem; ibíd.=ibídem; gob.=gobierno; mpio.=municipio;
edo.=estado; Edo.=estado; Fr.=fray; Bco.=banco; Ayto.=ayuntamiento; ayto.=ayuntamiento; Fac.=facultad;
Inst.=instituto; Cdad.=ciudad; Gob.=gobernador; Sec.=sección; sec.=sección; subsec.=subsección; supl.=suplemento;
impr.=imprenta; desc.=descuento; cant.=cantidad; Cant.=cantidad; mod.=modelo; Mod.=modelo; trast.=trastero;
calef.=calefacción; ptas.=pesetas; Prof.ª=profesora; cel.=celular; col.=colegiado; Pta.=puerta; Cías.=compañías;
Ntra.=nuestra; Vdo.=viudo; N. del T.=nota del traductor; i.e.=es decir; trim.=trimestre; C#=c sharp; pH=pe hache;
Sr.=señor; Sra.=señora; Srta.=señorita; Sres.=señores; D.=don; Dña.=doña; Dr.=doctor; Dra.=doctora; Prof.=profesor;
Ud.=usted; Uds.=ustedes; Vd.=usted; Lic.=licenciado; Ing.=ingeniero; EE. UU.=Estados Unidos; EE.UU.=Estados Unidos; p.
ej.=por ejemplo; p.ej.=por ejemplo; etc.=etcétera; núm.=número; n.º=número; nº=número; N.º=número; Nº=número;
pág.=página; págs.=páginas; tel.=teléfono; Tel.=teléfono; Tfno.=teléfono; Av.=avenida; Avda.=avenida; av.=avenida;
C/=calle; Pza.=plaza; aprox.=aproximadamente; máx.=máximo; mín.=mínimo; cap.=capítulo; vol.=volumen; art.=artículo; a.
C.=antes de Cristo; d. C.=después de Cristo; a.C.=antes de Cristo; d.C.=después de Cristo; S.A.=ese a; a. m.=a eme; p.
m.=pe eme; a.m.=a eme; p.m.=pe eme; vs.=versus; izq.=izquierda; dcha.=derecha; Sto.=santo; Sta.=santa; Gral.=general;
pp.=páginas; dpto.=departamento; Dpto.=departamento; Mª=María; ss.=siguientes; Excmo.=excelentísimo; tfno.=teléfono;
hab.=habitantes; adm.=administración; Col.=colonia; Cía.=compañía; Atte.=atentamente; atte.=atentamente;
depto.=departamento; Depto.=departamento; RR. HH.=recursos humanos; RR.HH.=recursos humanos; RRHH=recursos humanos;
FF. AA.=fuerzas armadas; FF.AA.=fuerzas armadas; JJ. OO.=juegos olímpicos; JJ.OO.=juegos olímpicos; CC.
AA.=comunidades autónomas; CC.AA.=comunidades autónomas; CCAA=comunidades autónomas; Ctra.=carretera; ctra.=carretera;
Urb.=urbanización; Edif.=edificio; edif.=edificio; Pº=paseo; P.º=paseo; Pza=plaza; Plza.=plaza; pza.=plaza; Pl.=plaza;
Avda=avenida; avda.=avenida; c/=calle; s/n=sin número; S/N=sin número; c/u=cada uno; S. L.=ese ele; S.L.=ese ele;
S.L.U.=ese ele u; S. A.=ese a; D.ª=doña; Dª=doña; Sr.ª=señora; M.ª=María; Fdo.=firmado; Rte.=remitente; Drs.=doctores;
Dres.=doctores; Lcdo.=licenciado; Lcda.=licenciada; Admón.=administración; Cnel.=coronel; Tte.=teniente;
Sgto.=sargento; Cap.=capitán; Arq.=arquitecto; Mtro.=maestro; Exmo.=excelentísimo; Excma.=excelentísima;
Ilmo.=ilustrísimo; Ilma.=ilustrísima; Hnos.=hermanos; Hno.=hermano; Hna.=hermana; Fco.=Francisco; Ma.=María;
ej.=ejemplo; Ej.=ejemplo; P. ej.=por ejemplo; P.D.=posdata; P. D.=posdata; N.B.=nota bene; P.ej.=por ejemplo;
tlf.=teléfono; Tlf.=teléfono; tfno=teléfono; móv.=móvil; dcho.=derecho; izqda.=izquierda; izdo.=izquierdo;
izda.=izquierda; prov.=provincia; Prov.=provincia; pral.=principal; entlo.=entresuelo; Profa.=profesora;
Dir.=director; Dtor.=director; Pdte.=presidente; Pdta.=presidenta; V.º B.º=visto bueno; q.e.p.d.=que en paz descanse;
Bs. As.=Buenos Aires; nac.=nacional; int'l=internacional; kms=kilómetros; hrs.=horas; Vda.=viuda; cta.=cuenta;
Cta.=cuenta; ref.=referencia; Ref.=referencia; Nº.=número; pól.=póliza; cód.=código; adj.=adjunto; incl.=incluido;
Núm.=número; Pág.=página; Art.=artículo; Vol.=volumen; Aprox.=aproximadamente; Máx.=máximo; Mín.=mínimo;
Ing.ª=ingeniera; s. n. m.=sobre el nivel del mar; s.n.m.=sobre el nivel del mar; m²=metro cuadrado; km²=kilómetro
cuadrado; m³=metro cúbico; km/h=kilómetros por hora; a/c=a cuenta; vto.=vencimiento; trad.=traducción;
cf.=confróntese; Uds=ustedes
"""),
    signs=parse_pairs(
        "+=más; ==igual a; ×=por; ÷=dividido entre; <=menor que; >=mayor que; ≈=aproximadamente; ±=más menos; "
        "≤=menor o igual que; ≥=mayor o igual que; ·=por; −=menos; -=menos"
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
billones billón billones m
billón billón billones m
k mil mil m
K mil mil m
mill millón millones m
millón millón millones m
millones millón millones m
M millón millones m
miles mil mil m
mil mil mil m
"""),
    parts={2: ("medio", "medios"), 3: ("tercio", "tercios")},
    dated="el al del día",
)
