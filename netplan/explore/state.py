"""What the sliders of the page stand at: a link, a command, a question.

Everything begins as the scenario has it; what is moved since is all that links, commands and
questions say beside its name.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import fields

from netplan.catalog import user_roots
from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import InputError
from netplan.questions.compare import Compare
from netplan.scenarios.scenario import DEFAULT, SCENARIOS, every_place
from netplan.setup.own_inputs import SCENARIO, usual_values
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

GPUS = (
    *(8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576),
    *(32_768, 49_152, 65_536, 98_304, 131_072, 262_144, 524_288, 1_048_576),
)
RADICES = (32, 64, 128, 256, 512)
HB_SIZES = (1, 2, 4, 8, 16, 32, 64, 72, 128, 144, 256, 512, 576)
RATIOS = (1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Steps of the sliders: GPUs, ports of a switch, GPUs of an HB domain, down over up at leaves, and
what a price of the book is multiplied by [1]. What the scenario has is a step, too."""
LABELS = {
    "gpus": "GPUs",
    "radix": "ports of a switch",
    "hb_size": "GPUs of an HB domain",
    "oversubscription": "oversubscription of leaves",
    "transceiver_factor": "price of transceivers, times",
    "port_factor": "price of switch ports, times",
    "model": "model",
    "accelerator": "GPU",
    "prices": "price book",
    "fabrics": "fabrics",
    "drawn": "drawing of",
}
"""What each part of the state is called on the page, in its order there."""
PARTS = {"transceiver_factor": ("transceiver",), "port_factor": ("switch_port", "switch")}
"""Factors and the parts of the price book that each multiplies: of boxes the one of that radix."""
NAMES = (
    *("gpus", "radix", "hb_size", "oversubscription"),
    *("accelerator", "model", "prices", "fabrics"),
)
"""Parts of the state that are inputs of a scenario, in the order of the command."""


class Begun:
    """The scenario that the server was begun with, which its pages start from; empty if none."""

    scenario: ClassVar[str] = ""


def first_scenario() -> str:
    """What a page starts from: the server's scenario, that of the user's defaults, or ours."""
    usual = usual_values(Compare.command, (SCENARIO,))
    return Begun.scenario or str(usual.get(SCENARIO, DEFAULT))


class State(Struct, frozen=True, kw_only=True):
    """Where everything on the page stands.

    Parameters
    ----------
    scenario
        What it begins from: a name of the catalog, or a file.
    gpus, radix, hb_size
        GPUs of the cluster, ports of a switch, GPUs of an HB domain [1].
    oversubscription
        Down over up at the leaves of a Clos [1].
    accelerator, model, prices
        Names of the catalogs.
    transceiver_factor, port_factor
        What the prices of transceivers and switch ports are multiplied by [1].
    fabrics
        Names of the fabrics that are compared.
    drawn
        The one that is drawn.
    """

    scenario: str
    gpus: int
    radix: int
    hb_size: int
    oversubscription: float
    accelerator: str
    model: str
    prices: str
    fabrics: tuple[str, ...]
    drawn: str
    transceiver_factor: float = 1.0
    port_factor: float = 1.0

    @classmethod
    def of(cls, scenario: str = "", **moved: Any) -> "State":  # noqa: ANN401 - of any control
        """Where everything stands in a scenario, but for what was moved.

        Parameters
        ----------
        scenario
            A name of the catalog, or a file; the usual one if empty.
        moved
            Parts of the state by name.

        Returns
        -------
        State
            The state.

        Raises
        ------
        NetplanError
            If there is no such scenario, or its file is malformed.

        Examples
        --------
        >>> State.of(gpus=8192).model, State.of("hgx-h100").accelerator
        ('llama-3-405b', 'h100-80gb')
        """
        scenario = scenario or first_scenario()
        asked = Compare.make(scenario)
        cluster, first = asked.cluster, asked.cluster.fabrics
        chip = ACCELERATORS.load(cluster.accelerator, user_roots())
        begun = {
            "gpus": cluster.gpus,
            "radix": cluster.switch_radix,
            "hb_size": cluster.hb_size or min(chip.hb_size, cluster.gpus),
            "oversubscription": cluster.oversubscription or 1.0,
            "accelerator": cluster.accelerator,
            "model": asked.scenario.workload.model,
            "prices": asked.books.prices,
            "fabrics": first,
            "drawn": cluster.fabric if cluster.fabric in first else first[0],
        }
        return cls(scenario=scenario, **{**begun, **moved})

    @classmethod
    def of_link(cls, query: Mapping[str, str], scenario: str = "") -> "State":
        """The state of a link; values that are not allowed are refused in one line.

        Parameters
        ----------
        query
            What the link says, by name.
        scenario
            What the page was begun with; a link may name another one of the catalog.

        Returns
        -------
        State
            The state.

        Raises
        ------
        InputError
            If a value is none of its steps or names.

        Examples
        --------
        >>> State.of_link({"gpus": "8192", "fabrics": "rail-only"}).fabrics
        ('rail-only',)
        """
        if SCENARIO in query:
            scenario = _known(SCENARIO, query[SCENARIO], [*SCENARIOS.paths(user_roots())])
        given: dict[str, Any] = {}
        allowed = steps(scenario)
        for name, values in allowed.items():
            if name not in query:
                continue
            text = query[name]
            if name == "fabrics":
                names = tuple(dict.fromkeys(part for part in text.split(",") if part))
                given[name] = tuple(_known(name, part, values) for part in names)
            else:
                given[name] = _known(name, text, values)
        return cls.of(scenario, **given)

    @property
    def begun(self) -> "State":
        """Where everything stands in its scenario."""
        return State.of(self.scenario)

    @property
    def moved(self) -> dict[str, Any]:
        """Parts that are not as in the scenario, by name."""
        begun = self.begun
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != getattr(begun, field.name)
        }

    def query(self) -> dict[str, str]:
        """What a link says of this state, by name: the scenario of the catalog, and what is moved.

        A file is no part of a link, so that no page elsewhere makes this one read it.
        """
        plain = self.scenario == first_scenario() == DEFAULT
        named = not plain and self.scenario in SCENARIOS.paths(user_roots())
        values = ({SCENARIO: self.scenario} if named else {}) | self.moved
        return {
            name: ",".join(value) if isinstance(value, tuple) else f"{value}"
            for name, value in values.items()
        }

    def link(self) -> str:
        """Query of the link that brings this state back.

        Examples
        --------
        >>> State.of(gpus=8192, fabrics=("rail-only", "fat-tree")).link()
        'gpus=8192&fabrics=rail-only%2Cfat-tree'
        """
        return urlencode(self.query())

    def inputs(self) -> dict[str, Any]:
        """Inputs of the scenario that are moved, as keywords of any question about it.

        Of another accelerator the HB domain is said, too: it may be sold with another one.
        """
        moved = self.moved
        if "accelerator" in moved or "hb_size" in moved:
            moved["hb_size"] = min(self.hb_size, self.gpus)
        if not self.fabrics:
            moved.pop("fabrics", None)  # nothing is picked: those of the scenario
        return {name: moved[name] for name in NAMES if name in moved}

    def question(self) -> dict[str, Any]:
        """Keywords of `netplan.compare` for this state.

        Examples
        --------
        >>> State.of(radix=64).question()
        {'scenario': 'hgx-b200', 'radix': 64}
        """
        overrides = dict(self.overrides())
        return {
            SCENARIO: self.scenario,
            **self.inputs(),
            **({"overrides": overrides} if overrides else {}),
        }

    def overrides(self) -> Iterator[tuple[str, str]]:
        """Prices that a factor changes, as ``--set`` has them."""
        book = PRICE_BOOKS.load(self.prices, user_roots())
        for name, parts in PARTS.items():
            factor = getattr(self, name)
            rows = [
                row
                for row in book.prices
                if row.part in parts and row.model in {"", f"{self.radix}x{row.speed_gbps:g}g"}
            ]
            for row in rows if factor != 1 else ():
                key = f"prices.prices.{row.model or row.part}@{row.speed_gbps:g}"
                for end in ("low", "base", "high"):
                    amount = getattr(row, end)
                    if amount is not None:
                        yield f"{key}.{end}", f"{factor * amount:.6g}"

    def command(self) -> str:
        """The command whose answer is the one on the page.

        Examples
        --------
        >>> State.of(gpus=8192, fabrics=("rail-only",)).command()
        'netplan compare hgx-b200 --gpus 8192 --fabric rail-only'
        """
        words = ["netplan", Compare.command, self.scenario]
        for name, value in self.inputs().items():
            flag = every_place()[name].option.flag_of(name)
            for part in value if isinstance(value, tuple) else (value,):
                words += [flag, f"{part:g}" if isinstance(part, float) else f"{part}"]
        for key, value in self.overrides():
            words += ["--set", f"{key}={value}"]
        return shlex.join(words)


