"""Words of Brazilian Portuguese for units, money, months, abbreviations and signs."""

from __future__ import annotations

from typing import Final

from app.text.written.words import Noun, Words, parse_abbreviations, parse_money, parse_names, parse_nouns, parse_pairs

PORTUGUESE: Final = Words(
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
    money=parse_money("""
€/EUR euro euros m centavos cêntimo cêntimos
$/US$/USD dólar dólares m centavos centavo centavos
R$/BRL real reais m centavos centavo centavos
£/GBP libra libras f centavos centavo centavos
¥/JPY iene ienes m
CHF franco_suíço francos_suíços m
"""),
    units=parse_nouns("""
º grau graus m
s² segundo_ao_quadrado segundos_ao_quadrado m
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
dm decímetro decímetros m
cl centilitro centilitros m
dl decilitro decilitros m
hl hectolitro hectolitros m
t tonelada toneladas f
µg micrograma microgramas m
mcg micrograma microgramas m
nm nanômetro nanômetros m
µm micrômetro micrômetros m
cm² centímetro_quadrado centímetros_quadrados m
mm² milímetro_quadrado milímetros_quadrados m
cm³ centímetro_cúbico centímetros_cúbicos m
m2 metro_quadrado metros_quadrados m
km2 quilômetro_quadrado quilômetros_quadrados m
m3 metro_cúbico metros_cúbicos m
seg segundo segundos m
seg. segundo segundos m
min. minuto minutos m
hs hora horas f
hrs hora horas f
ms milissegundo milissegundos m
hPa hectopascal hectopascais m
kPa quilopascal quilopascais m
bar bar bars m
mmHg milímetro_de_mercúrio milímetros_de_mercúrio m
kcal quilocaloria quilocalorias f
cal caloria calorias f
kJ quilojoule quilojoules m
J joule joules m
dB decibel decibéis m
mA miliampere miliamperes m
mAh miliampere-hora miliamperes-hora m
Ω ohm ohms m
MW megawatt megawatts m
GW gigawatt gigawatts m
MWh megawatt-hora megawatts-hora m
kHz quilohertz quilohertz m
KB kilobyte kilobytes m
kB kilobyte kilobytes m
Mb megabit megabits m
Gb gigabit gigabits m
Mbit megabit megabits m
Mbps megabit_por_segundo megabits_por_segundo m
Gbps gigabit_por_segundo gigabits_por_segundo m
cv cavalo cavalos m
CV cavalo cavalos m
px pixel pixels m
fps quadro_por_segundo quadros_por_segundo m
rpm rotação_por_minuto rotações_por_minuto f
ppm parte_por_milhão partes_por_milhão f
lb libra libras f
oz onça onças f
col. colher colheres f
un. unidade unidades f
pct. pacote pacotes m
cx. caixa caixas f
dz. dúzia dúzias f
hab. habitante habitantes m
comp. comprimido comprimidos m
pess. pessoa pessoas f
gr grama gramas m
gr. grama gramas m
mL mililitro mililitros m
kgs quilo quilos m
qtos. quarto quartos m
p.p. ponto_percentual pontos_percentuais m
cc cilindrada cilindradas f
Mpx megapixel megapixels m
MP megapixel megapixels m
mol mol mols m
mmol milimol milimols m
Ah ampere-hora amperes-hora m
Wh watt-hora watts-hora m
kVA quilovolt-ampere quilovolts-ampere m
VA volt-ampere volts-ampere m
mV milivolt milivolts m
kV quilovolt quilovolts m
mW miliwatt miliwatts m
Pa pascal pascals m
MPa megapascal megapascals m
lx lux lux m
lm lúmen lúmens m
mSv milisievert milisieverts m
atm atmosfera atmosferas f
ng nanograma nanogramas m
UI unidade_internacional unidades_internacionais f
GWh gigawatt-hora gigawatts-hora m
TWh terawatt-hora terawatts-hora m
kN quilonewton quilonewtons m
Nm newton-metro newtons-metro m
km³ quilômetro_cúbico quilômetros_cúbicos m
dm³ decímetro_cúbico decímetros_cúbicos m
mm³ milímetro_cúbico milímetros_cúbicos m
dL decilitro decilitros m
µl microlitro microlitros m
µL microlitro microlitros m
kbps quilobit_por_segundo quilobits_por_segundo m
lbs libra libras f
°_C grau_Celsius graus_Celsius m
"""),
    per="por",
    abbreviations=parse_abbreviations("""
Vc=você; Vcs=vocês; Tbm=também; Hj=hoje; Blz=beleza; Obg=obrigado; Pq=porque; Qdo=quando; Bj=beijo; Bjs=beijos;
Abs=abraços; a.a.=ao ano; Dec.=decreto; mob.=mobiliado; Cx. Postal=caixa postal; Cx. P.=caixa postal; Cx.=caixa;
lat.=latitude; long.=longitude; n.os=números; n.ºs=números; segs.=seguintes; N. do E.=nota do editor; N. do T.=nota do
tradutor; eq.=equação; plat.=plataforma; polt.=poltrona; et al.=et al; temp.=temperatura; conj.=conjunto;
Conj.=conjunto; ass.=assinado; esq.=esquina; lj.=loja; and.=andar; Tv.=travessa; Est.=estrada; Alm.=almirante;
Mal.=marechal; Mons.=monsenhor; Fr.=frei; Univ.=universidade; Fac.=faculdade; Inst.=instituto; Dir.=diretor;
coord.=coordenador; Bel.=bacharel; op. cit.=obra citada; ibid.=ibidem; id.=idem; cf.=confira; gráf.=gráfico;
quant.=quantidade; mens.=mensal; sem.=semestre; bim.=bimestre; abs=abraços; bj=beijo; bjs=beijos; td=tudo; tds=todos;
mto=muito; mt=muito; dps=depois; fds=fim de semana; pfv=por favor; obg=obrigado; cmg=comigo; agr=agora;
ap.=apartamento; aptos.=apartamentos; pess.=pessoa; desc.=desconto; parc.=parcela; cond.=condomínio; gar.=garagem;
qto.=quarto; qtos.=quartos; banh.=banheiro; cob.=cobertura; mod.=modelo; Mod.=modelo; rem.=remetente;
dest.=destinatário; end.=endereço; End.=endereço; bco.=banco; Bco.=banco; mun.=município; Mun.=município; est.=estado;
sr.=senhor; sra.=senhora; dr.=doutor; dra.=doutora; prof.=professor; profa.=professora; srta.=senhorita;
eng.=engenheiro; exmo.=excelentíssimo; jd.=jardim; pça.=praça; rod.=rodovia; lgo.=largo; trav.=travessa;
ltda.=limitada; cap.=capítulo; gen.=general; Gen.=general; Brig.=brigadeiro; Sec.=secretaria; sec.=seção;
supl.=suplemento; impr.=imprensa; esp.=especial; V. Ex.ª=vossa excelência; V.Ex.ª=vossa excelência; S.M.=sua
majestade; N.Sra.=Nossa Senhora; Sto=santo; Sta=santa; km.=quilômetro; h/a=hora-aula; p.p.=próximo passado; ñ=não;
pgto.=pagamento; pgto=pagamento; cel.=celular; trim.=trimestre; C#=c sharp; Eng.º=engenheiro; Engº=engenheiro; s/=sem;
blz=beleza; pH=pê agá; Sr.=senhor; Sra.=senhora; Srs.=senhores; Srta.=senhorita; Dr.=doutor; Dra.=doutora;
Prof.=professor; Profa.=professora; Profª=professora; D.=dona; Exmo.=excelentíssimo; etc.=et cetera; p. ex.=por
exemplo; p.ex.=por exemplo; nº=número; n.º=número; Nº=número; pág.=página; págs.=páginas; tel.=telefone;
Tel.=telefone; Av.=avenida; av.=avenida; R.=rua; Pça.=praça; Rod.=rodovia; aprox.=aproximadamente; máx.=máximo;
mín.=mínimo; vol.=volume; art.=artigo; a.C.=antes de Cristo; d.C.=depois de Cristo; a. C.=antes de Cristo; d.
C.=depois de Cristo; vs.=versus; V. Exa.=vossa excelência; apto.=apartamento; Ltda.=limitada; Cia.=companhia;
Sto.=santo; Sta.=santa; Gal.=general; Eng.=engenheiro; obs.=observação; pp.=páginas; séc.=século; ed.=edição;
hab.=habitantes; Al.=alameda; Jd.=jardim; Pres.=presidente; Gov.=governador; Dep.=deputado; Cel.=coronel; tb.=também;
Trav.=travessa; Dras.=doutoras; Srtas.=senhoritas; Obs.=observação; Ref.=referência; ref.=referência;
Profs.=professores; Exma.=excelentíssima; Ilmo.=ilustríssimo; Ilma.=ilustríssima; V. Sa.=vossa senhoria; V.Sa.=vossa
senhoria; V.Exa.=vossa excelência; Att.=atenciosamente; att.=atenciosamente; Atte.=atenciosamente; S.A.=esse á;
S/A=esse á; S. A.=esse á; c/=com; p/=para; s/n=sem número; S/N=sem número; s/nº=sem número; qdo=quando; vc=você;
vcs=vocês; pq=porque; tbm=também; tb=também; hj=hoje; msg=mensagem; Ltda=limitada; Pç.=praça; Pça=praça; Lgo.=largo;
Estr.=estrada; Ed.=edifício; Cond.=condomínio; Apto=apartamento; apto=apartamento; Fone=telefone; Des.=desembargador;
Sen.=senador; Ver.=vereador; Pe.=padre; Cap.=capitão; Ten.=tenente; Sgt.=sargento; Maj.=major; Jr.=júnior;
Dpto.=departamento; Depto.=departamento; depto.=departamento; dpto.=departamento; sécs.=séculos; Séc.=século;
núm.=número; pg.=página; Pág.=página; Págs.=páginas; Art.=artigo; arts.=artigos; Arts.=artigos; Vol.=volume;
vols.=volumes; Aprox.=aproximadamente; Máx.=máximo; Mín.=mínimo; Ex.=exemplo; ex.=exemplo; P. ex.=por exemplo;
P.S.=pós-escrito; N.B.=nota bene; Dr.ª=doutora; Drª=doutora; Sr.ª=senhora; Srª=senhora; Prof.ª=professora; D.ª=dona;
Drs.=doutores; N. Sra.=Nossa Senhora; N. S.=Nossa Senhora; S.=são; a/c=aos cuidados de; i.e.=isto é; inc.=inciso;
incl.=incluso; trad.=tradução; Min.=ministro; Secr.=secretário; Adv.=advogado; Arq.=arquiteto; Enga.=engenheira;
Engª=engenheira; Pq.=parque; Vl.=vila; Res.=residencial; n°=número; N°=número; n.°=número; qtde.=quantidade;
Qtde.=quantidade; qtd.=quantidade; resp.=responsável; Resp.=responsável; m²=metro quadrado; km²=quilômetro quadrado;
m³=metro cúbico; km/h=quilômetros por hora; nasc.=nascimento; Nasc.=nascimento; venc.=vencimento; Venc.=vencimento;
bl.=bloco; cód.=código; Cód.=código; s.n.m.=sobre o nível do mar; Me.=mestre; mín=mínimo; máx=máximo; c/c=conta
corrente; Cta.=conta; Ag.=agência; ag.=agência
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
tri trilhão trilhões m
trilhão trilhão trilhões m
trilhões trilhão trilhões m
k mil mil m
K mil mil m
mi milhão milhões m
MI milhão milhões m
BI bilhão bilhões m
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
