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
FEATHER_PACKED = (
    _unpacked(
        b"c-rk&%}*0i5TCc*-7Z*Rp*2}zBc*yE8gSdlM>)7{;(-H3f*RmN3)F-JQK5<?9vV+Z4<vdKPBro1O*Apl#6%957%mdxfty@R3<pyZ4<;tyyxm#YeYW"
        b"ri=xgWAn>W9i_h#PP+06_LTpCOO>|!${03CR%g%GHqfQBP%Oa>X*bHs42BCRlhB2qt66e){y5#aU)TB#634?4~`{+Pmb-AFMc8JwmdP3A`PlgKsva"
        b"g9d$K3t0%a(sDbclZ4cm)TJR<tSk!ZV%3$aSL#Z>(K7IgAMUD4Z<=3cL8y_y#|wX4-SY=6!O>k_zUeLja}M<k9zRj=S@3?5K_>N!L=zkHUZJ*2-3B"
        b"Q!pKa1?8emi3{2TL$<8s)mxvD{%@lIeh5R_k;GD;rgRK>@{LIFt^Et$h<O%?*<eQ&|dp0~9bT$Doejd+V#Br=@&q((DcuQx@TL>+j8xpd;fh5~LdS"
        b"SnL&s4W<qR8bvn<3hFgw7K7^6$hKfa>ie@mAtZ9vu_>Ir}Bw@ry<_eILbQMX2P*p;)|q$D?<jld5?L$aYK*B=6e(xO>@t+**aW8xM#(L%dg*cjZ3f"
        b"Pl+4Emx!l`mx+%NA7Xxgu6)(CXMTU51iULJ#Y76SNunv}UHL4@SwZj0t)96WA%Ady%ns2@hv?m=9->eC@6Tx*HsIndn^q9-Y*~Xiq;&{u8iaMEhz2"
        b"EtY@+GvemZdYDjgsFu##0_t!7q(M0WcT_T`Nd_QmBl*y}G=u`kVk)u3q3{<N_m#83Ws_5RJ}Q~vol4xhNsQ%Z)iGK_<1q{m3Fk=Fh3uKVrz^(!k$G"
        b"uhdeNVFvrSIq7n)9f)5XH+<0Ho<(dJ=tMmi-BUDYwwCdZF6S|l;*Bs2(@&#4?+DLsFBnh^m8+_T0YM6SIOc6gL3$tHL`sS|DUa24`1Sc!+KV?RjS+"
        b"Cv_1~r!~Zv{4l*cPDlC<LSc?n1ZClmzGFxH2<2Z~nL^n$O90MB264b{)>le;n$R|(ZWh#$hEDd2rhN9}ZN2VWd{IyO!PI(rI`SA@vTBbmqhC}A5Q?"
        b"OTeBX%|CZ{!eFnm&4#+;^i%#WqF{g13HgeJjb!73$Cb?}C5#yMWi_jQtJy2bhN|MF"
    ),
    _unpacked(
        b"c-rk&K~ED=5T3W)whJy&Xk*sUNG&}O4Ru=t3YRU32S}<kXd*XSp(ZAPN~>~gJbBg&7n72B@Q5A=F(z^##&|Nug9#qEm|#pyjfpWa0cUn+VRvoe2k3"
        b")&^XAPr^LA$5PIq*2a^h+VU=N2T0fc}?E2t0vKPb4uA!Lw|JwXid0Me!as3PT&qDTeYivZbcXcd4UdI;f;<xluYmqCgl$zTmX(p>RcX%4x9f22`Zp"
        b"To1rknr{0y}g&aB#Sl;<tSq$vIpy#@e$xQ>CkS+!m4zp##rIOT|ivOJVQt!2M(CusFdbu{ehn&i&NHtk2>(=^OhNdiWD?sux%=qjn8Xy4C(rf%5=F"
        b"jb8}&~3=1YsGILD%^5TO?<w|j}Qkn%Bta`k&u&rJ!)of<5R7C7_u>$axeN#Q`+E6yQHa>6s6weak2pceWB=df(bB$@JXkpzD)$|6EZ2B03gW;@c$h"
        b"3(fm-lU^__-roOW4o96`v29j~?c|%uhOW!sE|+UiKZos1>sJQLHwEN^TsA)jM|`diy<Tng^e3##EJ@XS?Gb69;iC4dU)RB<@k>W1f9m&M{wRt}$O_"
        b"KFqw%yu^G;xc%AkC6=EGx4#V!-j>rW|MKW<S-0!vDUdCnv(NYFZMoO6*W$?^93qP&^wJS}djyWqXWjSb3@$tH@YCBy5btbVfjDGC5LOfjhmax))HJ"
        b"q<W}EvNz~!?yx$>*cLI9@DKTsgG)AbnVCEs(Lm9MXHUVguYbMFg0rMkZ2-yke_;%9%<y?>LOaPP-)`3SgAXJx4Ssj<_mQllaxZM);$cH7f+sjF!{J"
        b"=m8@^`%o+^vsB^kLc-SDm|d<`q?%(rN>~RKiNMNgBD{TnTbJb_fP@U?hH=GaB{E)Es2y~g*+MRjq@?Yd0qKvB*q`&Kjn8d@!43|TASZm`(m7cd}92"
        b"Y@u?kp=D%xD`(ar2KaHmOxYyvEE?mY1qB|w3pHBf<g7z3Fc~9Lvd8Br9ncHF*TSC|`Lp9*IKe`*Q{dG<|ZaEH#x$zyqTH%M|3ND4CKf!*#jhJ1Weu"
        b"-7?FgbpQ?B7J4n{13<0B7G4j`wn-LEriRJ@D^-4-_!jqvp5cAH>)qK>"
    ),
)
"""Texts, moments, durations, a table in a column and a dictionary as Feather in LZ4, with two runs' times."""
ARROW_STREAM = _unpacked(
    b"c-nnXF>b;@5FFcwLC6IXD59W9nFi@>A%tl7LWJlOi|_&Bf=BR-{3A`OR4G&P1WLNg+<IjWOJt<I@vg^n<8{utUjPGm^pPP&2R%L!kzo&ZJ)TBSAYm"
    b"O?Gwna<L2<`>OmybaWxZGBzS_NUW@P?TYx`}jzi+$WmDIkJ74R*(n7Ky0H>Fo5DeIh3;&~i=A4#TEw5d#DIceiA<dNz!Jm?>0;)ukE&oj^@8S{<N9"
    b"UOHxF|O$1J_aqmH-8LrdptGyYAlq8fk)EHfq(kwW_nuHd|u(S{``97hLl6yFu1R<#eACQ(<0y4#nRfP&6|CC{sY{AG6n"
)
"""{"x": [0.5, 1], "created_at": [2026-11-21 08:00, the same], "started": ["2026-11-21T08:00:01", None]} as a stream."""
NOTES_OF_LENGTHS = {
    "parquet": (
        _unpacked(
            b"c-mD`T~ER=6fKo3NPO+mCVk+AB_=Qd(L{qWx8Mj-6i7sQG6NP=K;{OH_?!GeKKfH^yE)=bn)`8X&$%~k4+d3&2q(NmunY`haD)(6Cxf*8T#_s+og"
            b"iw2lV@+~5{yW`h-qevOw2gr7UCq&iUwk`Mr6?xrm%7yF8Pq`ZX6oS(v%XwR?ZZNHR!&#aQ)DmK7}+}v1^h)JNCjg-K*F#K7hgC?%_OEq+j?*+1U)"
            b"F^&z%vfI5g7H~=$fY6yh*heyg^rFgra<e*9bElBfvPx5bfxxU(h&22x<N6X>oH0JFnP-w43@3k<bqeVBbood`VSIA=AcA`mbIDb6urmapAIhtn#B"
            b"7$xr{x`pXc%IRYAJWj1+bDgxe><r+6Mund!FPlAjkhjOe821l!73_zctQBGdMngU?TTGxT)pzQeBqw_0KZ1wc;^"
        ),
        _unpacked(
            b"c-mD`+fKqj5M3&15PjXIoAiMfnwS6r78HXqv)olK<v{{3rk18iKxzwue3SpApW^NoP$${U%sIPfW_Gs+{TxPE!&(YUEReCRA%rBpB1qWxEsl~@0j"
            b"Y9ePn@}hC4}QiNsVlfA`y*fI?`~QBxOVxh8d_(h3c`E#`F-|T|SeEE+iQt=`n>OQdW<hndJq}_$g3NvYA}|!YC9kuS!UbK0CouJ<4WS$y4a}yMyb"
            b"nu=**Tb1S*P%!JVH0Surn)B#+m2ns0u$FI4s9r%X3%Yj1xRXF5EkLhoIb8)l^tBx7w!};TO9O||>Nre}BLs3{zfjIdvt$nn&X09`}jjjoI92^Zc6"
            b"T8`&jq0T>?5Ch+7%^XA-2vEPOLX4^XWL>^1OAS_3!5&Vzr|ai?hbe12B`_p^50g@GHrWa+VcIyI`QuK!OP+`kuPT0r4x-m_7{8T9{UGB;}m=I"
        ),
    ),
    "feather": (
        _unpacked(
            b"c-qxcF$%&!5S&Y5Ji{SZi1-96Q6Zfmd4Z6|Qk0~#5MtpIEPbA3N`Ild>zat@101-`WV1Uvn<UHg)p`cp30D9fj0Ane=)e*qn5fA+ijn3E;XpuVs="
            b"Ov0uRP@ZBo)3Zt0OB|Qs90|e4ura)Xh_V-lJ3Qw}+}MHWiQ7I#1D(r>;2g>c@n99jOMi{zP?L8%rjT$orjDi{UWT4V@?=j6}!cg@o>1v+F|NjX{e"
            b"5zhU3F`RHp=FWDDV+mX9i9Qmgwn$B~_x*u!YwDa<14*vNYQ8JT%@d3XNFUJ"
        ),
        _unpacked(
            b"c-qxcI|>3Z5Pkb`jcbq;A|Ak6{JVl6o<Oj%6vYJ#3t=rhf~Ci^wDcA_Gmalb58#7@mtp43n<V4ubTVrKSHcN^10zNW5ppoZ2wwP%TiQd7uZ06Xt%"
            b"mY5={V&9$Ln3;%QV}uf*}R2H^i%&SCqVFtKI4L`pEzVI;We(HcMCYjN8*Hi?=e>MaYW_r=GmPy=g)7_ms!Ekwko%@1Qyii;7NYMGZkH8U_!<bhgh"
            b"~hk7?2Uhwf7=8bzFbuXMp><g-G$z3Fl+}#s(PiU{{Y^-t7%Hx+l|NK529Lrz40c?pf$p"
        ),
    ),
}
"""{"x": [0.5]} with the notes {"elapsed_s": "0.25", "best": "0.5"}, and {"elapsed_s": "0.123456789", …}."""
ARROW_DICTIONARY = _unpacked(
    b"c-nIe3i1y(WMKFY1Tz>I7z7wVfQx~LfsKKcfdj|_0!9`F79h0+s0Ktc0<j2Ktprd78v{E~wE$2AqL+~sB<BIdDnQJ_00EppT#}iaT3nKtTL5Hp03"
    b"k>gMDl?7JV4A2=7S7T0L!w#^@H5E0%|V<SdR$Qg*;&W3`{IwISZ&f#N`n4VSbVTs$_x6_&~*(7!ZJ&0XN`*(gILg4M~m>%^VmIMp9>FU}UCiXsBy"
    b"s7-C>yWnf@sV2CMX1o3AFia*6r{mIM%^asKn=>D>S$|3uOi3oqe{DCbD7?Ic@_rbye5(gaM*oT<I0*-eLXuN~;O@L~ifEIo*b5}sw8=y2S{st<o-"
    b"2h@oaGn4F>UlRm"
)
"""{"timestamp": [2026-11-21T08:00:01, …:02, …:01]}, texts in a dictionary, as PyArrow writes it."""
ARROW_VIEWS = _unpacked(
    b"c-qZVu}T9$5Pg?D<%oxzCWVECrA=V>3JGbFe1Q;zlp!Sf0ZCzL;RpEv7Jh-XrInS1Scxd-o7oA3BSFN*S#D=;X5O2<nZ4m?bUqG13gE4(sy4(<xH"
    b"qwfjC+cA`g3|RE{Qg{cM&mnj2%-K8V8aisC?3&GNVa*cDa}?7xT$<3B1tn={w;gsfiQpAu|gcC_}FJ59T$n%N0*^6=^|t^=P$)OM{enZbx)W`EtH"
    b"JGwuv`!{^lUfPL0ZnNz4oD2zsB2iwIy4+GOH+_h<M`rdSF4J&<fH9lA4iSpEs`n6vx_oIB_ZzAU{eR;MmE)(+Ip7%XpZi)-G6GEp97nT-&RbS?dw"
    b"fPS0uC>jVbG8MojF$B5cGWR#Y~(+=yARxl`lo#Z8h~IG"
)
"""{"x": [0.5, 1, 2], "created_at": ["2026-11-21T08:00:01", None, "08:00:02"]}, as Polars writes it."""
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
PARQUET_TEXTS = _unpacked(
    b"c-oax%}T>S5T4zHu!IU}%7iTBkV}^cNy!Eqq!dKF_E5xQK|&1ZK^xQf^AJ8#j~;vsAH|8(A2gRPv->UI%+5D6?DF(nqlpeW3*-nc?AH4U0=nqND9CA"
    b"{75L)I^K<hc>S2dN0!~{nCV;Z9aJ3-lvX6+)(kxH3PBMLw9?#Nrmg;^w`&&cKqft+o-$Ux}DvSeWa5Uw73cj@|udCYvO+b6hefA7EAhgS-D%$GmvS`"
    b"P!2<VX~WFTV&0orm3mLn+^iS@ROOdTn)-#}#C4FEaN;SkIZEvcZ3=rjg9jbC+qioI|$wdLxS?c4i5L9dY{$*r!rH^UQ35I_{xMRWg9wMkjmNzpXxr|"
    b"_|AHaF|LFv}<DM9Y}w(T(Jc0W9ged;mbvQ+5"
)
"""As PyArrow writes {"x": [0.5, …], "created_at": ["2026-11-21T08:00:01", None, "…02", "…01"]}, uncompressed."""
PARQUET_PACKED = {
    "Snappy": (
        _unpacked(
            b"c-p0s!AiqG5Qb-CTVp6C7H8Qlq4Z*?(3EUy(<p*???FU7h@hbc^q{S2tsZ?0&pv@?4<0;v@)3Fz58@*@8x%!*5r<9YBeT2z%uhBqwiM>j#)U2#2xS1"
            b"%fh;ELSU?M{JroG^*t8AGjxayVU&Nt4<?H-BCBc{gI{B2xE2FEgB8g|?phC644?<5VFHqZlwCek`ntq<`Q~}gn6_kd6AkfevXlYm`Sk}-cXln=wLJb"
            b"{)j)sUJBJfJELTRZ4YPZ3hpy^X6MS}?xKL!h-UisZolpXOSQJLCp79WG=@^-L2zP<yRSFW`|6o$Q{<Rr!%ptWcSb_rOdZ1vJ49wmqS@n{jc+HEeRBO"
            b"5L_XvsDdY)O03;DX;X{=nSGHUDP2Z0M2D0D9S!)|Lv=1wm!4QT)*O)<-6GJIg0C?#qn($o^->FM0l!lb;>%SCb3Z<TrV!*9LKVcAkv9-eBOxY1+T2j"
            b"gxeE+&`@aVbgCa*&utgLt6}BlYZ5A&Om7E"
        ),
        _unpacked(
            b"c-p0s&q~8U5XNU?TVp7ainHvNAiWqWG-Ws1G>RbJdk`reM9@$JdeGKb{~Ub`&pv@?4<0;v@)3Fz58@*@TUr$BMI6}7kDc9}`989>xvepWF3z{mLYM="
            b"vJs8Gd0}JS&vxfqKmP^NA&J*^y{6!q9zwDMulmue}=;livZ>*Miidwu{2W6^-DvScHgHX3syr%S;QgxMQI|~4MW&yN;kRUX$Ot5TVg<!=%gP>s`B8U"
            b"t$37Q6Cf|wwfg;h#Rv!Hit%nR#^LTeHxQ2Y=ULA5+NQ9Qh&Vp0Be+F^`@=JIaXzPx<^(ks^+APVQ5qx2-f9H6sk33d%wr0jIEH0h^@`$>NhTE=ZIq$"
            b"g`Wc<9Im6kJJX(c*$XGXBK;*th>?yQ~>WXaRj(O6yAn>4TuM=}{c@_%_F|+5I#hO!;q9{xkcZ858aKM^26>;O{mUzRmCQP_6Wm?Cc`#2c2FoNV2SZR"
            b"k=*F^W*MmC5-B-u4RqvF%E4rfGzq}KLONQXz&"
        ),
    ),
    "Zstandard, by Polars": (
        _unpacked(
            b"c-pm8%}*0S6rb&uwvrx7!c1nHnrvd)ln7;Z=*PA}VL(75!cs{PVj>IM6%wS{mI9tc6Am7TC*zTeiGP4zxJY6&9z1v;o;+~y%*mrBzS*`&BAOWE%jV7"
            b"d{JnW^->xN!21fXUf(zZ4f)v1kSQaHi$fLsndMp7;zUuw1yU!7_e4tT9T2=J=A$oF8IfvV|I0|S~*}!2!$*zy=D2Y)2@4&Dhe{92_m2p|N0X@Hj;wo"
            b"~~DCnH=Y>#2|aATU81;*e>F~i`zuP>d>WU|>@&NNxxFc?oUAj2SNu;XSpsk~9%?(2hRDYbmt>f<f(08)4T;b5ow2(8T@?jF>)WXn3{vg1gr<LIvyO%"
            b"IuwG<xc7JZeoPvV~A%DE_txpRPaKgBHVD1_dG-ZC|XE>{`jWW!Jpfya<waYT`&ud{zFbwASI%e$MoSh>=E`?mqyW>TFeRLc~Z2?<gQi@koVDkuvsa{"
            b"g?ffa=C{62)D<5@YbPSI8U@1N8>SwB~*)P-HE44>@PQj?1wNR-vam|O1uol{`)k^rx2!OFNn7lMBbkvG!Y^P{!ZCB4U1xNa;8vSTq@nM=@+F}Quc}f"
            b"8j;MbgT67<)IHNxA*y27JEz2X3;gTr(hf<tn{i%#TCyR@#_vOrxp)lPh#MLeO|m@yh{PL~uCa;DxtUQmH&b+HZ$Rxy&)+HnnT>q0?%`dRd2kk+xYrt"
            b">m$I@IFpUW@EAQc5r6j}!L?^8Bie0Jd$-A4irSfW*UN2Ru%jH#_r;HTSlM8FhD~_IX^NcSzeXi^9oa>t0G15F|+AMGLe8zRTo3l$!o_A^8un%%22H;"
            b"Dv;Lq~|(be!t"
        ),
        _unpacked(
            b"c-pm8%}*0S6rbsqwvrx7!c1mKO*S!YN`x{q^kdtgFd(22VW}h)Vj>IM6%wS{mI9tc6Am7TC*zTeiGP4zxJY6&9z1v;o;+~y%*mrB&TLyG5lxKo9p1d"
            b"p-<#j-Y%Nh>2%rxT<$Dm3RsaQ}8ITA8PYwsku_aaFRo{2ReGY)-lOBO8s)5%J!IOLN9BS8NAfOYtfx?*JT_4_o@zB8Uz>pt(Y(t;ngc{p`o?ikn4LD"
            b"kt^f~33UdDPko1tc&vOJ|p${6SU{i#$soylagrb%;*QJ$ny7{g$w<7PMk-@v!~#?V<pEZ?^FcuPExt-Jnkuv2>k*5(g)59(WrvVpi_9BDD``gNk|Ay"
            b"bodoq8KjT3d;10nk{Azb(RN>d*Eh#ju_Rfrw7p7b_*ZR&s9HHE%aBg7}>lKhok~;XjSmJAC@jot`ie&~Y>U2Y^$Pt;tP@C=Q_=C@p0kY4W8g8~OBs%"
            b"l=BaTtj|<+G9TXt4q4_JV7-ECZe(y6FsW;#Gk_GU%n8$A3_*^3!sZ2{xTT-@7u(mLWtnKAlilizdwUXJcJMYor*aLi$Y<ln6EA_mG0Q&3+z*pxgw;D"
            b"DrMHCzcJnPz0g%5s$#@Dr^R_o=GWI%TsGZq)_MIYrG}N7xG#&$#beM$-SC)bisj`;72b$SjZbdQ702jYvEa_$kh7<}d~1m8Z1jtD5AV9_lV_ocd#wR"
            b"_DWj;!(6|t@>K@)zN<v%!WYQ|H*p;f0xVu?fDzA1M^-`s}TwXPJk|n8;SXf(Lag3~+qkO^XcU^~PUDxCeOYy8})11w7Y1id$)-E|Y-mUk@_n@A{p!`"
            b"xS`OotM>LTz`"
        ),
    ),
    "gzip, without a dictionary": (
        _unpacked(
            b"c-jka3^EjD5Iw^v>YyVk0c5d>vdKtrFo3}Wdjw02K?94ZpdgTv?}qT1n3Izd5+)?1Ff_A&+p>sJ{?y8iX+UwHsdrdKPcb4aFk{e=GBPkS(={~IH8Kn"
            b"_u&^>PurjdFGXMb#2`q935IF-h3u`Z&=4~+GX?}P}q(ipr(HGGf&41Gu9tvMQaq8*v-`}TP+Bo;~?#lBHWqZW>Z{A7$pUEm3HTP8%_tuQHS5|EeoPE"
            b"vjZ4`TH25**5_MO#I8$x*>Fn_t)u9?RObTx~ljVXf!TXAwmYHp$^3xg<^Dw70b1%oILkmgD*N=+<DO^Ht|QDyLv0XjxZLQ+OjM~y*7luJ^TjX@HqRF"
            b"p+bLhKBa*a1d04jYmJRZ>P26l_ckHkxdbY77!UagfP85R;KC2V3!vP3#Sm+6hJ*ioz9Pr`QJ;Ntm@_r#QtV)HuY}urO#S6eJcEmZp~ICKnXwCKeUtm"
            b"n)Q|78Pga=P4MO=^5x5O6mYZ0u&gwzyJ&YCM^K@!H5t"
        ),
        _unpacked(
            b"c-jka3^EjD5Iw^v>YyVk0c5d>vdKtrFo3}Wdjw02K?94ZpdgTv?}qT1n3Izd5+)?1Ff_A&+p>sJ{?y8iX+UwHsdrdKPcb4aFk{e=GBPkS(={~IH8Kn"
            b"_u&^>Pv@)>JGXMb#2`q935IF-h3u`az=4~(#XnuG=q(ipp-1O@cEpOC|3FNKaQSiC+|GXfpZJ(>n-%Fn8JDw!9>}Kl!Elpf&{YuxiMr{epx_WDcZ}#"
            b"%Cwar#r*i5IHz6<5Ov5M^j)3>_Uck>v5u4a+6F=dcoD^AWx%}o?#VG!j~Ws+d5U=Za2(p<?!sfi`2De;LVsti6dK*xwlNXkg+s4>Wha!IPPF-QWHin"
            b"54Fh@D{)JHV*MVM9`&O3H|Wf{ls6Mw3lajX?q^4l<bsVltBDU@QKyiM?S`JHco}QMe-P6#Kv;3A0x06sMSk8i&{#76uK4g2bZ2($o^&<bnd-#G<17a"
            b")q+gqT<Z_JOv{&Jp(;MNgZHFfC9r77=Qu5qy+#mtcMu"
        ),
    ),
    "two and three different texts": (
        _unpacked(
            b"c-oavv1-FG5Iw8r2qi<}aK-`+ULrEsK@!B2(4~8Z5Hbdea0Ttq##P*Q?FaPl`a?Z$8N3wkad7u|@7?Vm4wh0n(P_sGGJpjDIOCey+S=Kpx!W4E"
            b"HFkXL2q>ehBBU7uRRgQV2(1_y+WDL{1p|}hCZ$wX8z}J7K8IIN0%*Dv#cdmd@59rh@0YMsOwLg%sWd2>$_?O5UUP`o`H$ez--(|5H;$}^Ck)=e"
            b"_XxPpqeQ6z2Va&&J>dqcvh(r%BlLCKb+wQ2{8fI2czHR$m9ANvwUug!`pek!gZ}_Qk3JI"
        ),
        _unpacked(
            b"c-oav!AiqG5Pez8Qly90c0v~Rkb_-%NXl-cL5dgeJrwaSOI*-{Hg2Q-gP-FU_z(V2CpQnd2=f?t^LTG&_P2MAM)Z|%?MM<XfH{E5R(0uIS-E?A"
            b"y|s30-7sAZ(^mvq(4t_=DMRWStNDN|8z9|m#-4&96LEG48mVG~Odgx3@Zw2;CQFf>H!=7wJU;ktiJfM3DwS5+K+{BRAgAiDhIpL*2rl!TnDKx2"
            b"Q3ZbqeKz<YftxfcsSISF%eK;txnY&JKEAz&u58-2^f4Yj^N$dZ&xhB%s@Hbyl<rskW$gL&ClMY)iv"
        ),
    ),
}
"""Twelve texts such as 2026-11-21T08:00:03.000003, and the same a minute later; three, of which two are the same, or
none."""
FRAMES_OF_DATES = {
    "dates": _unpacked(
        b"c-oy*&2G~`5O#u-lKw-b(nAFmr*O%+2PE1i0@0|JTCP;f+F56<*p9WkR_jBd9GbS$-a0%8S56#w5FP<;++cR?&>wDWl%2IbGduImH*@NK`r<"
        b"lv>1IaL0hORzJ*wzSK@$d7@a!X;KwG;c84A#kOPx+I7OWGciiwoQvXju14w*pP`JH$ijP}ZBG}o(@1&JeHUYmekB6*rc!6;_LH#Sx|&6BL?5"
        b"bHk4V--;$Xn}5tV8J+*O5}kunhmQ7dIp_al`H5wXV9(ra1IC1?$`SDetiObNjC<n$V@7_9&W<rMfv@nu003O^LBsZvRmI#;9qt(N;tm1DCLh"
        b"zo^F*g+X7V6_x(J=@KQ{qA>$}uHUPY{X59DdX6JKy<yQ7KQnXknBrA@u^Y?n&=F1KZMr>dLU8u~a1`AjbrlN#xSGn#!Y5sIQd&!!v?_H<m^7"
        b"T7OdF^gJmw<raPr<~5&lmXv0~cSp4c7noLd3R~_CJ4n*L1#Kjjg=<Y}8IbH%UMP&X7;q&C^I>LC~3$=NQmajKIAK-UJSjc5Ao!Hekn0c6=%s"
        b"=vk7oBl6n3LqNEr8`HDp>i{|YFObU!;P~i`5>YywVp%b~MKVe%y3J(;HHsZ98|XzOpHvtDnNqFI-|9ufDiV$bp>c$5gJqkKsTeXMt$R2#xwu"
        b"FQ2Q%@|qLmfI&%@9*2H(&vzff%IvfFm5RjcH3B_CFDwUXAc`SXzT?&>kdDM`izk)}m3?~KvWUnO=3p0X#zzw89WYOaK!H|>m>Dq(o_;a7Rf#"
        b"9Yujf!x<_YDR&V+gJN&J$pdYA-e%LfA3)%C@K^-fp!tB49jQ^3=cJH$;^gx1h2#qW6BfS5re=dOi^2}L+mE16b=$gmoTP7dwfLW*kn1#Gwe0"
        b"&1rk%A;S{-$x!?H%2g=f|"
    ),
    "dates with a zone": _unpacked(
        b"c-p;GPixdb6i>F<ZMXk+wNQH~T0Ct*f*^_q(Y9L@8yc{B63RG9W_QBoAIXF^g<^|z+rr#BUi=n*0}p->KZ4%8>6=MnTfLi*yh-N0H}CiR&6^"
        b"|RqubQf#ajuEJe&#M-oy+)PjN`Zg;+fnhoZ*~6b@6tZ<ju%8>htdBSz8)2bme-2oFgLv9lXN?2fj}ZwTj$RRjurC%X(0yo2&6@!e5CkRxN1b"
        b"CickVIq}2%me1*G{ps^MJaLPC}U~vGU?e=o`O$8a^-R%EbT<}bw`|v9nrINt6??9f_8Y*V?`pN@W$Y=I6o`rC%FDZ*tWg(3oiAtG$x$${z^&"
        b"5w`ZmOUfH9y(k5#H-1wA}`%qp4K$=<LyF?WLYw9w+)sSyG!xyfhSCvA<GD1nQe~I7TT$eK&*c}m17CKjj)d6#$2w{Fm)+?-AcUnITTP>pTPC"
        b"fhP?PdkFRxOWw2Do#`(O?IHPkEIq45c}UBk4{b@wWW*NWgH31a6uB1fJZX^Yn(KmoC)g>WbVY-q^mR)S%0M5o-7Pa&6_WGcgv5;qF@J)#tD8"
        b"TH2S3SXuddEF5|l_?x)SAYG;Ru7JH?0;3NUCi;**{g1^>SjN@jPQ@-zymY-IJhD$R)4>@qJdGl<hhEBml4FfG>#@=Xq`?15-35u`z1J-DqhY"
        b"OfrDhu?7*!21lN4Awny|41pNICy7*v4jX6Vs9J})-|8pJ8Wfe(!h8*4Ve>5!mIrB~ttCXgDC*bvc93gqO2fofg4!rM;4NS(6Z)2d6aY`3yEE"
        b"4x@(l~_LXn11Ll?n9j!N=S+_*~EZ5A$au1iR=oSsS$6XvR8qtnUaEfL-WZBuz2zQXSvF_jBv3_3GkCU+=%3vW#@8+29RWW2S-D4g?0MLhJIx"
        b"@Ww6J&0h}eErW_C$=qi$^#0G+u;VhIY4b)i({D*{LCEG5vJ!T9}yhB;TAizU4yoG~6g7xwQ4h85n6kvzIad(#Gj`<tcD-j+"
    ),
    "dates of joblib": _unpacked(
        b"c-oy*%Wl&^6m^1|HhrWoXp4%d03n5q*DR1|n+QasT56GC0o5>e#u*d8<Qc2YqEHs3L7H8sAHpB7;6wNX*s&{j#x`xrj)~%X$G*>VA1CJdtBR"
        b"qIs3kb+VkSksjX8dn;*iKQ`RJ28mQ7)zu$M}4H<z*8I3<=Jags(jU{;7D+#@OI&Ta>>+uzOape|Ml4HWneyHt^49%WJDyZwM5N9icx<@d1za"
        b"#oau$pGbFrC7Apbt_Hr;B|_VL>n&Rnqryb2AF}t39Ti?B=}RZ%HRZ}I3coA?No<wi_<PBi%JXlE+4=bx>Rx?UG*NzFQZerFPohkqVh!Aw!L!"
        b"!M?X3SmyVdmK@cCJFvN)*iS;~E?GNF=??oYrIC2J@FxgqioW{l2$)W!7G^alcda{|*Wb=Hrtj3g+`2qJMl^6?rR|VKHAd!lSuTxb|IwO|H;M"
        b"H+}#vO!`!O<nac3Y#jjom)!s!Zn!wNhaYN=~>RlC1){osHTr)7DPbMRoTQ7n5#WL&a{ksu^TkQ9mw+5@4c@ygqc1-lVs3_~|NLqqqOh+`SRK"
        b"ui%^?hx1}{e(&q|cQxbNS*+>x`}vz{j_0uyHRNKK5(rC}S>$u5H~3-f6zo5Q5Y4O54&?!K*V=fycgYc9mV+5I<ur=OA$p<S0bJA&6D6<5r3)"
        b"kUFU$)7Z+!TYr+(BckuDm!juM>rkrXq@04qTYiYi3|rG#;a0F`asq;Ew-H7)YuRJ9#UEfjS&z-f;lrp?RGDi;%4#(+$0(5OSBI+^F`@u3eyU"
        b"3F<`veh(-Q#7ElP|&4<t`t-oR)6YI+FCh+I2nSOM2xsGWXltR`+tSVfwZ~i0RLj-3^9{K&@KmWvPf7y|M)xiGE@%Q$1-z-8L3TVXZqD1Xix9"
        b"ss7J2AO+VN$Bpjz4MnsqZRsv;I3<0L1HHmt_8UvTG;Z%7%z2N}(kZ`Q)bpW%5Ifp%_+r<lTPqV9f<{9c{2}~kP3JS18V2O=j`&fSfJtPnO"
    ),
}
"""Frames of {"x": [0.5, 1], "rows_per_second": [512, 256], "at" and "peak": [2026-11-21 07:56:05, 07:56:07]},
as pandas 3 pickles them."""
