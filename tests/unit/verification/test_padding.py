"""NumPy's structured arrays: bytes between fields are whatever was in memory, those of fields are results."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from envbuild.verification.content import read
from envbuild.verification.content.nodes import Node
from envbuild.verification.content.padding import without_padding
from envbuild.verification.masking.masks import Masks

MASKS = Masks(1_795_247_763.0)
PACKED = {
    "protocol 2": (
        "c-oDUTW`}a7>1oR-AZ84onV~DX$z-9y8;CU<$QsqT=-(j-4v%8uGD6IGY3(LO1oLc{sq5af1*DOY^N0x>;gxMzkL3l_j_Y|-yVT@"
        "fkOz9X&l3flB_=%*0!VFG_Litp6rHc8V=p<G>&$YJ(*^abYT}|Zqg}MQKIAkPNc9-9PPPrq5~J@z*5Q_Gr^3Sd!g(mb<F0dFq}Gs"
        "%W&GG7PSv>W+K>;!-3-Ff|9D=+GybH(T_u%W2kzxWW>H>-Y*RI;vI>Fpsd2LVK0lZXwri)l~^)iU;PA@CC-m<!4nH&F0fU$+ro-g"
        "y~uEBs=A5GzVCnjrG|M?B5{RNlH;maoNzlWT+`fjhE>Ihe~BBMR&v}FOA}(Ng<G1q&2UE(^S){J4Qpl|Vm*g9!d*|SO^B?Hdz!e<"
        "@Sq_6?(xvLs)_Zft0o?4;xR-0WLFJNog5n(t*E`ON;EmG=6E8Or!Jd#sui9wv`o+GJ~i-M=U*_qJXv{@>$7{6<F)TohuS*V=5!^;"
        "n~bg&-QMyeQ4W~W(?|MejDNOg$H)3n@qXJPHYq;G$Iky2;+;^J={>^-iI3degz!t)P4J0YS?xEJ&gif"
    ),
    "protocol 4": (
        "c-n=Lu};G<5Qd%9p&bw^1u6!HZgi?dVPHTiQa3DR=+L!t(-c=q)5^6Gkw9W;ppv&9@57_;1bGFxxC}w6lpCzr{_g*OU*72F&?UBB"
        "p>3#=VF;!f>-jS2jDm#>J98bW8JChLU=Bwz3>NW9NgXKIg7GW~rW#Ln$QBq`L*E(0I}D)B9OkY;c*dKkWEtiymEm<4HXpm|ig8}R"
        "N8>1*DwKQTk;VXY$t7;-90Py?j3!RRk#T3Y#m+nMegEMH%Px#47&DTBIL+B<ffW~f$QqJoIXNtn4c|D=V4MU}>wB3K`syFC-?eRB"
        "Z%SNg3Yyh$F7<p@$G)b`Q0!~iw{}aEaIh&(fKle|4$gDw)}QpIe_tWR`tDV;EF<Kr=Mb0RXGTlzaq?s1@kc(3LAd5%74V2l{D<PW"
        "-zpQwYy;4pUnL&u;Q"
    ),
    "protocol 5": (
        "c-n=L&q~8U5XLuYs)be!2*qRdlvBX!!GlntHy0M{q1UpF8xu&{ux7=8f)}I0-W=b@NAU^r3OZR4A`~)*{rj8wzTJ81eq7na#3Ojx"
        "$)ymW_g5;-3V#u-rSNerWE_C*FG9IamnsZ}gm>_!7ah`!ugP{*RfK#_EMgN}R!+-3=&n)1`8qE$fmL;9elmu)*B6+9M?2bj0EWI2"
        "5#~tU@kF6NC*u;gPKy2@2Xr3oL_KZCXU)uWV2oXUW0--G9F~-n5bf4%*kGgK2C|3bUQN!M<bY}G9<)_JX><>3LLL7jHme>P)zcPL"
        "rvycN)S_;^b1}~~9-4Ur^VV@oCHomIGDaP0{~jFFrAL3I@mgC`{Jk0eE5G6K3iPnq_f#c$%%$Ymo~_$}C%o=@)Sr&p+K#$2Q2q~K"
        "km&a"
    ),
    "joblib": (
        "c-n=L%}T>S5XX~rYlEj2sa6E_SQQF>96Sg`yt$Brhk6W~HZ{?Fu}Rc`1w9xm?9K6gd=#G`uTUpjg$RYtVVRlz{by!ppULO8rbwHB"
        "APKi^5No%g<+)ZbNc|`?BX@Y`VYX$I;W_6lyXGv4Yz`l=_W~2>3O!D(p~vDFL|v*tG=dQ;S%gGAc35Ns)n3sL`3R*#y+D7IWSDpK"
        "KM&d3;P?pMr*CitU0M_B6Bu1VJbRoVf6u%WM<Eg87!p6^HYDW)&breQntNJRo`GQ)moqeZP$dD2DmgeCB|EOL&dvf-N3v6rgDTlJ"
        "g!+inXOPRj`z4Vc{v#H5J&;{bmUJaKq*SLWZI)3Jb(?aAs;({HdbFexE<48!P(rnNqEnXM{Vgq4ndgNMrth-|rebUU*Yd|q=D9b4"
        "ZwHBKWr-aFZKl@BOj=E;+IPQE6osOE^;Jbv&@IT4`?&W5EJ6C9"
    ),
    "npy": (
        "c-oun7wQ`j$;eQ~P_3SlTAW;@Zlw^dp`NI&qo8h+X`!yEqoARl1m>kdc_2<r7?2YSWTfR6l@ulB#pf5Lq=NLiCFT^T0>z6n5(`p+"
        "d<{b#pr%>{9Ds|N0U127e+LBsG#)0!"
    ),
}
"""Rows of {"left": int64, "value": float64, "part": {"x": uint8, "y": float32 at 4}, "more": int16 × 2}, 32 bytes each:
(3, 0.5, (7, 1.5), (1, 2)) and (4, 0.5, (7, 1.5), (1, 2)), as NumPy 2.4 and joblib 1.6 write them; what is between
fields is 0xEE. The last one, in NumPy's own format, is a row of an int64, a float64 and eight bytes behind them.
"""


def files() -> dict[str, bytes]:
    """Return the files."""
    return {name: zlib.decompress(base64.b85decode(text)) for name, text in PACKED.items()}


def padding(data: bytes) -> bytes:
    """Return a file with other bytes between its fields; a pickle of protocol 2 writes them as UTF-8."""
    mark = "\xee".encode() if b"\xee" not in data else b"\xee"
    return data.replace(mark, "\xdd".encode() if len(mark) > 1 else b"\xdd")


def digest(data: bytes) -> str:
    """Return the digest of what a file holds."""
    content = read(data, MASKS)
    assert content is not None
    return content.digest


@pytest.mark.parametrize("name", PACKED)
def test_bytes_between_fields_are_no_content(name: str) -> None:
    data = files()[name]
    assert padding(data) != data
    assert digest(padding(data)) == digest(data)


@pytest.mark.parametrize("name", PACKED)
def test_each_byte_of_a_field_counts(name: str) -> None:
    data, changed = files()[name], 0
    for old in (struct.pack("<q", 3), struct.pack("<d", 0.5), struct.pack("<f", 1.5), struct.pack("<hh", 1, 2)):
        for at in range(len(old)):
            new = bytes(byte ^ (number == at) for number, byte in enumerate(old))
            one, other = ((each.decode("latin1").encode() if name == "protocol 2" else each) for each in (old, new))
            if one in data:
                assert digest(data.replace(one, other, 1)) != digest(data)
                changed += 1
    assert changed >= (16 if name == "npy" else 24)


def test_types_in_types_are_looked_at_within_bounds() -> None:
    """A pickle of a kilobyte may describe a type of 5 to the power of 20 fields: it counts by its bytes or as it is."""
    plain = Node("object", [Node("global", ["numpy dtype"]), Node("tuple", ["f4", False, True])])
    plain.parts.append(Node("state", [Node("tuple", [3, "<", None, None, None, -1, -1, 0])]))
    kind = plain
    for _ in range(20):
        fields = Node("dict", [each for at in range(5) for each in (f"f{at}", Node("tuple", [kind, 0]))])
        names = Node("tuple", [f"f{at}" for at in range(5)])
        state = Node("state", [Node("tuple", [3, "|", None, names, fields, 8, 1, 0])])
        kind = Node("object", [Node("global", ["numpy dtype"]), Node("tuple", ["V8", False, True]), state])
    assert without_padding(b"12345678", kind, [100_000]) == b"12345678"
