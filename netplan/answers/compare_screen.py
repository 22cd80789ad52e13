"""What a terminal shows of a comparison: verdict, one table, why the plan is as fast as it is.

At most 25 lines of 80 columns; all tables and notes come with ``--details``.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from netplan.answers.bill_columns import GIVEN
from netplan.answers.compare_rows import (
    NO_STEP,
    UNSERVED,
    Compared,
    DomainRow,
    FabricRow,
    network_price,
)
from netplan.answers.compare_steps import step_remarks, step_verdict
from netplan.costing.pricing import evidence_words
from netplan.costing.ranges import Range
from netplan.costing.switches import NOT_AN_ORDER
from netplan.decide.candidates import AS_FAST
from netplan.decide.difference import difference_words
from netplan.decide.record import Change, Decision
from netplan.decide.ten_answers import NO_MAKER, given_up_in_short, supported_in_short
from netplan.decide.verdict import Verdict
from netplan.performance.forwarding import rails_loss
from netplan.performance.plan import PlanTime
from netplan.reports.quantities import DASH, Quantity, Scale, listed, short_money
from netplan.reports.screen import WIDTH, Screen
from netplan.reports.sections import Column, Heading, Section, Table, Verbatim, column
from netplan.setup.inputs import capped_words, found_words, hall_words
from netplan.topologies.specs import not_sold
from netplan.units import GIGA, KILO, MEGA, power_scale, si

if TYPE_CHECKING:
    from netplan.setup.money.step_cost import Stepped

MOST_ROWS = 9
"""Networks that a screen shows; a comparison of a scenario has no more [1]."""
WHOLE_FROM = 100.0
"""Amounts from which no fraction is shown [1]."""
NOT_YET = "it cannot be ordered yet"
"""End of a caution on what its maker has only announced."""
SAME_MONEY = 5e-4
"""Share of a price below which two are the same on a screen [1]."""

DOMAIN_SIZES = (8, 72, 144)
"""HB domains that are worth a comparison: HGX servers, NVL72 racks, two of those [1]."""
LONG_NAME = 10
"""Letters of a flag from which its column has no title [1]."""
GIVES_WAY = ("range", "tiers", "modules", "power")
"""Columns that a screen leaves out first where not all fit."""
WAITS = {
    "bubble": "bubble",
    "tensor_comm": "collectives",
    "data_comm": "gradients",
    "pipeline_comm": "transfers between stages",
    "expert_comm": "exchanges of experts",
    "recompute": "computing again",
    "attention": "attention",
    "optimizer": "the optimizer",
    "update": "the optimizer",
    "host": "waiting for the host",
    "fixed": "a fixed time",
    "jitter": "waiting for the slowest",
    "software": "drift of software",
    "memory": "waiting for memory",
}
"""Parts of an iteration beside matrix products, in words."""
MOST_WAITS = 2
LEAST_WAIT = 0.005
"""Shares of an iteration below which a part is not named [1]."""


class ScreenCase(Struct, frozen=True):
    """A row of the screen: networks that are the same, in one comparison of one or several."""

    compared: Compared
    rows: tuple[FabricRow, ...]
    label: str = ""

    @property
    def row(self) -> FabricRow:
        """The first of the networks, which stands for all."""
        return self.rows[0]


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
    groups = [ScreenCase(answer, tuple(group)) for group in groups_of(answer.rows)]
    remarks: list[str | Section] = []
    cooled = _cooled(answer)
    if answer.budget:
        remarks.append(" ".join(answer.budget.sentences(answer.leading)))
    plan, loss = [*_plan(answer)], [*_loss_on_rails(answer)]
    # What is said of experts on rails, and rail-only by HB domain, stay where the plan gives way.
    first, then = (loss, " ".join(plan)) if answer.forwarded else ([], " ".join((*plan, *loss)))
    domains, paper = _domains(answer), _paper(answer)
    cliff = next((cliff.sentence for cliff in answer.price_cliffs), "")
    in_sites = answer.leading.sites_words if answer.leading else ""
    cooled = "" if in_sites else cooled  # one of them beside what is trained
    remarks += filter(None, (in_sites, *step_remarks(answer), cooled, cliff, *first))
    remarks += [Verbatim(domains)] if domains else []
    remarks += filter(None, (then,))
    remarks += [Verbatim(paper)] if paper else []
    absent = [*gear_words([group.row for group in groups[:MOST_ROWS]])]
    if left_out := [*answer.left_out]:
        absent.append(f"Not in the money: {listed(left_out)}.")
    wanted = answer.verdict.fabric if answer.verdict else None
    bills = {row.label: row.bill for row in answer.rows if row.bill is not None}
    bill = bills.get(wanted or "") or next(iter(bills.values()), None)
    if made_of := (evidence_words(bill.quote) if bill is not None else ""):
        absent.append(f"Price: {made_of}.")
    sizes = [size for size in DOMAIN_SIZES if size <= answer.inputs["gpus"]]
    others = [size for size in sizes if size != answer.inputs["hb_size"]][:2]
    several = "" if answer.serves else "".join(f" --hb-size {size}" for size in others)
    if answer.reinforces:
        several = "".join(f" --oversubscription {ratio}" for ratio in (1, 2, 4))
    shown = Screen(
        heading=Heading(_title(answer), tuple(subtitle(answer))),
        verdict=tuple(_verdict(answer)),
        table=networks(groups, legend=(" ".join((*legend(groups[:MOST_ROWS]), *absent)),)),
        remarks=tuple(remarks),
        more=f"More: --details{several and f',{several}'}, --model NAME, --help, netplan diff",
        gives_way=GIVES_WAY,
        least_gap=1,
        most_rows=MOST_ROWS,
        # Above a capped GPU's screen stands what it computes, in the place of the cliff.
        firm_remarks=bool(answer.budget)
        + bool(cliff and "gpu_speed" not in answer.inputs)
        + bool(cooled)
        + bool(in_sites),
    )
    yield from shown.sections()


def _cooled(answer: Compared) -> str:
    """What the cooling that is asked for makes of the network's power; empty where none is."""
    row, terms = answer.leading, answer.terms
    if answer.budget or not row or not row.bill or terms is None or not terms.opex.cooled_by:
        return ""
    pue, life = terms.opex.pue, row.candidate(terms).life
    hall_w = row.bill.draw.typical_w * pue.base
    energy = f", {life.energy_kwh_per_year.base / KILO:,.0f} MWh a year" if life else ""
    return (
        f"Cooled by {terms.opex.cooled_by}: PUE {pue.base:.4g} ({pue.low:.3g}-{pue.high:.3g});"
        f" {row.label} with its cooling {si(hall_w, 'W')}{energy}."
    )


