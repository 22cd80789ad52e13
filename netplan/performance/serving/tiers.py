"""Where caches of prompts lie that came before: tiers of memory, what reads them, what that loads.

A share f of a prompt's P tokens has its keys and values stored already. Of these hits each tier has
a share h; what no tier has is computed anew, so that h f P tokens of a request are read, P less all
of them computed. With v bytes of a token in all layers and X requests a second

    read by a request that hits     f P v over the GPUs of its copy of attention, in all stages
    added to its first token        max(0, f P v / (GPUs x rate of one) - work of the rest of it)
    load of the tier                X h f P v of the whole cluster

The rest of the prompt is computed while its cache comes, layer by layer. GPUs of a copy read parts
of the cache and hand them round inside their HB domain, whose time is left out; so are writing to
tiers, and what they forget. The remote tier is behind the storage network, whose load is its own.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Literal, get_args

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Ints
from netplan.errors import InputError, piece
from netplan.units import GIGA

TierName = Literal["hbm", "host", "ssd", "remote"]
TIERS: tuple[TierName, ...] = get_args(TierName)
PARTS = 3
"""Numbers of a tier: GB, GB/s, hits."""
ROUNDING = 1e-9
"""By which shares may exceed their whole [1]."""


class KvTier(Struct, frozen=True):
    """A tier of stored caches, of one GPU.

    Parameters
    ----------
    name
        Where it lies.
    size_bytes
        That it has for caches [B].
    bytes_per_s
        That a GPU reads of it [B/s].
    hit
        Share of the hits that it has [1].
    """

    name: TierName
    size_bytes: float
    bytes_per_s: float
    hit: float

    def added_s(self, stored_bytes: Amount, gpus: Ints, work_s: Floats) -> Floats:
        """What a request that hits waits for its cache beside the rest of its prompt's work [s].

        Parameters
        ----------
        stored_bytes
            That it reads [B].
        gpus
            That read parts of it, shape (plans,) [1].
        work_s
            Of the rest of the prompt, shape (plans,) [s].

        Examples
        --------
        Eight GPUs read 8 GB at 2 GB/s each while 0.3 s of the prompt are computed.

        >>> KvTier("ssd", 1e12, 2e9, 1.0).added_s(8e9, np.array([8]), np.array([0.3]))
        array([0.2])
        """
        return np.asarray(np.maximum(stored_bytes / (gpus * self.bytes_per_s) - work_s, 0.0))

    def most_rate(self, stored_bytes: float, gpus: Ints) -> Floats:
        """Requests a second at which it gives all it can, infinite where nothing hits [1/s]."""
        read = self.hit * stored_bytes
        return np.asarray(gpus * self.bytes_per_s) / read if read else np.full(gpus.shape, np.inf)


def read_tiers(texts: Sequence[str]) -> tuple[KvTier, ...]:
    """Tiers as they are written.

    Parameters
    ----------
    texts
        Such as ``host=256:25:0.6``: GB and GB/s of a GPU, and the share of hits.

    Returns
    -------
    tuple of KvTier
        In the order of their distance.

    Raises
    ------
    InputError
        If one is no tier, stands twice, or hits are more than all.

    Examples
    --------
    >>> read_tiers(["host=256:25:0.6"])
    (KvTier(name='host', size_bytes=256000000000.0, bytes_per_s=25000000000.0, hit=0.6),)
    """
    tiers: dict[str, KvTier] = {}
    for text in texts:
        tier = _tier(text)
        if tier.name in tiers:
            raise InputError(f"--kv-tier {tier.name} is given twice: give each tier once")
        tiers[tier.name] = tier
    whole = sum(tier.hit for tier in tiers.values())
    if whole > 1 + ROUNDING:
        raise InputError(f"--kv-tier: hits sum to {whole:g}: give shares of at most 1 together")
    return tuple(tiers[name] for name in TIERS if name in tiers)


def _tier(text: str) -> KvTier:
    """One tier."""
    name, _, rest = text.partition("=")
    numbers = []
    for part in rest.split(":"):
        try:
            numbers.append(float(part))
        except ValueError:
            numbers.append(float("nan"))
    if name not in TIERS or len(numbers) != PARTS or not all(map(isfinite, numbers)):
        raise InputError(
            f"--kv-tier {piece(text)}: write a tier of {', '.join(TIERS)} with GB, GB/s and hits"
            " of a GPU, as host=256:25:0.6"
        )
    size, rate, hit = numbers
    if size <= 0 or rate <= 0:
        raise InputError(f"--kv-tier {piece(text)}: give GB and GB/s above 0")
    if not 0 <= hit <= 1:
        raise InputError(f"--kv-tier {piece(text)}: give hits as a share, from 0 to 1")
    (tier,) = (known for known in TIERS if known == name)
    return KvTier(tier, size * GIGA, rate * GIGA, hit)
