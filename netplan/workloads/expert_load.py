"""How unevenly tokens choose experts, where these lie, and what the busiest GPU has of it.

Of all rows of a layer expert i gets the share s_i, the largest first:

========  ==========================================================================================
gini      s_i = L(i/E) - L((i-1)/E) in falling order, by the Lorenz curve L(x) = x^((1+G)/(1-G)),
          whose Gini coefficient is G
power     s_i = i^-a, normalised
file      columns expert and share, in the order of the experts' numbers
========  ==========================================================================================

Experts lie on p GPUs, as many on each: ``shuffled`` deals a permutation of them (by
numpy's default_rng(0)) out in blocks that follow each other; ``eplb`` gives r redundant copies, one
after the other, to the expert with the most load a copy, then packs all copies, the largest first,
onto the GPU with the least load that has a free slot. Ties go to the lower expert and the lower
GPU. With loads l_g of all rows,

    imbalance  i = p max(l_g), rows of the busiest GPU over the mean
    active     sum of 1 - (1 - k s_c)^T over the copies c of that GPU, T tokens with k experts each

A copy of an expert with n of them has s / n. Greedy packing is not optimal: more copies may be
slightly worse. Left out: skew that changes over time or by layer, and what moving experts costs.

Sources: Lorenz curves as of Kakwani and Podder (1973); EPLB: DeepSeek-AI, Expert Parallelism Load
Balancer (github.com/deepseek-ai/EPLB, 2025), its global policy; DeepSeek-V3 (arXiv:2412.19437,
Sec. 3.4) deploys redundant experts so.
"""

import heapq
from collections.abc import Iterator
from functools import lru_cache
from math import inf, isfinite
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from netplan.arrays import Amount, Counts, Floats, Ints
from netplan.errors import CatalogError, InputError
from netplan.files import csv_rows, read_bounded, text_of
from netplan.inputs.readers import number_or_nan
from netplan.records import Entry, NonNegativeFloat, NonNegativeInt

ExpertPlacement = Literal["shuffled", "eplb"]
"""Where experts lie: dealt out as they come, or by their load, with copies."""
FORMS = "gini:G with 0 <= G < 1, power:A with A >= 0, or a file FILE.csv of columns expert, share"
SUM_WITHIN = 1e-6
"""By how much shares of a file may miss 1 together [1]."""
FILE_BYTES = 1 << 22
"""What a file of shares may have at most, forty bytes an expert of the largest model [B]."""
SEED = 0
"""Of the permutation of shuffled experts [1]."""


def gini_shares(gini: float, experts: int) -> Floats:
    """Shares of tokens by a Lorenz curve of some Gini coefficient (formula of this module).

    Parameters
    ----------
    gini
        Gini coefficient, from 0 for even shares to below 1 [1].
    experts
        Experts of a layer [1].

    Returns
    -------
    Floats
        The largest first, shape (experts,) [1].

    Raises
    ------
    InputError
        If the coefficient is out of range, or there are no experts.

    Examples
    --------
    >>> gini_shares(0.5, 4).round(4)
    array([0.5781, 0.2969, 0.1094, 0.0156])
    """
    _check_experts(experts)
    if not 0 <= gini < 1:
        raise InputError(f"a Gini coefficient of {gini:g}: give 0 (all experts alike) to below 1")
    edges = np.arange(experts + 1) / experts
    shares = np.diff(edges ** ((1 + gini) / (1 - gini)))
    return np.asarray((shares / shares.sum())[::-1])


def power_shares(exponent: float, experts: int) -> Floats:
    """Shares of tokens by a power law of the rank (formula of this module).

    Parameters
    ----------
    exponent
        Exponent a, from 0 for even shares [1].
    experts
        Experts of a layer [1].

    Returns
    -------
    Floats
        The largest first, shape (experts,) [1].

    Raises
    ------
    InputError
        If the exponent is out of range, or there are no experts.

    Examples
    --------
    >>> power_shares(1.0, 3).round(4)
    array([0.5455, 0.2727, 0.1818])
    """
    _check_experts(experts)
    if not 0 <= exponent < inf:
        raise InputError(
            f"a power law of exponent {exponent:g}: give 0 (all experts alike) or more"
        )
    shares = np.arange(1, experts + 1.0)[::-1] ** -exponent
    return np.asarray((shares / shares.sum())[::-1])


def _check_experts(experts: int) -> None:
    if experts < 1:
        raise InputError(f"shares of {experts:,} experts: a layer has at least 1")