def gear_words(rows: Sequence[FabricRow]) -> Iterator[str]:
    """Whether the money holds the gear inside HB domains, which has a column of its own."""
    bought = [row for row in rows if row.sold and row.fabric and not row.gear_in_server]
    if any(row.gear_counted for row in bought):
        yield "In the money: gear inside HB domains."
    elif any(row.gear for row in bought):
        yield "gear: inside HB domains, not in the money (--with hb-gear)."


def same_network(answer: Compared, verdict: Verdict) -> list[FabricRow]:
    """Rows of the fabrics that tie, where all of them are the same network; else none."""
    rows = [row for row in answer.rows if row.label in verdict.tied]
    return rows if rows and len(groups_of(rows)) == 1 else []


def _title(answer: Compared) -> str:
    """The scenario, its GPUs and its switches; those with their whole rate where that fits."""
    inputs = answer.inputs
    speed, radix = inputs["link_gbps"], inputs["radix"]
    title = (
        f"{inputs['scenario']}: {inputs['gpus']:,} {answer.about.accelerator} in HB domains of"
        f" {inputs['hb_size']:,}, {radix}-port switches of {speed:g}G"
    )
    model = inputs.get("stands_for")
    if model and len(title) + len(f" (as {model})") > WIDTH:
        title = (
            f"{inputs['scenario']}: {inputs['gpus']:,} {answer.about.accelerator}, HB"
            f" {inputs['hb_size']:,}, switches of {radix} x {speed:g}G"
        )
    known = (f" ({radix * speed / KILO:.4g}T box, e.g. {model})", f" (as {model})")
    words = known if model and speed >= WHOLE_FROM else ()
    return next((title + word for word in words if len(title + word) <= WIDTH), title)


