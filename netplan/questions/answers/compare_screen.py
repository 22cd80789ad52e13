"""What a terminal shows of a comparison: verdict, one table, why the plan is as fast as it is.

At most 25 lines of 80 columns; all tables and notes come with ``--details``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from netplan.costing.fabric_bill import Bill
from netplan.costing.ranges import Range
from netplan.decide.difference import difference_words
from netplan.decide.verdict import Change, Verdict
from netplan.performance.plan import PlanTime
from netplan.questions.answers.compare_rows import FabricRow, network_price
from netplan.reports.quantities import listed
from netplan.reports.sections import Heading, Paragraph, Section, Verbatim
from netplan.reports.terminal import folded
from netplan.units import GIGA, si

WIDTH, MOST_LINES = 80, 25
"""Columns of a line and lines of a screen, the prompt that follows left aside [1]."""
MILLION, MEGA, KILO = 1e6, 1e6, 1e3
MOST_ROWS = 9
"""Networks that a screen shows; a comparison of a scenario has no more [1]."""
CASES_LINES = 8
"""Lines of a screen of several cases beside heading, verdict and rows [1]."""
LEAST_MEGAWATT = 1e5
WHOLE_FROM = 100.0
"""Amounts from which no fraction is shown [1]."""
SAME_MONEY = 5e-4
"""Share of a price below which two are the same on a screen [1]."""

ANY_TO_ANY = "the any-to-any Clos"
WAITS = {
    "bubble": "bubble",
    "tensor_comm": "tensor collectives",
    "data_comm": "gradients",
    "pipeline_comm": "transfers between stages",
    "expert_comm": "exchanges of experts",
    "recompute": "computing again",
    "attention": "attention",
    "optimizer": "the optimizer",
    "update": "the optimizer",
    "host": "waiting for the host",
    "fixed": "a fixed time",
    "memory": "waiting for memory",
}
"""Parts of an iteration beside the products of layers, in words."""
MOST_WAITS = 3
LEAST_WAIT = 0.005
"""Shares of an iteration below which a part is not named [1]."""


class About(Struct, frozen=True):
    """What is compared, as people call it.

    Parameters
    ----------
    accelerator, model
        Short names.
    batch, sequence_length
        Sequences of an iteration, and tokens of each; 0 where the model has none [1].
    precision
        Numbers of the layers' products; empty where the iteration model does not tell.
    dated
        The iteration model, with its date where it was fitted to runs.
    """

    accelerator: str = ""
    model: str = ""
    batch: int = 0
    sequence_length: int = 0
    precision: str = ""
    dated: str = ""


class DomainRow(Struct, frozen=True):
    """A rail-only network with HB domains of one size: counted and priced, not timed.

    Parameters
    ----------
    hb_size
        GPUs of a domain [1].
    cost
        Price of the network, without the gear inside its domains; None where parts lack one.
    saved
        Share of the any-to-any Clos that it saves [1].
    gear
        Base price of the gear inside the domains, of what has one.
    gear_known
        Whether all of that has a price.
    in_server
        Whether such domains come with the servers.
    """

    hb_size: int
    cost: Range | None
    saved: float | None
    gear: float
    gear_known: bool
    in_server: bool

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            "hb_size": self.hb_size,
            "cost": self.cost.base if self.cost else None,
            "cost_reduction": self.saved,
            "gear": None if self.in_server or not self.gear_known else self.gear,
            "gear_in_server": self.in_server,
        }


class Compared(Struct, frozen=True):
    """What the screen shows: a comparison's inputs, rows and verdict, and what belongs to them."""

    inputs: dict[str, Any]
    about: About
    rows: tuple[FabricRow, ...]
    currency: str
    verdict: Verdict | None
    left_out: tuple[str, ...]
    domains: tuple[DomainRow, ...]
    paper: tuple[Range, float] | None

    @property
    def serves(self) -> bool:
        """Whether the fabrics serve."""
        return self.inputs.get("workload") == "serving"


