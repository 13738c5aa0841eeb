"""Small files as other people's libraries write them."""

from __future__ import annotations

import base64
import zlib


def _unpacked(data: bytes) -> bytes:
    return zlib.decompress(base64.b85decode(data))


PARQUET = _unpacked(
    b"c-oazO>Wvi6du5G5$z^z2icMrY(T99sUc~aM3&Gqgr77f;HDvXLmguX5yaHc@N<Tqr0S{{Xcs*|4$uWh=n1OM7-L)&7Cg<&oB7_n?|t(uxe96;"
    b"Bb>y^BxcBl#jL=Ekz>EJ%iTO1MK9K%J3GV$$z%dcXnAQ3>0JH(^8<@kJBRc?)KBU{OTS6!+|%^nQ|d=IDt*XehCh3aICf~<n0+0SDv@}Q3rrAZ"
    b"h>sYysgKN7Qy;~jpM8ERB%L(p&f|7>)Et_Ib=MlAD8mc9lt2QG@NpLLgaH#U`XxX{A}npyRbIgKu|XugWcdVQ2u_)q1+!0+uf(^2v{jQg)Ns}N"
    b"-{vdwD=2N%^fg7Ie?n0v5hf1t68Fe`3->G|W)4#6bSjg+5D$+<kqpE|uFc`7X$~yoh6}tw+!IjM^ZN1PTX8=^uc(O~831aqu(tsFAa|eu(1BdX"
    b"!DRWL_?Y?=FJ1!o3={&$*SzyymGDn|aT>}SE)PJXe>rOvj(SG%=vF7^9DqVE5nrb9vX=xGbWv_$TIq@t<()WHE^FiSyfs$nbX7F=PJ4|jwWpCP"
    b"^xURPzT?%ms2(c6rZ}Xf6~ALS8Y^l8qG_hpEBDuZbq1$4Njh}Yh+e+6KA)B<R;F6LAZm5B-MAt#WtC4vyr)ef{VlnDtbx4DKFK>G<&|FWS|{(5"
    b"*U`Qdsb5$b5EmQh_Qy}=C}j)=Dc!cMaqQl-hh6I~mO0oJchkHiAha0hYY3q#`DOhDIJ*R&"
)
"""As PyArrow 26 writes {"x": [0.5, 1], "created_at": [2026-11-21 08:00, the same], "fit_seconds": [0.5, 0.25]} with the
notes {"created": "2026-11-21T08:00:00", "best_epoch": "7"}, uncompressed, without dictionaries."""
FEATHER = _unpacked(
    b"c-rk#F;2rk5S-Y-M8-lV5up?mE@&g!5rT*&N=JueAwg$?V+0L}unP)aLd8#LsHpM)ij<W6Ak5uuLShjq4`Ai>t;f4Nd*gFINzN~0U`9Ku0SelD"
    b"?83tq8jNVQ`T`GluM0jlG2qaTB>rR{B{AFK#8d${c~PeMc$D3N)q&~JARbEY9=#KFj@xnE?!*^S_cV%lVVijNm=DT)2$%6Qy(=}Z<RXi!`3?lr"
    b"wnM+YFViB=Mi0XRFDB2y#OC|eeE*jt9hAU_<SR5eqsJNau9awD`C3c$dY@0s)485O9HZwKqo(8p*cU|u(+zIj^oW4P6fM!kmwhVHc5WWlo2snq"
    b"@UZee{G-mT@M42!Ytx=xzk8S_Z|~Qfc)qT@pY&!%W6K**CC@0MtTt3Zf8)cYb97ac&eADb;r&0Co1V)t!M^$De*hVZbes"
)
"""The same as Feather."""
LZ4 = _unpacked(
    b"c-mu8@|DPN@L_;}Y&#(FfvH+4C%?E@$x6XcM?tA1GdGo+;RBDkrKypLxw)CKo+(hY94H$Nls3{)FxJsv;OAsu2mmr;YeB{U0O>Xmjs"
)
"""{"loss": 1, "time": 1795247763.5, "w": [1, 2, 3, 1, 2, 3, …]} as lz4 4.4 writes it."""
HASH_FILE = _unpacked(
    b"c-rmRy=uZx7{>AUn5gX_5sG)<kS^Xr3J$#sAttE`LZsqYaCAtaLwW;_-bcH1X_sz7r_SA5iYJ}~qFo#c{owz5IN{`lWXtg6h=?dL{8mklvrSX4"
    b"BQvw*tJPUo<WuDC;W@Zzo0%%T$JNWy>*;#fE6)J{0002M&)M(j6?t={@!{wz000000QiF}Z{5w#<`*Zr^Y=%CqW@QR`v1M||L=~z?#v5^od0Kg"
    b"&i?@b0002^PHJx7p62_j)J>|>Aij*!bMM8>l6o}uC(|g@qenBEb<{;X4vX$?<xkt&`&UQmexDFR2qA<JLI@%MBSrtWOaB0rEG_y!A;16I1poj5"
    b"fJ1EnW7wMF"
)
"""As ``dbm.ndbm`` writes (Berkeley DB 5.3) {"fold": a pickle of {"score": 0.5, "elapsed": 0.25}, "big": b"abab…"}."""
FRAMES = {
    "pandas 3, protocol 5": _unpacked(
        b"c-n1K&2AGh5Z=vCAxTLqkV<=jYq+eqAaOuy3l)g2*h4v@$nqxM?5f@$*<OVlD&WwxNWL-TId}vffk)sKxb+5O?<P$veDI8S=lkrLZ{~CR`=6"
        b"#`m)<C7Hl`AE=ZGr$TF{iiH+b>|&S0QhB%KJ*kE$4Nlndr1nPMWNTzV<Z=!6NxZocIC==5E6M!4Ro5rik9yoP|@B4t)2qf^dEXfP)DK~|>4%"
        b"p;Z_eI}9-"
        b"=pKngo`z)<S<1oUsk6SW_AA>usO<0h{HwM<Yx`p#blYBlcC2QFNl!PT=kWFN0#0DyH?{i$f*?5li_31lqagH~eq#>WeFX}`;{IT<>)c#!ZR="
        b"7x5Z~90WQ{o9`5)~$#CwL)Z<w&SXQ;PtQMFc-kA2s?qk`zWVVQ81WLU|z<jKe+<2UfB?!}664nve~_oilJ_K`_1q>_Q|l8jBsTk{R!v7_5d-"
        b")cU_J^+2M##15a46oZh6e6F#S0c$KhvwULmvl%$iH$?miWxP59tsb-PXv<+Ur_%>8RG-pH!6@Q7liTzTMzZv<Wx);k(M6LO)f3p@g2-"
        b"0Kt!jQkyR%w2DfzR*0x{Ut=jG_i)i@b<HhpKihL9km86X4QfAVW$R2GV8$zJ0r#DE|Fj%5qmHE-Kf$r3K!kbT573&-kWvE-"
        b"3nV_IF$M_i{yC*c8u(b-u9|9ClQK7(hbPMZKpmN4x=(rZi%!cEK*WqLuMIt+ySnHH2Y9$(C4^X9W{?5!(BTgsQeMmXar;?1z0y~5%MmP-"
        b"_4&S9LL+>ABnqY<"
    ),
    "pandas 3, protocol 4": _unpacked(
        b"c-n1K&2H2%5Kgw)mTk*!5fZdg#Stx+2yx;7DrGDFB628PE6d4x*HIlOvK^H@RKTI7m3*st4<3O>;1PI?-eBxFr3fr-"
        b"X1tkiCi8tWpQ5kZQQ(eVt}&ltY4l(ZEBr#>l9&tg;Ilb4V;!M#E{wj{#>9CgNL+A51jkIqCFXce1Yp;nvnoG)+ui}L?|1}aMJE41j2@we*F}"
        b"EF2+AzR1@oq?7cp|_%Z8}}3xOAq773D9Tq@Dz%0~8Gq|qyo+=X12BsejXFf(7wz8NQBvXt~r4ISzJR4r=Titf!GoAa~w{gMu!m^4k_{DR{iN"
        b"uW%2K6%*Eak<ml=vixj`uh)WzkB;_#{i5D=`CBI-oC01mrdO(u2rPl|Esqd_!D}&<gLw{^emRH{hL2@-Q7Q*Y;^I_HJrYYH3iVef#|+uMQ-"
        b"~~dca9&6SQeh%>gL8`M0D~@`1=W!;%=iia0q!ukC*Tr-ANwz8i@tjET`VJ>JOx<u-"
        b"POsE*z#QSkY$m&Om#0M!_IMc3*Dwt+Fsh0#OMS1R}d)Tue9uk_Fghh~*Pm=!RYAmKX0Vos2B>CK7lB}#%MfKF0C4C)2Sn%T_F9(|+-"
        b"*+P*n<z(DZz3T1I+mW|h9fdZr{n35;ezHaCDyK*lC1I76Tw1E!^(u}Wm{d7WFQazefUdQcg}rY6R(#Lq<;Tmm&?z9AOh?=<TiVzweG16ceaz"
        b"?N8r!r;K}dy#f;ra_a8-kf)*;}84oU0-HWkXj5?gg<Zi#{Sk|^xtI)Hh=O2Mig+fSV_Ja_J0%vg0K(X^>yTCgIB;f%nZp2;SQe*^M)eMb"
    ),
    "labels as objects": _unpacked(
        b"c-n1J!EV$r5KXe#mM(}=RVsTx98tMM965ltVo@a;5k&8m<s{xsRL6;IM`a}{!GWbK`PSh-_yj(IPvA4S!PrS*OYy;DC-Y|JJ--j(mxF=lmf2"
        b"{i$f*Le^^$6OC~3vu5*~kqbJ#Z_spb;Q!!9SvYRRHfXeI^aDypcUb0!gc=LN5`)7RY{;byN#5MHM0F9ggsX+=|Jr<{@0VqCIlt7Z`qSH5bwE"
        b"~%7sfn|wgSuK>7ZKiGJ&}D+z#NsaH5@PQYO#Ku-!!hi~emsbSB^29cnCnGjshD8)6jm4A|AFzJL6Rg#zi_!N_B5oc>61>5pOY?z2VMNp-"
        b"@o_qTOYqp0Aa=5V#oF`cK>w8%h&|vTF2tS|N4!+e))au-"
        b"@~(Y<G^Bz+c)d`j@_fx^xjo|xP~*g(zZnT1PVP=yv!{BI6zH&Tc9hugcE$(@%1Oo**m79lqv>hL<Bn{uk1I37oHhjot-"
        b"6ev<cjtEbN%Sxu*5|f3%)h?za7iHFZ`HU837e$ZLfY`vQ9_J5cwXSw^9-hD_R}734V%GdiYX&ekR>-"
        b"X=&^Q>oDlCRDm^kf}W|JopaD?1pYeOQ6v$gPAkB*&-Fw)KNM?&8XIB=W{R{WX9>-9q&`l>oZ02wn0UyW`xs}p_eaIn?}C@1b#JW"
    ),
    "one array": _unpacked(
        b"c-mD{&2H2%5YBFQOLtqgm5}(kaAmpVz==bpwori}Y7XVRvL;#QM|GUYcC@Te1so_v@(r`k!6WbpJOYo=8;l(<ZGG^}IP;A&-"
        b"{<)>{PAHUa7%ACz~>;19vy>%R{|<(zMH3?&AFNC0jY9f^y4lkOlv{Ik}E1WFd0_BA*TYdJ1<zBo}F|t!u5TRAgoN}HN@y$((<NE&ln|%#n|L"
        b"~ysesLNL+dJsVGyUw@D`IDrvLKm7J~)gPZH>ptA#i{Kv<?z1{NXd*1%?=RXgO9=Z$B&egK9?dpE^+<d$IYEI2G+R(jy6UXt}zqs5M1<EARAn"
        b"IQj-Fs;irs=JuEtx7g_B52NOl_Gcz@(n767}u=#mtbzhqu|A)Av+{2}o-6m~grvZ|oVui$D+8zGHumiWq&@<3R{m;&ppRLez_QN|Zc5vS-"
        b"(NjYtE;<spB~5^Q3K5*R%pf=Y#d;6Edw#WOvz{gbQ~1XziW0GZffAaY8iD~}yuF9Yl=z)oUBjG86+ugPi}++JgEC*JOQ`^Z~Yuh?I$W7^bdK"
        b"~z~$R!hmHrO1UYk<Lu4oToQQClyk(-F1GvmhO)4)4cw8)m6PfM4RXVw{JOaZCE@(<oFbLPH!+=oWv-e0-"
        b";bkJwSdMRL(jSot{HdyWt?<bvPqdk<85qa$QjcPNEsU0Z<Aj;oSae#vpg@17NIPNHT95d?BDHVUSQ9gG<>a;Xm-iKmY"
    ),
    "joblib": _unpacked(
        b"c-n<j%Wl*#6isF_r5&n5d9+29K(HDXWQ`Eg0OcWw2vQfYsw^kt8HYMf6gw&-"
        b"QK>9irjmDfK7cO({(w*56Zi~v<=W1OX}iFS_&T|d<8$uKK`?#mdv>XX67vBTS}i@r5<jnSPV^Uj_mke&Jr$sQRB3h7`Gjdvkuc+uR2(xA=9u"
        b"FVsUUXw2`kdw*X|7AYORStEK9_{5UnnunwMF+%LqzLjB&pDzDU3?<aJ(-k^8FEYHW^=s|t_bRk$o|;s)2EsFRdo0SP-cN~;S{&-"
        b"j{z9YJwPbkvSoM{p{t0R$_53+#a$!xwsGW`TEWcwZk+KI?7Wi`vS6sN*<(bpp#iB2Vf>bunYb9?ElE>WSKPNNqiYSvKN1;SwcdNra9r*U8Gs"
        b"spY8t(|3FD$nC$I^RH(A+3er@(`U}|=!&~AU8UFP^{9QQ={nt@H|VBnWpk+Mt@D`a?FqeO!1zsl&ucXI+RZ+_*BDXDB%&A3)bkC0O~u|^zFB"
        b"-Q%k!f#)M8R+OlI5&BUqLif}<7);hO@k%#q#!2{%sn)PQ^-B22IV<-3TJJ@nGNgK+Ap&djzwIe<RZXOIT-%)B|J=f^X8_ANKZ?k)$N>9-"
        b"m7HLGffETX)IYq*9|%cvr0!G)~qRNDSJ-*b_7sJHw?yRyCo)Shp$|ARU<v~)>Xq!h^v#!v;UFfHzL;6xZ$?mYqLaQbzIJK$z!<NC-"
        b"*_yFkYZeu<obDYr^F~}itB>|@jge*$X!WaY$-"
        b"$oMifPn|V@GmeN5ADA|Euox9Y)RjNt79o);`g;$KtqN{)?ByKA<&>ML31n#VmKi%?h}~P@Gpv3rYH"
    ),
}
"""A frame of epoch_time [1.5, 2.5], loss [0.5, 0.25], n [3, 4] and score_time [0.125, 0.0625] as pandas 3.0.6 pickles
it; that of one array has all of them as floating-point numbers."""
STORAGES = _unpacked(
    b"c-"
    b"l>lu};G<5Qc3hX&`{a%Ep+fQ<qL<>JovdSiGPpq*iQX#ku4H0;y6)#53>!yc&;y#K5^}t9m%y{rCC*ZxEk}{rg(}UO#`|Urh&b`x8*z088a1"
    b"W2|W%y3*PFMYWxAHE;st1#PTBv?^Ei+7va251EjNZ;i@3^R7AwHV~#VBC*r1MTjyX1DZ^YFv&t0dJk7u5NBcE?=vT)zA95`1fI&+|3=pql>$"
    b"*xQ|e@CU4ajym_Q%}G4mOOTl2E%eb606thNbHrsyC}wa`0q4ktRwI1#5Kfkv$%IU;6orbmzSmA~uJ-?iKDy@^m$-;HlrP`TlUnJxYSM$J=t"
)
"""Two tensors in PyTorch's form before zip archives, with storages at 94 and 99."""
EXAMPLES = _unpacked(
    b"c-pgLfPkBq9G-L8a0zg+<|HPi<_NJ%v2ro9HZX!jGIJBtQ-#>MSh*Mzxfr;_xY){5Gt)Clgm{FwxHy2C?HL#v_RII&{2u}}Ek4k-"
    b"oifveM7V^wSj+Q^Qi_E*xnTOYKMbDB0=2`*HHalOr#MxyZN*Xmk4Gld"
)
"""Records of an ``Example``, a ``SequenceExample`` and a text."""
STRUCTURE = _unpacked(b"c-mXUti~n3idlw>hl?>$h`o!6MTkLy6U0k`@ff+78<>~@dOZaN")
"""``dataset_spec.pb`` of a dataset of dictionaries."""
SNAPSHOT = _unpacked(b"c-j+UHZ(VsI5728=jj<Um=&0`m^c{?QV!TL0sv%g2Uq")
"""``snapshot.metadata`` of a dataset that TensorFlow saved."""