def subtitle(answer: Compared, *others: Compared) -> Iterator[str]:
    """What runs, by which model of time, and the books; what a power cap makes of the GPUs.

    Of several cases there is one line: batches from the smallest to the largest.
    """
    about, inputs = answer.about, answer.inputs
    books = f"prices {inputs['prices']}{hall_words(inputs)}"
    if box := str(inputs.get("stands_for", "")).partition(" ")[0]:
        named = "" if others else f" (--switch {box.lower()}: its own)"
        books += f"; single-port modules{named}"
    prices = "; ".join(filter(None, (found_words(inputs), books)))
    if answer.serves:
        words = f"{about.model} in {inputs['precision']}, prompts of {inputs['prompt']:,} tokens"
        yield f"{words}, answers of {inputs['output']:,}; {prices}"
    elif not inputs["timing"]:
        yield prices
    elif answer.reinforces:
        from netplan.answers.post_training_words import step_inputs_words

        yield f"{step_inputs_words(inputs)}; {prices}"
    else:
        sizes = sorted({case.about.batch for case in (answer, *others)})
        batch = f"batch {'-'.join(f'{size:,}' for size in dict.fromkeys((sizes[0], sizes[-1])))}"
        if about.sequence_length:
            batch += f" x {about.sequence_length:,}"
        what = ", ".join(filter(None, (about.model, about.precision, batch)))
        yield "; ".join(filter(None, (what, about.dated, prices)))
    yield from capped_words(answer.inputs)


def _verdict(answer: Compared) -> Iterator[str]:
    """What to order, what separates it from the any-to-any Clos, what turns that; sentences."""
    verdict, chosen = answer.verdict, answer.chosen
    if verdict is None:
        reasons = {
            note
            for row in answer.rows
            for note in row.notes
            if note.startswith((UNSERVED, NO_STEP))
        }
        if len(reasons) == 1 and not any(row.served or row.stepped for row in answer.rows):
            yield from reasons
            return
        yield (
            "Nothing can be compared: no fabric has a price for all that sets it apart (--details"
            " says what they lack)."
        )
        return
    same = () if answer.by_unit else same_network(answer, verdict)
    for row in same[:1]:
        names = listed([other.label for other in same])
        price = short_money(row.cost.base, answer.currency) if row.cost else "no price"
        yield f"Order the Clos: {price}; {names} are the same network here."
    if same:
        yield from (_flip(change) for change in verdict.changes[:1])
        return
    if chosen is None or chosen.cost is None or answer.by_unit:
        yield verdict.sentence.replace(" (see the notes)", "")
        yield from step_verdict(answer)
        yield from filter(None, [answer.hall])
        return
    price = "" if chosen.cost_whole or not chosen.cost_complete else "≥ "
    price += short_money(chosen.cost.base, answer.currency)
    spec = answer.specs.get(chosen.name)
    makers = supported_in_short(spec, answer.chip) if spec is not None else ""
    unmade = " (no maker supports it)" if makers == NO_MAKER else ""
    start = f"{_verb(answer, chosen)} {chosen.label}{unmade}: {price}"
    record = verdict.decision
    second = next((row for row in answer.rows if row.label == record.runner_up), None)
    if second is None or second.bill is None or chosen.bill is None:
        yield f"{start}{f', {chosen.best.time_text} an iteration' if chosen.best else ''}."
    else:
        yield from _apart(start, chosen, second, record)
    yield from (_flip(change) for change in verdict.changes if change.lever != "price")
    yield from filter(None, [answer.hall])
    if spec is not None and chosen.fabric and chosen.fabric.sizing.domains > 1:
        made = f" ({makers})" if makers and not unmade else ""
        yield f"Given up: {given_up_in_short(spec) or 'see --details'}{made}."