def read_shares(path: Path, experts: int) -> Floats:
    r"""Shares of tokens from a file, in the order of the experts' numbers.

    Parameters
    ----------
    path
        A CSV file of the columns expert (a whole number) and share (from 0 on), which sum to 1.
    experts
        Experts of a layer, as many as rows [1].

    Returns
    -------
    Floats
        Shape (experts,); what the sum misses of 1 is made up for [1].

    Raises
    ------
    CatalogError
        If the file cannot be read or is no such table: file and line, what is wrong, what is
        allowed.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "shares.csv"
    >>> _ = path.write_text("expert,share\n1,0.25\n0,0.75\n")
    >>> read_shares(path, 2)
    array([0.75, 0.25])
    """
    shares: dict[int, float] = {}
    for place, expert, share in _rows(path):
        if expert in shares:
            raise CatalogError(f"{place}: expert {expert:,} stands twice: give each a row")
        if len(shares) == experts:
            raise CatalogError(
                f"{place}: more rows than the model has experts, {experts:,}: give one for each"
            )
        shares[expert] = share
    if len(shares) < experts:
        raise CatalogError(
            f"{path}: {len(shares):,} rows, and the model has {experts:,} experts a layer: give one"
            " for each, also where its share is 0"
        )
    values = np.array([shares[expert] for expert in sorted(shares)])
    total = float(values.sum())
    if abs(total - 1) > SUM_WITHIN:
        raise CatalogError(
            f"{path}: shares sum to {total:.9g}: they are of all tokens, and sum to 1 within"
            f" {SUM_WITHIN:g}"
        )
    return values / total


COLUMNS = ("expert", "share")


def _rows(path: Path) -> Iterator[tuple[str, int, float]]:
    """Place, expert and share of each row; empty lines and lines that begin with # are left out."""
    text = text_of(path, read_bounded(path, FILE_BYTES, "shares of experts take less"))
    reader = csv_rows(path, text.replace("\r\n", "\n").split("\n"), skip_spaces=True)
    header: tuple[str, ...] = ()
    for line, cells in reader:
        texts = tuple(cell.strip() for cell in cells)
        if not any(texts) or texts[0].startswith("#"):
            continue
        if not header:
            header = texts
            if sorted(header) != sorted(COLUMNS):
                raise CatalogError(
                    f"{path}:{line}: columns {', '.join(header)!r:.60}: a file of"
                    f" shares has {' and '.join(COLUMNS)}, named in its first line"
                )
            continue
        place = f"{path}:{line}"
        yield place, *_row(place, header, texts)


def _row(place: str, header: tuple[str, ...], texts: tuple[str, ...]) -> tuple[int, float]:
    """Expert and share of a row."""
    if len(texts) != len(header):
        raise CatalogError(f"{place}: expected {len(header)} fields, got {len(texts)}")
    values = dict(zip(header, texts, strict=True))
    number, share = values["expert"], number_or_nan(values["share"])
    if not (number.isascii() and number.isdigit() and len(number) <= len("999999999")):
        raise CatalogError(f"{place}: expert {number!r:.40}: give its number, a whole one from 0")
    if not 0 <= share <= 1 + SUM_WITHIN:
        raise CatalogError(
            f"{place}: share {values['share']!r:.40}: give the share of all tokens, 0 to 1"
        )
    return int(number), share


class PlacedExperts(NamedTuple):
    """Copies of experts on GPUs.

    Parameters
    ----------
    shares
        Share of all tokens of every copy on every GPU, shape (gpus, copies) [1].
    loads
        Their sums, shape (gpus,) [1].
    """

    shares: Floats
    loads: Floats

    @property
    def imbalance(self) -> float:
        """Rows of the busiest GPU over the mean [1]."""
        return max(1.0, float(self.loads.max() * len(self.loads)))

    @property
    def busiest(self) -> Floats:
        """Shares of the copies on the busiest GPU, the first of equal ones, shape (copies,) [1]."""
        return np.asarray(self.shares[int(self.loads.argmax())])


def shuffled(shares: Floats, gpus: int, seed: int = SEED) -> PlacedExperts:
    """Experts in the order of a permutation, in blocks that follow each other.

    Parameters
    ----------
    shares
        Of tokens, by expert, shape (experts,) [1].
    gpus
        GPUs, which divide the experts [1].
    seed
        Of the permutation [1].

    Returns
    -------
    PlacedExperts
        On which GPU they are.

    Raises
    ------
    InputError
        If the GPUs do not divide the experts.

    Examples
    --------
    >>> round(shuffled(gini_shares(0.15, 256), 32).imbalance, 3)
    1.162
    """
    check_divides(len(shares), gpus)
    order = np.random.default_rng(seed).permutation(len(shares))
    placed = shares[order].reshape(gpus, -1)
    return PlacedExperts(placed, placed.sum(1))


