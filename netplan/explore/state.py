"""What the sliders of the page stand at: a link, a command, a question."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import fields

from netplan.catalog import user_roots
from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import InputError
from netplan.questions.compare import FABRIC_ORDER
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
what a price of the book is multiplied by [1]."""
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
PARTS = {"transceiver_factor": "transceiver", "port_factor": "switch_port"}
"""Factors and the part of the price book that each multiplies."""
FIRST = ("rail-optimized", "rail-only", "fat-tree", "dragonfly", "torus-3d")


class State(Struct, frozen=True, kw_only=True):
    """Where everything on the page stands.

    Parameters
    ----------
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

    gpus: int = 4096
    radix: int = 64
    hb_size: int = 8
    oversubscription: float = 1.0
    accelerator: str = "h100-80gb"
    model: str = "gpt-1t"
    prices: str = "2026"
    transceiver_factor: float = 1.0
    port_factor: float = 1.0
    fabrics: tuple[str, ...] = FIRST
    drawn: str = "rail-optimized"

    @classmethod
    def of_link(cls, query: Mapping[str, str]) -> "State":
        """The state of a link; values that are not allowed are refused in one line.

        Raises
        ------
        InputError
            If a value is none of its steps or names.

        Examples
        --------
        >>> State.of_link({"gpus": "32768", "fabrics": "rail-only"}).gpus
        32768
        """
        given: dict[str, Any] = {}
        allowed = steps()
        for one in fields(cls):
            if one.name not in query:
                continue
            text = query[one.name]
            values = allowed[one.name]
            if one.name == "fabrics":
                names = tuple(dict.fromkeys(name for name in text.split(",") if name))
                given[one.name] = tuple(_known(one.name, name, values) for name in names)
            else:
                given[one.name] = _known(one.name, text, values)
        return cls(**given)

    def query(self) -> dict[str, str]:
        """What a link says of this state, by name: what is not as at first."""
        first = State()
        changed = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if getattr(self, one.name) != getattr(first, one.name)
        }
        return {
            name: ",".join(value) if isinstance(value, tuple) else f"{value}"
            for name, value in changed.items()
        }

    def link(self) -> str:
        """Query of the link that brings this state back.

        Examples
        --------
        >>> State(gpus=8192, fabrics=("rail-only", "fat-tree")).link()
        'gpus=8192&fabrics=rail-only%2Cfat-tree'
        """
        return urlencode(self.query())

    def question(self) -> dict[str, Any]:
        """Keywords of `netplan.compare` for this state."""
        return {
            "gpus": self.gpus,
            "radix": self.radix,
            "hb_size": min(self.hb_size, self.gpus),
            "oversubscription": self.oversubscription,
            "accelerator": self.accelerator,
            "model": self.model,
            "prices": self.prices,
            "fabrics": self.fabrics or FIRST,
            "overrides": dict(self.overrides()),
        }

    def overrides(self) -> Iterator[tuple[str, str]]:
        """Prices that a factor changes, as ``--set`` has them."""
        book = PRICE_BOOKS.load(self.prices, user_roots())
        for name, part in PARTS.items():
            factor = getattr(self, name)
            rows = [row for row in book.prices if row.part == part and not row.model]
            for row in rows if factor != 1 else ():
                key = f"prices.prices.{part}@{row.speed_gbps:g}"
                for end in ("low", "base", "high"):
                    amount = getattr(row, end)
                    if amount is not None:
                        yield f"{key}.{end}", f"{factor * amount:.6g}"

    def command(self) -> str:
        """The command whose answer is the one on the page.

        Examples
        --------
        >>> print(State(fabrics=("rail-only",)).command())
        netplan compare --gpus 4096 --radix 64 --hb-size 8 --oversubscription 1 --accelerator
        h100-80gb --model gpt-1t --prices 2026 --fabric rail-only
        """
        asked = self.question()
        words = ["netplan", "compare"]
        for name in ("gpus", "radix", "hb_size", "oversubscription"):
            words += [
                f"--{name.replace('_', '-')}",
                f"{asked[name]:g}" if name != "gpus" else str(self.gpus),
            ]
        for name in ("accelerator", "model", "prices"):
            words += [f"--{name}", asked[name]]
        for fabric in asked["fabrics"]:
            words += ["--fabric", fabric]
        for key, value in asked["overrides"].items():
            words += ["--set", f"{key}={value}"]
        return shlex.join(words)


def steps() -> dict[str, Sequence[Any]]:
    """What each part of the state may be."""
    named = [
        name
        for name in FABRICS.paths(user_roots())
        if not FABRICS.load(name, user_roots()).only_named
    ]
    order = [*FABRIC_ORDER, *sorted(set(named) - set(FABRIC_ORDER))]
    fabrics = [*order, *sorted(set(FABRICS.paths(user_roots())) - set(order))]
    return {
        "gpus": GPUS,
        "radix": RADICES,
        "hb_size": HB_SIZES,
        "oversubscription": RATIOS,
        "accelerator": [*ACCELERATORS.paths(user_roots())],
        "model": [*MODELS.paths(user_roots())],
        "prices": [*PRICE_BOOKS.paths(user_roots())],
        "transceiver_factor": FACTORS,
        "port_factor": FACTORS,
        "fabrics": fabrics,
        "drawn": fabrics,
    }


def is_slider(name: str) -> bool:
    """Whether a part of the state is a number, which a slider sets."""
    return not isinstance(getattr(State(), name), (str, tuple))


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