def _verb(answer: Compared, chosen: FabricRow) -> str:
    """What to do with the fabric: order it, unless it, or its switches, cannot be bought."""
    if answer.no_box:
        return f"{NOT_AN_ORDER} For study"
    if any(caution.endswith(NOT_YET) for caution in answer.inputs.get("cautions", ())):
        return "Cannot be ordered yet: not an order. For study"
    if not chosen.sold:
        return f"Not sold for {answer.about.accelerator}: not an order. For study"
    return "Order"


def _apart(start: str, chosen: FabricRow, second: FabricRow, record: Decision) -> Iterator[str]:
    """What separates the order from the runner-up: money, time, parts, and at which prices."""
    name = second.label
    margin, share = record.margin_money, record.margin_money_share
    ours, theirs = chosen.bill, second.bill
    if margin is None or share is None or ours is None or theirs is None:
        return
    compared = _relative_time(chosen, second)
    if abs(share) < SAME_MONEY:
        yield f"{start}, the same money as {name}{compared}."
        return
    less = Scale.of(theirs.capital.base, "").apart(ours.capital.base, theirs.capital.base)
    more = f"{short_money(abs(less))} ({100 * abs(share):.0f} %)"
    parts = difference_words(ours, theirs)
    yield f"{start}, {more} {'less' if less > 0 else 'more'} than {name}{compared}: {parts}."
    if margin.low > 0:
        scale = Scale.short(margin.high, "")
        ends = f"{scale.number(margin.low)} to {scale.number(margin.high)} {scale.title}".rstrip()
        if not round(margin.low / scale.factor, scale.digits):
            ends = f"{short_money(margin.low)} to {short_money(margin.high)}"
        span = f" (by {ends})" if margin.spread else ""
        yield f"Cheaper at every price of the book{span}."


def _flip(change: Change) -> str:
    """What would let another fabric win, in a sentence as short as it can be."""
    if change.lever == "bandwidth" and change.value is not None:
        now, needed = (8 * rate / GIGA for rate in (change.now, change.value))
        return f"Flips to {change.fabric} from {needed:,.0f} Gb/s a GPU on (now {now:,.0f})."
    return change.sentence


def _relative_time(row: FabricRow, baseline: FabricRow) -> str:
    """How much faster or slower a fabric trains than the any-to-any Clos."""
    if row.best is None or baseline.best is None:
        return ""
    slower = row.time_s / baseline.time_s - 1
    if abs(slower) < AS_FAST:
        return " and as fast"
    within = ", within the error" if row.best.as_fast_as(baseline.best) and row.best.error else ""
    return f" and {100 * abs(slower):.1f} % {'slower' if slower > 0 else 'faster'}{within}"


def groups_of(rows: Sequence[FabricRow]) -> list[list[FabricRow]]:
    """Fabrics, those that are the same network to the last part and second together.

    The best known of them goes first, whose bar the row shows.
    """
    groups: dict[object, list[FabricRow]] = {}
    for row in rows:
        fabric = row.fabric
        key: object = row.label
        if fabric is not None and fabric.switches:
            price = row.cost.base if row.cost else None
            counts = len(fabric.tiers), fabric.switches, fabric.transceivers
            times = row.time_s, row.stepped.step_s if row.stepped else 0.0
            seconds = " ".join(f"{time_s:.4g}" for time_s in times)
            key = (*counts, price, row.power_w, seconds, row.memory, row.gear)
        groups.setdefault(key, []).append(row)
    return [
        sorted(group, key=lambda row: (bool(row.built_with), _spread(row.best)))
        for group in groups.values()
    ]


def _spread(best: PlanTime | None) -> float:
    """High end of a time's bar over its low end [1]."""
    return best.error.whole.high / best.error.whole.low if best and best.error else 1.0