def eplb(shares: Floats, gpus: int, redundant: int = 0) -> PlacedExperts:
    """Copies of the most loaded experts, packed by load (rules of this module).

    Parameters
    ----------
    shares
        Of tokens, by expert, shape (experts,) [1].
    gpus
        GPUs, which divide the experts and their further copies [1].
    redundant
        Further copies [1].

    Returns
    -------
    PlacedExperts
        On which GPU they are.

    Raises
    ------
    InputError
        If the GPUs do not divide the copies.

    Examples
    --------
    >>> placed = eplb(gini_shares(0.15, 256), 32)
    >>> round(placed.imbalance, 3), placed.shares.shape
    (1.011, (32, 8))
    """
    check_divides(len(shares), gpus, redundant)
    copies = np.ones(len(shares), dtype=np.int64)
    # Heaps of tuples: the load decides, and the lower number among equal ones.
    fullest = [(-share, expert) for expert, share in enumerate(shares.tolist())]
    heapq.heapify(fullest)
    for _ in range(redundant):
        _, expert = fullest[0]
        copies[expert] += 1
        heapq.heapreplace(fullest, (-float(shares[expert] / copies[expert]), expert))
    loads = np.repeat(shares / copies, copies)
    largest_first = loads[np.argsort(-loads, kind="stable")]
    slots = len(loads) // gpus
    placed, load = np.zeros((gpus, slots)), np.zeros(gpus)
    used = [0] * gpus
    emptiest = [(0.0, gpu) for gpu in range(gpus)]
    for share in largest_first.tolist():
        total, gpu = heapq.heappop(emptiest)
        placed[gpu, used[gpu]] = share
        used[gpu], load[gpu] = used[gpu] + 1, total + share
        if used[gpu] < slots:
            heapq.heappush(emptiest, (total + share, gpu))
    return PlacedExperts(placed, load)


def check_divides(experts: int, gpus: int, redundant: int = 0) -> None:
    """Refuse so many GPUs that do not divide the experts and their further copies.

    Raises
    ------
    InputError
        If they do not: with the next number of copies that does.
    """
    if (experts + redundant) % gpus == 0:
        return
    more = redundant + -(experts + redundant) % gpus
    raise InputError(
        f"{experts:,} experts and {redundant:,} redundant ones cannot be spread evenly over"
        f" {gpus:,} GPUs: the next number that can is --redundant-experts {more} (with"
        " --expert-placement eplb), or give an expert degree that divides them"
    )