def steps(scenario: str = "") -> dict[str, Sequence[Any]]:
    """What each part of the state may be, what the scenario has among them.

    Parameters
    ----------
    scenario
        A name of the catalog, or a file; the usual one if empty.

    Returns
    -------
    dict of str to sequence
        Numbers in their order, names as the catalogs have them.

    Examples
    --------
    >>> steps("palm-paper")["gpus"][:3], steps("palm-paper")["fabrics"][0]
    ((8, 16, 32), 'palm-gpu')
    """
    begun, roots = State.of(scenario), user_roots()
    listed = [name for name in FABRICS.paths(roots) if not FABRICS.load(name, roots).by_name_only]
    fabrics = [*dict.fromkeys([*begun.fabrics, *listed, *FABRICS.paths(roots)])]
    return {
        "gpus": _and(GPUS, begun.gpus),
        "radix": _and(RADICES, begun.radix),
        "hb_size": _and(HB_SIZES, begun.hb_size),
        "oversubscription": _and(RATIOS, begun.oversubscription),
        "accelerator": [*dict.fromkeys([*ACCELERATORS.paths(roots), begun.accelerator])],
        "model": [*dict.fromkeys([*MODELS.paths(roots), begun.model])],
        "prices": [*dict.fromkeys([*PRICE_BOOKS.paths(roots), begun.prices])],
        "transceiver_factor": FACTORS,
        "port_factor": FACTORS,
        "fabrics": fabrics,
        "drawn": fabrics,
    }


def _and(numbers: Sequence[float], given: float) -> Sequence[float]:
    """Steps of a slider with one more, which the scenario has."""
    return numbers if given in numbers else tuple(sorted((*numbers, given)))


def is_slider(name: str) -> bool:
    """Whether a part of the state is a number, which a slider sets."""
    return not isinstance(getattr(State.of(), name), (str, tuple))


def _known(name: str, text: str, values: Sequence[Any]) -> Any:  # noqa: ANN401 - a number or a name
    """The allowed value that a text means."""
    for value in values:
        if f"{value}" == text or (not isinstance(value, str) and f"{value:g}" == text):
            return value
    known = [f"{value}" for value in values]
    if known and isinstance(values[0], str):
        near = get_close_matches(text, known, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "choose from the list of the page"
        raise InputError(f"{name}={text!r:.40} is none of the page's names: {hint}")
    raise InputError(f"{name}={text!r:.40} is none of the page's steps: {', '.join(known)}")