def networks(cases: Sequence[ScreenCase], *, several: bool = False, **table: Any) -> Table[Any]:  # noqa: ANN401 - of any type
    """A row a network with its counts, money, power and time; what lies inside HB domains apart."""
    rows, first = [case.row for case in cases], cases[0].compared
    # What can be bought says how fine the money is: a product of another size may be far dearer.
    best = first.verdict.fabric if first.verdict else None
    bought = [row for row in rows if row.label == best] or [row for row in rows if row.sold]
    prices = [cost.base for row in bought if (cost := _price(row, several=several))]
    scale = Scale.short(max(prices, default=0.0), first.currency)
    watts = [row.power_w for row in rows if row.power_w is not None]
    factor, unit = power_scale(max(watts, default=0.0))
    titles = {"fabric": "Fabric", "tiers": "tiers", "switches": "switches", "modules": "modules"}
    titles |= {"money": scale.title, "range": "low-high"}
    geared = any(row.gear and row.sold for row in rows[: len(rows) if several else MOST_ROWS])
    if geared or (several and not all(row.gear_in_server for row in rows)):
        titles["gear"] = "gear"
    titles["power"] = unit
    if any(case.compared.budget for case in cases):
        titles["fit"] = "GPUs fit"
        if any(row.best for case in cases for row in case.compared.rows):
            titles["rate"] = "tokens/s"
    if first.serves:
        titles |= {"tokens_per_s": "tokens/s", "tokens_cost": f"{first.currency}/M tokens"}
    elif first.reinforces:
        titles |= {"step": "step", "sync": "sync", "step_tokens": "tok/s/GPU"}
        titles |= {"step_cost": f"{first.currency}/step", "share": "network"}
    elif any(row.best for case in cases for row in case.compared.rows):
        titles |= {"iteration": "iteration s", "mfu": "MFU"}
    if not first.reinforces:
        titles["saves"] = "saves"
    if not any(row.cost and row.cost.spread for row in rows):
        titles.pop("range")
    shown: list[Column[Any]] = [
        column(Quantity(name, title, form="text" if name == "fabric" else "code"), f"1.{name}")
        for name, title in titles.items()
    ]
    texts = [(case, _texts(case, scale, factor, several=several)) for case in cases]
    return Table("networks", shown, texts, below=lambda line: _below(line[0]), gap=2, **table)


def _texts(case: ScreenCase, scale: Scale, factor: float, *, several: bool) -> dict[str, str]:
    """What a row of the screen says, by the names of its columns."""
    row, against = case.row, case.compared.against
    texts = {"value": case.label, "fabric": _marked(row)}
    if row.fabric is None or row.bill is None:
        return texts
    texts["tiers"] = f"{len(row.fabric.tiers)}"
    texts["switches"] = f"{row.fabric.switches:,}"
    texts["modules"] = f"{row.bill.ordered('transceiver'):,}"
    cost = _price(row, several=several)
    if cost is not None:
        texts["money"] = f"{'' if row.cost_whole else '≥'}{scale.number(cost.base)}"
        partial_sum = None if row.cost_whole else cost.base
        texts["range"] = scale.span(cost.low, cost.high, least=partial_sum) if cost.spread else ""
    priced = "no price" if row.gear is None else scale.number(row.gear)
    texts["gear"] = "in server" if row.gear_in_server else priced
    if row.power_w is not None:
        least = "" if row.power_whole else "≥"
        # Kilowatts whole from ten on, megawatts to a tenth.
        digits = 0 if factor == KILO and row.power_w / factor >= WHOLE_FROM / 10 else 1
        texts["power"] = f"{least}{row.power_w / factor:,.{digits}f}"
    if row.served:
        texts["tokens_per_s"] = f"{row.served.plan.tokens_per_s:,.0f}"
        texts["tokens_cost"] = f"{row.served.cost.total.base:,.3g}" if row.served.cost else DASH
    if row.stepped:
        texts |= _stepped(row.stepped)
    if case.compared.budget:
        texts["fit"] = case.compared.budget.fit_of(row.name)
        rate = case.compared.budget.rate_of(row)
        texts["rate"] = DASH if rate is None else si(rate)
    texts["iteration"] = _seconds(row.best)
    if row.mfu is not None:
        texts["mfu"] = f"{100 * row.mfu:.0f}%"
    whole = _price(against, several=several) if against else None
    if cost and whole and whole.base:
        saved = 1 - cost.base / whole.base
        share = f"{'' if row.cost_whole else '≤'}{round(100 * saved)}%"
        texts["saves"] = "base" if row is against else "none" if saved < -1 else share
    return texts