def screen(answer: Compared) -> Iterator[Section]:
    """The sections of the screen.

    Parameters
    ----------
    answer
        The comparison.

    Yields
    ------
    Section
        Heading, verdict, table, plan, rail-only by HB domain, and what more there is.
    """
    head = Heading(_title(answer), tuple(_subtitle(answer)))
    table, more = [*_table(answer)], _more(answer)
    verdict, plan = [*_verdict(answer)], [*_plan(answer)]
    domains, paper = [*_domains(answer)], [*_paper(answer)]

    def lines() -> int:
        texts = [head.title, *head.lines, " ".join(verdict), " ".join(plan), more]
        taken = sum(len(folded(text, WIDTH)) for text in texts if text)
        return taken + len(table) + len(domains) + len(paper) + 3 + bool(plan)

    # What matters least gives way first.
    while lines() > MOST_LINES and len(verdict) > 2:  # noqa: PLR2004 - the order, and why
        verdict.pop()
    for block in (paper, domains, verdict[1:], plan):
        if lines() > MOST_LINES:
            block.clear()
    if lines() > MOST_LINES:
        kept = len(table) - (lines() - MOST_LINES) - 1
        table = [*table[:kept], f"and {len(table) - kept:,} lines more: --details"]
    yield head
    yield Paragraph(" ".join(verdict), "strong")
    yield Verbatim(tuple(table))
    if plan:
        yield Paragraph(" ".join(plan))
    yield Verbatim((*domains, *paper, *folded(more, WIDTH)))


