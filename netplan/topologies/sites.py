"""Sites that share one job: their GPUs, and the fibre between them.

A site is a hall, a campus or a region. Its *ratio* is the rate of its GPUs' network over what
leaves it, each direction, W = GPUs x rate of a GPU / ratio: all of its fibre together, evenly over
its pairs. A pair has the rate of its poorer end. In a file a ratio is that of a pair, of the
smaller of both sites, and W is the sum over the pairs of a site.

========  ==========================================================================================
mesh      every site has fibre to every other
ring      to the next one and the one before
line      the same without a closing piece
hub       all to the first one
========  ==========================================================================================

Sites without fibre between them reach each other by the shortest length over others, whose fibre
carries their bytes, too. It leaves out traffic of others, and fibre that is switched over.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import combinations
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from netplan import records
from netplan.documents import Document, read_yaml
from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.inputs.choices import LEAST_RATIO, LONGEST_KM, MOST_RATIO, Layout

MOST_SITES = 16
PAIR = 2


class Site(records.Entry, frozen=True):
    """One site: its name and GPUs [1]."""

    name: str
    gpus: records.PositiveInt


class Pair(Struct, frozen=True):
    """Two sites with fibre between them.

    Parameters
    ----------
    a, b
        Their numbers, the smaller one first.
    km
        Length of the fibre [km].
    ratio
        Rate of a site's GPUs over what leaves it, or in a file over what the pair has [1].
    bytes_per_s
        What goes over it, each direction [B/s].
    usd_month
        Rent, where a file says it [USD a month].
    """

    a: int
    b: int
    km: float
    ratio: float
    bytes_per_s: float
    usd_month: float | None = None


class Sites(Struct, frozen=True, dict=True):
    """Sites, the fibre between them, and what leaves each [B/s].

    Examples
    --------
    >>> sites = Sites.laid_out(deal_gpus(16_384, 2, 8), "mesh", km=40.0, ratio=4.0, gpu_rate=50e9)
    >>> sites.egress_bytes_per_s, sites.pairs[0].bytes_per_s
    ((102400000000000.0, 102400000000000.0), 102400000000000.0)
    """

    sites: tuple[Site, ...]
    pairs: tuple[Pair, ...]
    egress_bytes_per_s: tuple[float, ...]
    layout: Layout | Literal["file"] = "mesh"

    @classmethod
    def laid_out(
        cls, sites: Sequence[Site], layout: Layout, *, km: float, ratio: float, gpu_rate: float
    ) -> "Sites":
        """Sites that are all as far from each other as their fibre goes.

        Parameters
        ----------
        sites
            The sites, in the order of a ring, a line or a pipeline.
        layout
            Which have fibre to which; of two sites all layouts are one.
        km
            Length of the fibre of each pair [km].
        ratio
            Rate of a site's GPUs over what leaves it [1].
        gpu_rate
            Rate of the network of a GPU [B/s].

        Returns
        -------
        Sites
            With the rates of their pairs.

        Raises
        ------
        InputError
            If there are too few or many sites, or a length or ratio is none.
        """
        _check_count(len(sites))
        if not 0 <= km <= LONGEST_KM:
            raise InputError(
                f"--km {km:g}: give the length of the fibre, 0 to {LONGEST_KM:,.0f} km"
            )
        if not LEAST_RATIO <= ratio <= MOST_RATIO:
            raise InputError(
                f"--ratio {ratio:g}: give the rate of a site's GPUs over what leaves it,"
                f" {LEAST_RATIO:g} to {MOST_RATIO:,.0f}"
            )
        joined = list(_joined(len(sites), layout))
        degree = [sum(number in ends for ends in joined) for number in range(len(sites))]
        egress = tuple(site.gpus * gpu_rate / ratio for site in sites)
        pairs = tuple(
            Pair(a, b, km, ratio, min(egress[a] / degree[a], egress[b] / degree[b]))
            for a, b in joined
        )
        return cls(tuple(sites), pairs, egress, "mesh" if len(sites) == PAIR else layout)

    @property
    def complete(self) -> bool:
        """Whether every site has fibre to every other."""
        return len(self.pairs) == len(self.sites) * (len(self.sites) - 1) // 2

    def changed(self, bytes_per_s_share: float) -> "Sites":
        """The same with a share of every rate [1].

        Parameters
        ----------
        bytes_per_s_share
            What is left of the rates [1].

        Returns
        -------
        Sites
            With rates of so much.
        """
        pairs = (
            records.replace(pair, bytes_per_s=bytes_per_s_share * pair.bytes_per_s)
            for pair in self.pairs
        )
        egress = (bytes_per_s_share * rate for rate in self.egress_bytes_per_s)
        return records.replace(self, pairs=tuple(pairs), egress_bytes_per_s=tuple(egress))

    def without(self, *ends: int, share: float = 1.0) -> "Sites":
        """The same with fibre of one pair cut; where that is all of it, its bytes go over others.

        Parameters
        ----------
        *ends
            The two sites.
        share
            Share of the pair's rate that is cut [1].

        Returns
        -------
        Sites
            With a pair less, or a slower one, and less rate of both sites.

        Raises
        ------
        InputError
            If they have no fibre.
        InfeasibleError
            If no other way is left.

        Examples
        --------
        >>> sites = Sites.laid_out(deal_gpus(64, 2, 8), "mesh", km=40.0, ratio=4.0, gpu_rate=50e9)
        >>> sites.without(0, 1, share=0.25).egress_bytes_per_s
        (300000000000.0, 300000000000.0)
        """
        a, b = sorted(ends)
        cut = next((pair for pair in self.pairs if (pair.a, pair.b) == (a, b)), None)
        if cut is None:
            raise InputError(f"no fibre joins {self._names(a, b)}: nothing can be cut there")
        if share < 1:
            slower = records.replace(cut, bytes_per_s=(1 - share) * cut.bytes_per_s)
            left = tuple(slower if pair is cut else pair for pair in self.pairs)
            egress = tuple(
                rate - share * cut.bytes_per_s * (number in (a, b))
                for number, rate in enumerate(self.egress_bytes_per_s)
            )
            return records.replace(self, pairs=left, egress_bytes_per_s=egress)
        left = tuple(pair for pair in self.pairs if pair is not cut)
        egress = tuple(
            sum(pair.bytes_per_s for pair in left if number in (pair.a, pair.b))
            for number in range(len(self.sites))
        )
        whole = records.replace(self, pairs=left, egress_bytes_per_s=egress, layout="file")
        if any(path is None for path in whole.paths.values()):
            raise InfeasibleError(
                f"without the fibre between {self._names(a, b)} no way joins all sites: the job"
                " stands still until it is spliced"
            )
        return whole

    def _names(self, a: int, b: int) -> str:
        return f"{self.sites[a].name} and {self.sites[b].name}"

    @cached_property
    def paths(self) -> dict[tuple[int, int], tuple[tuple[int, int], ...] | None]:
        """Way of every two sites, as the directed fibres that it takes; None without any.

        Their own fibre where they have one, else the shortest over others.
        """
        ways: dict[tuple[int, int], tuple[tuple[int, int], ...] | None] = {
            ends: (ends,) for ends in self.fibres
        }
        for start in range(len(self.sites)) if not self.complete else ():
            for end, way in self._ways_from(start).items():
                if end != start:
                    ways.setdefault((start, end), way)
        return ways

    def _ways_from(self, start: int) -> dict[int, tuple[tuple[int, int], ...] | None]:
        """Shortest ways from a site to all (Dijkstra); of equal ones that over fewer fibres."""
        near: dict[int, list[tuple[int, float]]] = {number: [] for number in range(len(self.sites))}
        for pair in self.pairs:
            near[pair.a].append((pair.b, pair.km))
            near[pair.b].append((pair.a, pair.km))
        ways: dict[int, tuple[tuple[int, int], ...] | None] = dict.fromkeys(range(len(self.sites)))
        queue: list[tuple[float, int, int, tuple[tuple[int, int], ...]]] = [(0.0, 0, start, ())]
        while queue:
            km, fibres, number, way = heappop(queue)
            if ways[number] is not None:
                continue
            ways[number] = way
            for following, more_km in near[number]:
                step = (*way, (number, following))
                heappush(queue, (km + more_km, fibres + 1, following, step))
        return ways

    @cached_property
    def fibres(self) -> dict[tuple[int, int], Pair]:
        """The pair of every directed fibre."""
        both = (((pair.a, pair.b), (pair.b, pair.a)) for pair in self.pairs)
        return {ends: pair for pair, ways in zip(self.pairs, both, strict=True) for ends in ways}

    def carried_bytes(
        self, sent_bytes: Mapping[tuple[int, int], float]
    ) -> dict[tuple[int, int], float]:
        """What every directed fibre carries, that of ways over others too.

        Parameters
        ----------
        sent_bytes
            What sites send others, by the numbers of both [B].

        Returns
        -------
        dict
            By the numbers of both ends of a fibre [B]; none of fibre that carries nothing.
        """
        loads: dict[tuple[int, int], float] = {}
        for ends, amount in sent_bytes.items():
            for fibre in self.paths[ends] or ():
                loads[fibre] = loads.get(fibre, 0.0) + amount
        return loads

    def busiest_s(self, sent_bytes: Mapping[tuple[int, int], float]) -> float:
        """How long the busiest directed fibre takes [s].

        Parameters
        ----------
        sent_bytes
            What sites send others, by the numbers of both [B].

        Returns
        -------
        float
            The most over directed fibres of bytes over rate [s].
        """
        loads = self.carried_bytes(sent_bytes).items()
        return max(load / self.fibres[fibre].bytes_per_s for fibre, load in loads)


def deal_gpus(gpus: int, sites: int, hb_size: int) -> tuple[Site, ...]:
    """Deal whole HB domains out to sites, which differ by one of them at the most.

    Parameters
    ----------
    gpus, sites, hb_size
        GPUs of the job, its sites, GPUs of an HB domain [1].

    Returns
    -------
    tuple of Site
        The larger ones first.

    Raises
    ------
    InputError
        If there are too few or too many sites, or fewer HB domains than sites.

    Examples
    --------
    >>> [site.gpus for site in deal_gpus(16_344, 2, 72)]
    [8208, 8136]
    """
    _check_count(sites)
    domains, rest = divmod(gpus, hb_size)
    if domains < sites:
        raise InputError(
            f"{gpus:,} GPUs are {domains + bool(rest):,} HB domains of {hb_size:,}, too few for"
            f" {sites} sites: give more GPUs, or fewer sites"
        )
    dealt = [domains // sites + (number < domains % sites) for number in range(sites)]
    counts = [hb_size * count for count in dealt]
    counts[-1] += rest
    return tuple(Site(f"site-{number}", count) for number, count in enumerate(counts, start=1))


def _check_count(sites: int) -> None:
    if sites == 1:
        raise InputError("--sites 1 is one site: use netplan search")
    if not PAIR <= sites <= MOST_SITES:
        raise InputError(f"--sites {sites:,}: give {PAIR} to {MOST_SITES} sites")


def _joined(sites: int, layout: Layout) -> Iterator[tuple[int, int]]:
    """Which sites have fibre to which."""
    if layout == "mesh" or sites == PAIR:
        yield from combinations(range(sites), PAIR)
    elif layout == "hub":
        yield from ((0, number) for number in range(1, sites))
    else:
        yield from ((number, number + 1) for number in range(sites - 1))
        if layout == "ring":
            yield 0, sites - 1


class PairEntry(records.Entry, frozen=True, kw_only=True):
    """Two sites of a file with fibre between them."""

    between: tuple[str, str]
    km: records.NonNegativeFloat
    ratio: records.PositiveFloat
    usd_month: records.NonNegativeFloat | None = None


class SitesFile(records.Entry, frozen=True, kw_only=True):
    """A file of sites."""

    sites: tuple[Site, ...]
    pairs: tuple[PairEntry, ...] = field(default_factory=tuple)


def read_sites(path: Path, gpu_rate: float) -> Sites:
    """Read sites and the fibre between them.

    Parameters
    ----------
    path
        The file.
    gpu_rate
        Rate of the network of a GPU [B/s].

    Returns
    -------
    Sites
        In the order of the file.

    Raises
    ------
    CatalogError
        If the file is malformed: each fault with its line.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> text = '''
    ... sites: [{name: north, gpus: 8192}, {name: south, gpus: 4096}]
    ... pairs: [{between: [north, south], km: 40, ratio: 4.5, usd_month: 9000}]
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "sites.yaml")
    ...     _ = path.write_text(text)
    ...     read_sites(path, 50e9).egress_bytes_per_s
    (45511111111111.11, 45511111111111.11)
    """
    document = read_yaml(path)
    read = document.entry(SitesFile)
    faults = [*_faults(document, read)]
    if faults:
        raise CatalogError(*faults)
    number = {site.name: index for index, site in enumerate(read.sites)}
    pairs = {}
    for entry in read.pairs:
        a, b = sorted(number[name] for name in entry.between)
        smaller = min(read.sites[a].gpus, read.sites[b].gpus)
        rate = smaller * gpu_rate / entry.ratio
        pairs[a, b] = Pair(a, b, entry.km, entry.ratio, rate, entry.usd_month)
    egress = tuple(
        sum(pair.bytes_per_s for ends, pair in pairs.items() if index in ends)
        for index in range(len(read.sites))
    )
    whole = Sites(read.sites, tuple(pairs.values()), egress, "file")
    if lost := next((ends for ends, way in whole.paths.items() if way is None), None):
        line = document.line(["pairs"])
        raise CatalogError(
            f"{path}:{line}: no fibre leads from {read.sites[lost[0]].name} to"
            f" {read.sites[lost[1]].name}:"
            " give a pair that joins them"
        )
    return whole


def _faults(document: Document, read: SitesFile) -> Iterator[str]:
    """What of a file of sites contradicts itself, with its lines."""

    def line_of(*keys: str | int) -> str:
        return f"{document.path}:{document.line(keys)}"

    if not PAIR <= len(read.sites) <= MOST_SITES:
        some = f"{len(read.sites)} site{'s' * (len(read.sites) != 1)}"
        more = ": use netplan search" if len(read.sites) == 1 else ""
        yield f"{line_of('sites')}: {some}, give {PAIR} to {MOST_SITES}{more}"
    names: dict[str, None] = {}
    for index, site in enumerate(read.sites):
        if site.name in names:
            yield f"{line_of('sites', index)}: a site before it is called {site.name:.60}, too"
        names[site.name] = None
    pairs: dict[tuple[str, ...], PairEntry] = {}
    for index, pair in enumerate(read.pairs):
        where, ends = line_of("pairs", index), tuple(sorted(pair.between))
        if unknown := [name for name in pair.between if name not in names]:
            yield f"{where}: no site is called {unknown[0]:.60}: the sites are {', '.join(names)}"
        elif ends[0] == ends[1]:
            yield f"{where}: {ends[0]:.60} needs no fibre to itself: name two sites"
        elif ends in pairs:
            same = pairs[ends].changed(between=pair.between) == pair
            how = "twice" if same else "twice with different values: both directions are equal"
            yield f"{where}: {ends[0]:.60} and {ends[1]:.60} stand {how}: leave one out"
        if pair.km > LONGEST_KM:
            yield f"{where}: km {pair.km:g}: give 0 to {LONGEST_KM:,.0f}"
        if pair.ratio < LEAST_RATIO:
            yield f"{where}: ratio {pair.ratio:g}: give {LEAST_RATIO:g} or more"
        pairs.setdefault(ends, pair)


def deal_parts(parts: int, gpus_each: float, sites: Sequence[Site], what: str) -> tuple[int, ...]:
    """Deal stages or replicas out to sites, in order, as evenly as their GPUs are.

    Parameters
    ----------
    parts
        Stages of a pipeline, or replicas [1].
    gpus_each
        GPUs of one [1].
    sites
        The sites.
    what
        What is dealt, for messages.

    Returns
    -------
    tuple of int
        Parts of each site [1].

    Raises
    ------
    InputError
        If some site gets none, or they do not fit: which numbers would do.

    Examples
    --------
    >>> deal_parts(8, 2048, deal_gpus(16_384, 2, 8), "stages")
    (4, 4)
    """
    most = [int(site.gpus // gpus_each) for site in sites]
    if parts < len(sites):
        raise InputError(
            f"{parts} {what if parts != 1 else what[:-1]} cannot be dealt out to {len(sites)}"
            f" sites: give {len(sites)} or more, a multiple of {len(sites)} at best"
        )
    if sum(most) < parts or min(most) < 1:
        near = max(1, round(parts / len(sites)))
        multiples = sorted({max(1, near - 1) * len(sites), near * len(sites)} - {parts})
        hold = ", ".join(f"{site.name} {count:,}" for site, count in zip(sites, most, strict=True))
        raise InputError(
            f"{parts:,} {what} of {gpus_each:,.6g} GPUs do not fit whole into sites ({hold}):"
            f" multiples of {len(sites)} do, such as {' or '.join(f'{n:,}' for n in multiples)}"
        )
    total = sum(site.gpus for site in sites)
    shares = [parts * site.gpus / total for site in sites]
    dealt = [min(count, max(1, int(share))) for count, share in zip(most, shares, strict=True)]
    while sum(dealt) > parts:
        dealt[dealt.index(max(dealt))] -= 1
    while sum(dealt) < parts:
        room = [
            (share - got if got < count else float("-inf"))
            for share, got, count in zip(shares, dealt, most, strict=True)
        ]
        dealt[room.index(max(room))] += 1
    return tuple(dealt)