def _stepped(stepped: "Stepped") -> dict[str, str]:
    """What a row says of a step of post-training: at least so long, and so much."""
    facts, price = stepped.facts, stepped.price
    sign = "≥" if stepped.bound else ""
    texts = {"step": f"{sign}{si(stepped.step_s, 's')}", "sync": si(facts["sync_s"], "s")}
    texts["step_tokens"] = f"{'≤' if sign else ''}{facts['tokens_per_s_per_gpu']:,.0f}"
    known = price.step
    texts["step_cost"] = f"{sign}{known.total.base:,.4g}" if known else DASH
    share = price.network_share
    texts["share"] = DASH if share is None else f"{100 * share:.2g}%"
    return texts


def _price(row: FabricRow, *, several: bool) -> Range | None:
    """Price of a network; with gear inside HB domains where that has no column of its own."""
    return network_price(row.bill) if several and row.bill and row.cost else row.cost


def _marked(row: FabricRow) -> str:
    """A fabric, with the sign of those that are not sold so."""
    marks = (("*", not row.sold), ("†", bool(row.media_given)))
    return " ".join([row.label, *(mark for mark, counts in marks if counts)])


def _below(case: ScreenCase) -> str:
    """Fabrics that are the same network as the one in the row above; nothing in tables by value."""
    if case.row.fabric is None:
        return "  cannot be built (--details says why)"
    others = () if case.label else case.rows[1:]
    return f"  = {' = '.join(map(_marked, others))}" if others else ""


def _seconds(best: PlanTime | None) -> str:
    """An iteration time with its bar, in seconds."""
    if best is None:
        return DASH
    seconds = best.iteration_time_s
    if seconds < 0.1:  # noqa: PLR2004 - below, milliseconds say more
        return si(seconds, "s", 3)
    if best.error is None:
        return f"{seconds:.4g}"
    digits = ".2g" if seconds < WHOLE_FROM / 10 else ".0f"
    low, high = best.error.whole.of(seconds)
    return f"{seconds:.3g} ({low:{digits}}-{high:{digits}})"


def legend(cases: Sequence[ScreenCase]) -> Iterator[str]:
    """What the signs mean, and whose domains are others than asked for, a sentence each."""
    rows = [row for case in cases for row in case.rows]
    if not all(row.sold for row in rows):
        chips = {case.compared.about.accelerator for case in cases}
        yield f"* {not_sold(chips.pop() if len(chips) == 1 else 'these')}: not in the verdict."
    for sold_as in dict.fromkeys(case.compared.about.sold_as for case in cases):
        if sold_as:
            yield f"In {sold_as}."
    if any(row.media_given for row in rows):
        yield f"† {GIVEN}."
    other: dict[int, list[str]] = {}
    for case in cases:
        for row in case.rows:
            size = row.fabric.sizing.hb_size if row.fabric else 0
            if size not in (0, case.compared.inputs["hb_size"]):
                other.setdefault(size, []).append(row.label)
    for size, labels in other.items():
        names = [*dict.fromkeys(labels)]
        verb = "comes" if len(names) == 1 else "come"
        yield f"{listed(names)} {verb} with domains of {size:,}."


def _plan(answer: Compared) -> Iterator[str]:
    """What the best plan is, and where its time goes; sentences."""
    row = answer.chosen or next((row for row in answer.rows if row.best), None)
    best = row.best if row else None
    if row is None or best is None or row.mfu is None:
        if not answer.by_unit and answer.inputs["timing"]:
            noted = next((row.notes for row in answer.rows if row.fabric and row.notes), ())
            yield " ".join(["Not timed:", *noted[-2:]]) if noted else ""
        return
    if not best.plan.shape or row.timed is None or row.timed.exchange is not None:
        return
    plan = best.plan
    degrees = [("TP", plan.tensor), ("CP", plan.context), ("PP", plan.pipeline)]
    degrees += [("DP", plan.data), ("EP", plan.expert)]
    shown = [f"{sign}{degree}" for sign, degree in degrees if degree > 1 or sign in "TPPPDP"]
    yield (
        f"Plan {' '.join(shown)}, {plan.schedule_words}: MFU {100 * row.mfu:.0f} %, since"
        f" {_waits(best)}."
    )
    if best.memory and not best.memory.fits:
        yield f"No plan is sure to fit: {best.memory.words}."


