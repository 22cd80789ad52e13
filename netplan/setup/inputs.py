"""What questions share: which fabrics they are about, and how headings name inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netplan.catalog import user_roots
from netplan.costing.hb_gear import HB_GEAR_TOO
from netplan.errors import InputError
from netplan.inputs.choices import AS_PUBLISHED
from netplan.records import replace
from netplan.reports.quantities import PREFIXED, words
from netplan.scenarios.inner_parts import SiteSpan
from netplan.scenarios.parts import FABRICS as SCENARIO_FABRICS
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import OF_FABRICS
from netplan.setup.question import SPAN, AnyQuestion
from netplan.topologies.specs import FABRICS
from netplan.units import PERCENT, si
from netplan.workloads.accelerators import ACCELERATORS

EXACT_DIGITS = 12


def require_least(option: str, value: int, least: int = 0) -> None:
    """Refuse a number below the least that is allowed."""
    if value < least:
        raise InputError(f"--{option} {value}: give {least} or more")


def only_hb_gear(asked: AnyQuestion) -> None:
    """Refuse networks beside, where only the gear inside HB domains may count.

    Raises
    ------
    InputError
        If another one is asked for.
    """
    others = [name for name in asked.cluster.networks if name != HB_GEAR_TOO]
    if others and "networks" in asked.given:
        raise InputError(
            f"--with {others[0]}: {asked.command} counts the network that trains, and --with"
            f" {HB_GEAR_TOO} what lies inside HB domains: for {others[0]} ask netplan cost"
        )


def span_of(asked: AnyQuestion) -> SiteSpan | None:
    """The sites that the cluster of a question lies in; None of one site.

    Parameters
    ----------
    asked
        The question.

    Returns
    -------
    SiteSpan or None
        Without a length and ratio that stand in a file of the sites.

    Raises
    ------
    InputError
        If it serves, says lengths, ratios or a layout beside a file that has them, or what several
        sites have without any.
    """
    span = asked.cluster.span
    if span.sites is None:
        alone = [name for name in ("km", "ratio", "layout", "across") if name in asked.given]
        if alone and not asked.foremost >= SPAN:  # which takes two sites where nobody says
            raise InputError(
                f"--{alone[0]} is of several sites: add --sites 2 or --sites FILE, or leave it out"
            )
        return None
    if asked.reinforces:
        raise InputError(
            f"--sites {span.sites} is of training alone: both pools of post-training are in one"
            " site here: leave it out"
        )
    if not asked.trains:
        raise InputError(
            f"--sites {span.sites} is of training: servers in several sites need nothing of each"
            " other, so ask about each site by itself, with --gpus of its own"
        )
    if span.count is None:
        usual = SiteSpan()
        for name in ("km", "ratio", "layout"):
            kept = "sites" not in asked.given and getattr(span, name) != getattr(usual, name)
            if name in asked.given or kept:
                raise InputError(
                    f"--{name} beside --sites {span.sites}: the file says it of each pair: leave"
                    " one out"
                )
        return replace(span, km=None, ratio=None, layout=usual.layout)
    return span


def short_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as a heading names them: of a path the file alone.

    Examples
    --------
    >>> short_inputs({"model": "/home/me/models/mine.yaml", "fabric": "rail-only", "gpus": 64})
    {'model': 'mine.yaml', 'fabric': 'rail-only', 'gpus': 64}
    """
    return {
        name: Path(value).name if isinstance(value, str) and Path(value).suffix else value
        for name, value in inputs.items()
    }


def found_words(inputs: Mapping[str, Any]) -> str:
    """What traffic finds of the network and of experts, where it is told; empty where it is not.

    Examples
    --------
    >>> found_words({"network_kind": "roce", "as_found": 0.45}), found_words({"gpus": 64})
    ('network of roce at 45 % of its rate', '')
    >>> found_words({"expert_skew": "gini:0.24", "expert_placement": "eplb"})
    'experts by gini:0.24, eplb'
    """
    kind, share, words = inputs.get("network_kind"), inputs.get("as_found", 1.0), []
    if kind or share != 1:
        of_kind, part = f" of {kind}" if kind else "", f" at {100 * share:.4g} % of its rate"
        words.append(f"network{of_kind}{part if share < 1 else ''}")
    if skew := inputs.get("expert_skew"):
        words += [f"experts by {skew:.40}", inputs.get("expert_placement") or "shuffled"]
        if copies := inputs.get("redundant_experts"):
            words.append(f"{copies:,} redundant")
    return ", ".join(words)


def sites_words(inputs: Mapping[str, Any]) -> str:
    """In how many sites a cluster lies, how far apart they are and what joins them.

    Parameters
    ----------
    inputs
        Inputs of the answer, with ``sites``.

    Returns
    -------
    str
        The words.

    Examples
    --------
    >>> sites_words({"sites": "2", "km": 1000.0, "ratio": 4.5})
    '2 sites (1,000 km, 4.5:1)'
    >>> sites_words({"sites": "sites.yaml"})
    'the sites of sites.yaml'
    """
    count = str(inputs["sites"])
    if not count.isdecimal():
        return f"the sites of {Path(count).name}"
    return f"{count} sites ({inputs['km']:,g} km, {inputs['ratio']:g}:1)"


