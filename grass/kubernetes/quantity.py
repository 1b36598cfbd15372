"""Amounts as Kubernetes writes them: ``500m``, ``2Gi``, ``1e3``. Pure.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/. Used by this package and ``node``.
"""

from __future__ import annotations

import re
from fractions import Fraction

from grass.errors import InputError

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkKMGTPE]i?)?)$")
_FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


def amount(text: str) -> Fraction:
    """Return the amount. Raises InputError."""
    match = _QUANTITY.match(text.strip())
    if match is None or (match[3] and match[3] not in _FACTORS):
        raise InputError(f"{text!r} is not an amount as Kubernetes writes it, such as 500m or 2Gi")
    number, exponent, suffix = match.groups()
    factor = Fraction(10) ** int(exponent) if exponent else _FACTORS[suffix] if suffix else Fraction(1)
    return Fraction(number) * factor


def thousandths(text: str) -> int:
    """Return an amount of cores, or of devices, in thousandths, rounded down."""
    return int(amount(text) * 1000)


def whole(text: str) -> int:
    """Return an amount in bytes or pieces, rounded down."""
    return int(amount(text))