def cases_screen(flag: str, cases: Sequence[tuple[object, Compared]]) -> Iterator[Section]:
    """A row a fabric and value of a repeated flag, with the gear inside HB domains apart.

    Parameters
    ----------
    flag, cases
        The flag, and a comparison for each of its values.

    Yields
    ------
    Section
        Heading, what is cheapest in each case, one table, what more there is.
    """
    first = cases[0][1]
    gpus, about = first.inputs["gpus"], first.about
    title = f"{first.inputs['scenario']}: {gpus:,} {about.accelerator}, by {flag}"
    head = Heading(title, tuple(_subtitle(first)))
    orders = [(value, compared.verdict) for value, compared in cases if compared.verdict]
    texts = [
        f"{shown(value)} {verdict.fabric or ' or '.join(verdict.tied) or 'undecided'}"
        for value, verdict in orders
    ]
    verdict = f"What to order by {flag.removeprefix('--')}: {', '.join(texts)}."
    titles = ["", "Fabric", "tiers", "switches", f"M {first.currency}", "gear"]
    titles += ["iteration", "MFU"] if any(row.best for row in first.rows) else []
    rows = [[*titles, "saves"]]
    taken = sum(len(folded(line, WIDTH)) for line in (head.title, *head.lines, verdict))
    each = max(1, (MOST_LINES - taken - CASES_LINES) // len(cases))
    for value, compared in cases:
        baseline = next((row for row in compared.rows if row.name == "rail-optimized"), None)
        for row in _decisive(compared)[:each]:
            cells = _cells(compared, row, (MILLION, MEGA))
            priced = [_network_price(row), _gear_of(row)]
            saved = _network_saved(row, baseline)
            rows.append([shown(value), *cells[:3], *priced, *cells[6:-1], saved])
    drawn = [*_aligned(rows)]
    yield head
    yield Paragraph(verdict, "strong")
    yield Verbatim((drawn[0], "─" * max(map(len, drawn)), *drawn[1:]))
    said = [f"gear: inside HB domains, in M {first.currency}, not in the price before it."]
    every = [row for _, compared in cases for row in compared.rows]
    if foreign := next((row.unsold for row in every if row.unsold), ""):
        said.append(f"* not sold for {foreign}.")
    if any(len(group) > 1 for _, compared in cases for group in _groups(compared.rows)):
        said.append("Of fabrics that are the same network the first stands for all.")
    more = "More: --details (every fabric of every case), --format json"
    yield Verbatim((*folded(" ".join(said), WIDTH), more))


def shown(value: object) -> str:
    """A value of an input as people write it.

    Examples
    --------
    >>> shown(400.0), shown(32768), shown("b200")
    ('400', '32,768', 'b200')
    """
    return (
        f"{value:,g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else f"{value}"
    )


def _network_price(row: FabricRow) -> str:
    """Base price of a network in millions, without the gear inside its HB domains."""
    if row.bill is None or row.cost is None:
        return "-"
    least = "" if row.cost_complete else "≥"
    return f"{least}{_number(network_price(row.bill).base / MILLION)}"


def _network_saved(row: FabricRow, baseline: FabricRow | None) -> str:
    """Share that a network saves, gear inside HB domains left out of both."""
    if row.bill is None or row.cost is None or baseline is None or baseline.bill is None:
        return "-"
    whole = network_price(baseline.bill).base
    saved = 1 - network_price(row.bill).base / whole if whole else 0.0
    return f"{'' if row.cost_complete else '≤'}{100 * saved:.0f}%"


def _decisive(compared: Compared) -> list[FabricRow]:
    """Fabrics of a comparison, the one to order first, those that are the same network once."""
    chosen = compared.verdict.fabric if compared.verdict else None
    groups = [group[0] for group in _groups(compared.rows) if group[0].fabric is not None]
    return sorted(groups, key=lambda row: (row.label != chosen, bool(row.unsold or row.built_with)))


def _gear_of(row: FabricRow) -> str:
    """Price of the gear inside the HB domains of a fabric."""
    if row.bill is None or not (row.bill.gear or not row.bill.geared):
        return "in server"
    return _number(row.bill.gear / MILLION) if row.bill.geared else "no price"


def _title(answer: Compared) -> str:
    """The scenario, its GPUs and its switches."""
    inputs = answer.inputs
    speed, radix = inputs["link_gbps"], inputs["radix"]
    box = f" ({radix * speed / KILO:.4g}T box)" if speed >= WHOLE_FROM else ""
    return (
        f"{inputs['scenario']}: {inputs['gpus']:,} {answer.about.accelerator} in HB domains of"
        f" {inputs['hb_size']:,}, {radix}-port switches of {speed:g}G{box}"
    )


def _subtitle(answer: Compared) -> Iterator[str]:
    """What runs, by which model of time, and the books."""
    about, inputs = answer.about, answer.inputs
    prices = f"prices {inputs['prices']}"
    if answer.serves:
        words = f"{about.model} in {inputs['precision']}, prompts of {inputs['prompt']:,} tokens"
        yield f"{words}, answers of {inputs['output']:,}; {prices}"
    elif not inputs["timing"]:
        yield prices
    else:
        batch = f"batch {about.batch:,}"
        if about.sequence_length:
            batch += f" x {about.sequence_length:,}"
        what = ", ".join(filter(None, (about.model, about.precision, batch)))
        yield "; ".join(filter(None, (what, about.dated, prices)))


def _verdict(answer: Compared) -> Iterator[str]:
    """What to order, what separates it from the any-to-any Clos, what turns that; sentences."""
    verdict = answer.verdict
    if verdict is None:
        yield "Nothing can be compared: no fabric has a price (--details says what they lack)."
        return
    chosen = next((row for row in answer.rows if row.label == verdict.fabric), None)
    baseline = next((row for row in answer.rows if row.name == "rail-optimized"), None)
    if chosen is None or chosen.cost is None or answer.serves:
        yield verdict.sentence
        return
    start = f"Order {chosen.label}: {amount(chosen.cost.base, answer.currency)}"
    if baseline is None or baseline is chosen or baseline.bill is None or chosen.bill is None:
        yield f"{start}{_alone(chosen)}."
    else:
        less = baseline.bill.capital.base - chosen.bill.capital.base
        share = abs(less) / baseline.bill.capital.base if baseline.bill.capital.base else 0.0
        pace = _pace(chosen, baseline)
        if share < SAME_MONEY:
            yield f"{start}, the same money as {ANY_TO_ANY}{pace}."
        else:
            more = "less" if less > 0 else "more"
            money = f"{amount(abs(less), '')} ({100 * share:.0f} %) {more}"
            yield f"{start}, {money} than {ANY_TO_ANY}{pace}."
            yield _apart(chosen.bill, baseline.bill)
    yield from (_flip(change) for change in verdict.changes[:1])
    if given_up := _given_up(chosen):
        yield given_up


def _flip(change: Change) -> str:
    """What would let another fabric win, in a sentence as short as it can be."""
    if change.lever == "price" and change.value is not None and change.now:
        more = 100 * (change.value / change.now - 1)
        return f"Flips if it costs {more:.0f} % more."
    if change.lever == "bandwidth" and change.value is not None:
        now, needed = (8 * rate / GIGA for rate in (change.now, change.value))
        return f"Flips to {change.fabric} from {needed:,.0f} Gb/s a GPU on (now {now:,.0f})."
    return change.sentence


def _apart(bill: Bill, baseline: Bill) -> str:
    """The parts that set two bills apart most, and whether that holds at every price."""
    always = "; cheaper at every price of the book" if _most_more(bill, baseline) < 0 else ""
    return f"{difference_words(bill, baseline)}{always}."


def _most_more(bill: Bill, baseline: Bill) -> float:
    """What one bill may cost more than another, at the prices that are worst for it.

    Parts that both have cost the same in both.
    """
    units: dict[str, float] = {}
    prices: dict[str, Range] = {}
    for sign, priced in ((1, bill), (-1, baseline)):
        for item in priced.quote.items:
            if item.price is None:
                continue
            count = item.line.order * item.price_units
            units[item.price.what] = units.get(item.price.what, 0.0) + sign * count
            prices[item.price.what] = item.offer
    ends = ((count * prices[what].low, count * prices[what].high) for what, count in units.items())
    return sum(max(pair) for pair in ends)


def _alone(row: FabricRow) -> str:
    """How fast a fabric is that stands beside none to be compared with."""
    return f", {row.best.time_text} an iteration" if row.best else ""


def _pace(row: FabricRow, baseline: FabricRow) -> str:
    """How much faster or slower a fabric trains than the any-to-any Clos."""
    if row.best is None or baseline.best is None:
        return ""
    slower = row.time_s / baseline.time_s - 1
    if abs(slower) < LEAST_WAIT / 10:
        return " and as fast"
    within = ", within the error" if row.best.equals(baseline.best) and row.best.error else ""
    return f" and {100 * abs(slower):.1f} % {'slower' if slower > 0 else 'faster'}{within}"


def _given_up(row: FabricRow) -> str:
    """What the network chosen has not that an any-to-any one has."""
    fabric = row.fabric
    if fabric is None or fabric.network == "any-to-any" or fabric.sizing.domains == 1:
        return ""
    if fabric.network == "direct":
        return "Given up: switches."
    return "Given up: a network between rails."


def amount(value: float, currency: str) -> str:
    """An amount of money in millions, or thousands where it is small.

    Examples
    --------
    >>> amount(220_965_000.0, "USD"), amount(4_200_000.0, "USD"), amount(83_000.0, "USD")
    ('221 M USD', '4.2 M USD', '83.0 k USD')
    """
    factor, sign = (MILLION, "M") if abs(value) >= MILLION else (KILO, "k")
    return f"{_number(value / factor)} {sign} {currency}".rstrip()


def _number(value: float) -> str:
    """A number of three digits or so."""
    return f"{value:,.0f}" if abs(value) >= WHOLE_FROM else f"{value:,.1f}"


def _table(answer: Compared) -> Iterator[str]:
    """One row a network, those that are the same in one, and what the signs mean."""
    groups = _groups(answer.rows)
    watts = [row.power_w for row in answer.rows if row.power_w is not None]
    unit = (MEGA, "MW") if max(watts, default=0.0) >= LEAST_MEGAWATT else (KILO, "kW")
    money = (
        MILLION
        if max((row.cost.base for row in answer.rows if row.cost), default=0.0) >= MILLION
        else KILO
    )
    titles = [
        "Fabric",
        "tiers",
        "switches",
        "optics",
        f"{'M' if money == MILLION else 'k'} {answer.currency}",
        unit[1],
    ]
    timed = [row.best for row in answer.rows if row.best]
    if answer.serves:
        titles += ["tokens/s", f"{answer.currency}/M tokens"]
    elif timed:
        titles += ["iteration", "MFU"]
    titles.append("saves")
    lines: list[list[str]] = []
    shown_groups = groups[:MOST_ROWS]
    for group in shown_groups:
        lines.append(_cells(answer, group[0], (money, unit[0])))
        names = [row.label for row in group[1:]]
        lines += [[f"  = {' = '.join(names)}"]] if names else []
    if len(groups) > MOST_ROWS:
        lines.append([f"and {len(groups) - MOST_ROWS:,} networks more: --details"])
    drawn = [*_aligned([titles, *lines])]
    if max(map(len, drawn)) > WIDTH:  # power is said by --details, too
        drawn = [*_aligned([_without(row, unit[1], titles) for row in (titles, *lines)])]
    yield from (drawn[0], "─" * max(map(len, drawn)), *drawn[1:])
    yield from _legend(answer)


def _without(row: Sequence[str], title: str, titles: Sequence[str]) -> list[str]:
    """A row without the column of a title; one of a single text stays as it is."""
    gone = titles.index(title)
    return (
        [text for number, text in enumerate(row) if number != gone] if len(row) > gone else [*row]
    )


def _groups(rows: Sequence[FabricRow]) -> list[list[FabricRow]]:
    """Fabrics, those that are the same network to the last part and second together."""
    groups: dict[object, list[FabricRow]] = {}
    for row in rows:
        fabric = row.fabric
        key: object = row.label
        if fabric is not None and fabric.switches:
            price = row.cost.base if row.cost else None
            time = f"{row.time_s:.4g}"
            key = (
                len(fabric.tiers),
                fabric.switches,
                fabric.transceivers,
                price,
                row.power_w,
                time,
                row.memory,
            )
        groups.setdefault(key, []).append(row)
    return [sorted(group, key=lambda row: bool(row.built_with)) for group in groups.values()]


def _cells(answer: Compared, row: FabricRow, scales: tuple[float, float]) -> list[str]:
    """The texts of one row."""
    fabric, bill = row.fabric, row.bill
    mark = " *" if row.unsold or row.built_with else ""
    cells = [f"{row.label}{mark}"]
    if fabric is None:
        return [*cells, "cannot be built (--details says why)"]
    cells += [f"{len(fabric.tiers)}", f"{fabric.switches:,}"]
    cells.append(f"{bill.ordered('transceiver'):,}" if bill else "-")
    least = "" if row.cost_complete or row.cost is None else "≥"
    cells.append(f"{least}{_money(row.cost, scales[0])}")
    unknown = bill is not None and row.power_w is not None and bool(bill.unpowered_apart)
    power = "-" if row.power_w is None else f"{row.power_w / scales[1]:,.1f}"
    cells.append(f"{'≥' if unknown else ''}{power}")
    if answer.serves:
        served = row.served
        cells += [f"{served.plan.tokens_per_s:,.0f}" if served else "-"]
        cells += [f"{served.cost.total.base:,.3g}" if served and served.cost else "-"]
    elif any(other.best for other in answer.rows):
        cells += [_seconds(row.best), "-" if row.mfu is None else f"{100 * row.mfu:.0f}%"]
    saved = row.cost_reduction
    bound = "" if row.cost_complete else "≤"
    cells.append("-" if saved is None else f"{bound}{100 * saved:.0f}%")
    return cells


def _money(cost: Range | None, factor: float) -> str:
    """A price, and from where to where it runs."""
    if cost is None:
        return "-"
    base, low, high = (_number(part / factor) for part in (cost.base, cost.low, cost.high))
    return f"{base} {low}-{high}" if cost.spread else base


def _seconds(best: PlanTime | None) -> str:
    """An iteration time with its bar."""
    if best is None:
        return "-"
    seconds = best.iteration_time_s
    if seconds < 0.1:  # noqa: PLR2004 - below, milliseconds say more
        return si(seconds, "s", 3)
    if best.error is None:
        return f"{seconds:.4g}"
    low, high = best.error.whole.of(seconds)
    return (
        f"{seconds:.3g} ({low:.2g}-{high:.2g})"
        if seconds < WHOLE_FROM / 10
        else f"{seconds:.3g} ({low:.0f}-{high:.0f})"
    )


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows in columns, the first left and all others right; a row of one text stays as it is."""
    full = [row for row in rows if len(row) > 2]  # noqa: PLR2004 - a name, and why there is no more
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else 1
    for row in rows:
        if len(row) <= 2:  # noqa: PLR2004
            yield "  ".join(row)[:WIDTH]
            continue
        first, *others = (
            f"{text:<{width}}" if number == 0 else f"{text:>{width}}"
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield (" " * gap).join((first, *others)).rstrip()


def _legend(answer: Compared) -> Iterator[str]:
    """What the signs mean, in one line."""
    words = []
    foreign = [row for row in answer.rows if row.unsold or row.built_with]
    marked = [group[0] for group in _groups(answer.rows) if group[0] in foreign]
    if marked:
        where = next((row.unsold for row in marked if row.unsold), answer.about.accelerator)
        words.append(f"* not sold for {where}: not in the verdict.")
    absent = answer.left_out
    if absent:
        words.append(f"Not in the money: {listed(absent)}.")
    yield from folded(" ".join(words), WIDTH) if words else ()


def _plan(answer: Compared) -> Iterator[str]:
    """What the best plan is, and where its time goes."""
    verdict = answer.verdict
    chosen = next((row for row in answer.rows if verdict and row.label == verdict.fabric), None)
    row = chosen or next((row for row in answer.rows if row.best), None)
    best = row.best if row else None
    if row is None or best is None or row.mfu is None:
        yield from _unplanned(answer)
        return
    if best.plan.shape and row.timed and row.timed.exchange is None:
        plan = best.plan
        degrees = [("TP", plan.tensor), ("CP", plan.context), ("PP", plan.pipeline)]
        degrees += [("DP", plan.data), ("EP", plan.expert)]
        shown = [f"{sign}{degree}" for sign, degree in degrees if degree > 1 or sign in "TPPPDP"]
        yield (
            f"Plan {' '.join(shown)}, {best.plan.schedule} microbatches: MFU"
            f" {100 * row.mfu:.0f} %, since {_waits(best)}."
        )


def _unplanned(answer: Compared) -> Iterator[str]:
    """Why nothing is timed."""
    if answer.serves or not answer.inputs["timing"]:
        return
    noted = next((row.notes for row in answer.rows if row.fabric and row.notes), ())
    yield from (
        f"Not timed: {note}" if number == 0 else note for number, note in enumerate(noted[-2:])
    )


def _waits(best: PlanTime) -> str:
    """Shares of an iteration that are no products of layers, the largest first."""
    shares = best.shares
    named = [(shares.get(part, 0.0), words) for part, words in WAITS.items()]
    large = sorted((pair for pair in named if pair[0] >= LEAST_WAIT), reverse=True)[:MOST_WAITS]
    texts = [f"{100 * share:.0f} % {words}" for share, words in large]
    products = f"{100 * shares.get('compute', 0.0):.0f} % of the time is products of layers"
    return listed([products, *texts])


def _domains(answer: Compared) -> Iterator[str]:
    """Rail-only by HB domain: the network, what it saves, and the gear inside beside it."""
    rows = answer.domains
    if not rows:
        return
    own = answer.inputs["hb_size"]
    titles = [f"{row.hb_size:,}{' (here)' if row.hb_size == own else ''}" for row in rows]
    yield from _aligned(
        [
            ["Rail-only by HB domain", *titles],
            [f"  M {answer.currency}, saved", *map(_saved, rows)],
            ["  gear inside domains", *map(_gear, rows)],
        ]
        if len(rows) > 1
        else []
    )


def _paper(answer: Compared) -> Iterator[str]:
    """What the rail-only paper itself says, and how to ask for that."""
    price, saved = answer.paper or (None, 0.0)
    if price is not None and price.base >= MILLION and answer.domains and not answer.serves:
        yield (
            f"The paper itself (GH200, prices of 2023: {_number(price.base / MILLION)} M,"
            f" {100 * saved:.0f} %): compare rail-only-paper"
        )


def _saved(row: DomainRow) -> str:
    """Price of a network, and the share of the any-to-any Clos that it saves."""
    if row.cost is None:
        return "-"
    saved = "" if row.saved is None else f", {100 * row.saved:.0f} %"
    return f"{_number(row.cost.base / MILLION)}{saved}"


def _gear(row: DomainRow) -> str:
    """Price of the gear inside HB domains."""
    if row.in_server:
        return "in server"
    return f"{_number(row.gear / MILLION)} M" if row.gear_known else "no price"


def _more(answer: Compared) -> str:
    """What more there is to ask."""
    several = "" if answer.serves else ", --hb-size 8 --hb-size 72"
    return f"More: --details{several}, --model NAME, --help, netplan diff"