def hall_words(inputs: Mapping[str, Any]) -> str:
    """In which hall fabrics stand, after their prices; empty where they are as published.

    Examples
    --------
    >>> hall_words({"hall": "leaves-in-rack"}), hall_words({"hall": "as-published"})
    (', hall leaves-in-rack', '')
    """
    hall = inputs.get("hall")
    return f", hall {hall}" if hall not in (None, AS_PUBLISHED) else ""


def capped_words(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """What a power cap makes of the GPUs, in a line; none without one.

    Examples
    --------
    >>> speed = {"watts": 500.0, "speed": 0.915, "low": 0.88, "high": 0.92, "evidence": "shipping"}
    >>> capped_words({"gpu_speed": speed})[0]
    'GPUs at 500 W compute at 92 % (88-92 %) of full speed (shipping); MFU is of that'
    """
    facts = inputs.get("gpu_speed")
    if not facts:
        return ()
    low, base, high = (f"{PERCENT * facts[end]:.0f}" for end in ("low", "speed", "high"))
    speed = f"{base} % ({low}-{high} %) of full speed ({facts['evidence']}); MFU is of that"
    return (f"GPUs at {facts['watts']:g} W compute at {speed}",)


def replaced_lines(inputs: Mapping[str, Any], currency: str = "") -> tuple[str, ...]:
    """Lines of a heading on the values that were replaced, with units; prices in a currency."""
    lines = (
        f"with {key} = {_exact(value, words(key, currency).unit)}"
        for key, value in inputs["set"].items()
        if "power_cap" not in key
    )
    return *capped_words(inputs), *lines


def _exact(value: object, unit: str) -> str:
    """A value as it was given, with its unit."""
    if unit in PREFIXED and isinstance(value, int | float):
        return si(value, unit, EXACT_DIGITS)
    return f"{value} {unit}".rstrip()


ALL_FABRICS = "all"
"""Stands for every fabric of the catalogs that is no one's product alone."""

FEW_FABRICS = 4
"""So many of a scenario are all looked at, by questions that tell more of each than a row, too."""
OF_THE_PAPER = ("rail-optimized", "rail-only")
"""Of what bills are made that stand as published, or whose accelerator nobody says to sell."""


def fabrics_asked(asked: AnyQuestion, usual: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the fabrics that a question is about.

    Parameters
    ----------
    asked
        The question.
    usual
        Those that it looks at where nobody names any and the scenario has more than a few, as far
        as the scenario has them; all of the scenario where it has no usual ones.

    Returns
    -------
    tuple of str
        Names, or paths, each once.
    """
    named = tuple(dict.fromkeys(asked.cluster.fabrics))
    if ALL_FABRICS in named:
        roots = user_roots(asked.catalog)
        every = (FABRICS.load(name, roots) for name in FABRICS.paths(roots))
        rest = [spec.name for spec in every]
        first = [name for name in (*named, *SCENARIO_FABRICS) if name != ALL_FABRICS]
        return tuple(dict.fromkeys([*first, *rest]))
    if "fabrics" in asked.given or not usual or len(named) <= FEW_FABRICS:
        return named
    return tuple(name for name in usual if name in named) or named[:2]


def fabrics_bought(asked: AnyQuestion) -> tuple[str, ...]:
    """Names of the fabrics that bills are made of: those that ``netplan compare`` may recommend.

    Parameters
    ----------
    asked
        The question.

    Returns
    -------
    tuple of str
        Those that are named, or else those of the scenario that somebody sells for its accelerator;
        all where nobody sells any, and rail-only beside its Clos in halls of papers.
    """
    named = fabrics_asked(asked)
    reader = CatalogReader(asked.catalog)
    chip = reader.load(ACCELERATORS, asked.cluster.accelerator)
    if "fabrics" in asked.given or not chip.sold_in or asked.cluster.hall == AS_PUBLISHED:
        return fabrics_asked(asked, OF_THE_PAPER)
    specs = dict(zip(named, reader.fabrics(named, asked.cluster), strict=True))
    sold = tuple(name for name, spec in specs.items() if not spec.barred_for(chip))
    return sold or named


def asked_by_name(asked: AnyQuestion, names: Sequence[str]) -> dict[str, str]:
    """What fabrics are asked for by, names or paths, by the names that stand in their files."""
    roots = user_roots(asked.catalog)
    return {FABRICS.load(name, roots).name: name for name in names}


def refuse_two_networks(asked: AnyQuestion) -> None:
    """Refuse inputs that ask for a fabric beside ``--graph``, which is one; InputError."""
    asked.reject_inputs(
        OF_FABRICS, "--graph, which has its own (--fabric FILE --gpus N takes a part)"
    )