def _loss_on_rails(answer: Compared) -> Iterator[str]:
    """What rails lose where they are chosen or have experts, and why, in a sentence."""
    forwarding, baseline = answer.forwarded, answer.baseline
    row = answer.chosen or next((row for row in answer.rows if row.best), None)
    rails = [
        known
        for known in answer.rows
        if known.fabric and known.fabric.network == "rail-only" and known.best
    ]
    if forwarding and rails and row not in rails:
        row = rails[0]
    best = row.best if row else None
    if row is None or best is None or not baseline or not baseline.best:
        return
    if row not in rails or not best.plan.shape or row.mfu is None:
        return
    if row.timed is None or row.timed.exchange is not None:
        return
    loss = 100 * rails_loss(row.time_s, baseline.time_s)
    experts = [100 * timed.shares.get("expert_comm", 0.0) for timed in (best, baseline.best)]
    shares = (
        f" (experts {experts[0]:.1f} %, on the Clos {experts[1]:.1f} %; no such run is published)"
    )
    yield (
        f"{row.label[:1].upper()}{row.label[1:]} loses {loss:.1f} %"
        f"{shares if any(experts) else ''}"
        f"{f': {forwarding.reason}' if forwarding else ''}."
    )


def _waits(best: PlanTime) -> str:
    """Shares of an iteration that are no matrix products, the largest first."""
    shares = best.shares
    named = [(shares.get(part, 0.0), words) for part, words in WAITS.items()]
    large = sorted((pair for pair in named if pair[0] >= LEAST_WAIT), reverse=True)[:MOST_WAITS]
    texts = [f"{words} {100 * share:.0f} %" for share, words in large]
    products = f"matrix products take {100 * shares.get('compute', 0.0):.0f} % of time"
    return ", ".join([products, *texts])


def _domains(answer: Compared) -> tuple[str, ...]:
    """Rail-only by HB domain: the network, with its gear where that counts, and the gear alone.

    The table has what it saves, of domains of the cluster's size, against the runner-up.
    """
    rows = answer.by_hb_size
    counted = any(row.gear_counted for row in answer.rows)
    if len(rows) < 2:  # noqa: PLR2004 - nothing to compare
        return ()
    asked_size, title = answer.inputs["hb_size"], f"  M {answer.currency}"
    cells = [
        [
            "Rail-only by HB domain",
            *(f"{row.hb_size:,}{' (here)' if row.hb_size == asked_size else ''}" for row in rows),
        ],
        [title, *(_domain_price(row, counted=counted) for row in rows)],
        [f"  gear inside{', in that' if counted else ' domains'}", *map(_domain_gear, rows)],
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = ["<", *">" * len(rows)]
    return tuple(
        "  ".join(
            f"{text:{sign}{width}}" for text, sign, width in zip(line, signs, widths, strict=True)
        )
        for line in cells
    )


def _domain_price(row: DomainRow, *, counted: bool) -> str:
    """Price of a network, with the gear inside its domains where that counts."""
    gear = row.gear.base if counted and not row.in_server else 0.0
    if row.cost is None or (gear and not row.gear_known):
        return DASH
    return short_money(row.cost.base + gear).removesuffix(" M")


def _domain_gear(row: DomainRow) -> str:
    """Price of the gear inside HB domains."""
    if row.in_server:
        return "in server"
    return short_money(row.gear.base) if row.gear_known else "no price"


def _paper(answer: Compared) -> tuple[str, ...]:
    """What the rail-only paper itself says, and how to ask for that."""
    paper = answer.paper() if answer.paper else None
    if paper is None or paper.cost.base < MEGA or not answer.by_hb_size or answer.by_unit:
        return ()
    price = f"{short_money(paper.cost.base)}, {100 * paper.saved:.0f} %"
    start = f"The paper ({paper.words}: {price}): "
    line = f"{start}compare {paper.command}"
    return (line if len(line) <= WIDTH else f"{start}{paper.command}",)