class ExpertLoad(Entry, frozen=True, kw_only=True):
    """How unevenly tokens choose the experts of a model, and where these lie.

    Parameters
    ----------
    shares
        Of tokens, by expert; none where all are alike [1].
    placement, redundant
        Where experts lie, and further copies of them [1].
    busiest
        Rows of the busiest GPU over the mean, where nothing else is known of it: of p GPUs p at
        most, all rows [1].

    Examples
    --------
    >>> load = ExpertLoad.of("gini:0.15", 256, placement="eplb", redundant=32)
    >>> load.imbalance(np.array([1, 32])).round(3)
    array([1.   , 1.018])
    """

    shares: tuple[NonNegativeFloat, ...] = ()
    placement: ExpertPlacement = "shuffled"
    redundant: NonNegativeInt = 0
    busiest: float = 1.0

    @classmethod
    def of(
        cls, text: str, experts: int, *, placement: ExpertPlacement = "shuffled", redundant: int = 0
    ) -> "ExpertLoad":
        """A text such as ``gini:0.15``, ``power:1.2`` or ``shares.csv``, of so many experts.

        Raises
        ------
        NetplanError
            If it is none of these, or the file is no table of shares; if copies are more than
            there are experts for each GPU, or are asked for where none are placed.
        """
        if placement not in get_args(ExpertPlacement):
            raise InputError(
                f"--expert-placement {placement!r:.40}: use"
                f" {' or '.join(get_args(ExpertPlacement))}"
            )
        if not 0 <= redundant <= MOST_REDUNDANT:
            raise InputError(
                f"--redundant-experts {redundant:,}: give 0 to {MOST_REDUNDANT:,} further copies"
            )
        skew = skew_of(text)
        if isinstance(skew, Path):
            shares = read_shares(skew, experts)
        else:
            kind, value = skew
            shares = SHARES[kind](value, experts)
        return cls(shares=tuple(shares.tolist()), placement=placement, redundant=redundant)

    def divides(self, over: Ints, experts: int) -> Ints:
        """Those of some numbers of GPUs that experts and copies can be spread over evenly."""
        if not self.shares:
            return over
        return np.asarray(over[(experts + self.redundant) % over == 0])

    def spread(self, over: int) -> PlacedExperts:
        """Where experts lie on so many GPUs.

        Raises
        ------
        InputError
            If these do not divide them; or if there are copies, which shuffled experts have not.
        """
        return _spread(self, int(over))

    def imbalance(self, over: Amount | Counts) -> Floats:
        """Rows of the busiest of so many GPUs over the mean, of the shape of these [1].

        Raises
        ------
        InputError
            If they do not divide the experts and their copies.
        """
        degrees, which = np.unique(np.asarray(over, np.int64), return_inverse=True)
        values = [self._imbalance(degree) for degree in degrees.tolist()]
        return np.array(values)[which.reshape(np.shape(over))]

    def _imbalance(self, over: int) -> float:
        if not self.shares:
            return min(self.busiest, over)
        return self.spread(over).imbalance

    def active(self, tokens: Amount, over: Amount, per_token: float) -> Floats:
        """Experts of the busiest of so many GPUs that have a row (formula of this module) [1].

        Parameters
        ----------
        tokens
            Tokens of all GPUs together, before routing, T [1].
        over
            GPUs over which experts are spread [1].
        per_token
            Experts of a token, k [1].

        Returns
        -------
        Floats
            As tokens and GPUs broadcast [1].
        """
        both = np.broadcast_arrays(np.asarray(tokens, float), np.asarray(over, np.int64))
        pairs, which = np.unique(
            np.stack([part.ravel() for part in both]), axis=1, return_inverse=True
        )
        values = np.empty(pairs.shape[1])
        for degree in np.unique(pairs[1]).tolist():
            rows = pairs[1] == degree
            chosen = np.minimum(per_token * self.spread(int(degree)).busiest, 1.0)
            missed = (1 - chosen)[:, None] ** pairs[0, rows]
            values[rows] = (1 - missed).sum(axis=0)
        return values[which.reshape(both[0].shape)]

    def weights(self, over: int, shared_by: int = 1) -> tuple[float, ...]:
        """Rows of every GPU over the mean, those that share an expert beside each other [1].

        Examples
        --------
        >>> load = ExpertLoad(shares=(0.7, 0.1, 0.1, 0.1), placement="eplb")
        >>> [round(weight, 6) for weight in load.weights(2, shared_by=2)]
        [1.6, 1.6, 0.4, 0.4]
        """
        if not self.shares:
            first = self._imbalance(over)
            others = (over - first) / max(over - 1, 1)
            loads = np.array([first, *[others] * (over - 1)])
        else:
            loads = self.spread(over).loads
            loads = loads * (over / loads.sum())
        return tuple(np.repeat(loads, shared_by).tolist())


MOST_REDUNDANT = 100_000
"""Further copies of experts that a layer may have, as many as experts [1]."""


SHARES = {"gini": gini_shares, "power": power_shares}


def skew_of(text: str) -> tuple[str, float] | Path:
    """What a text such as ``gini:0.15``, ``power:1.2`` or ``shares.csv`` means.

    Parameters
    ----------
    text
        The text.

    Returns
    -------
    tuple or Path
        A form of shares with its parameter [1], or a file, which is not read yet.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> skew_of("gini:0.15"), skew_of("mine.csv").name
    (('gini', 0.15), 'mine.csv')
    """
    kind, colon, value = text.partition(":")
    if colon and kind in SHARES:
        number = number_or_nan(value)
        if not isfinite(number):
            raise InputError(f"--expert-skew {text!r:.60}: {value!r:.40} is no number: {FORMS}")
        try:
            SHARES[kind](number, 1)
        except InputError as error:
            raise InputError(f"--expert-skew {text!r:.60}: {error}") from None
        return kind, number
    if text.lower().endswith(".csv"):
        return Path(text)
    raise InputError(f"--expert-skew {text!r:.60}: give {FORMS}")


@lru_cache(maxsize=256)
def _spread(load: ExpertLoad, over: int) -> PlacedExperts:
    """The same of a load that was spread before."""
    shares = np.array(load.shares)
    check_divides(len(shares), over, load.redundant)
    if load.placement == "eplb":
        return eplb(shares, over, load.redundant)
    if load.redundant:
        raise InputError(
            f"--redundant-experts {load.redundant}: shuffled experts have no copies: add"
            " --expert-placement eplb"
        )
    return shuffled(shares, over)
