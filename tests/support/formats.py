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
