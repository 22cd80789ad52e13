"""Which network to buy: by a rule that is stated, and with what would change it.

Rules, of the fabrics that have a price for all that sets them apart:

``near-fastest``  the lowest price among those that train nearly as fast as the fastest;
``run-cost``      the cheapest training run: GPU hours, and the network's share of its yearly cost;
``price``         the lowest price;
``fastest``       the shortest iteration, whatever the price;
``tokens``        the lowest price of a million tokens, of fabrics that serve;
``step``          the lowest price of a step of post-training.

A product that is built with other accelerators than those asked for is shown, and never wins.

Iteration times that differ by less than the model's error are not told apart
(`netplan.decide.candidates`), so nothing is recommended for such a difference, nor
where two cost the same: that is a tie. Nor is anything recommended over what costs less at some
prices of the book, each the same for both (`netplan.costing.pricing.difference_range`), or is told
apart by less than a percent, of its network's price or by a limit of times: then offers are to be
asked for. A network of rails alone competes if it is cheaper than a Clos by that. The runner-up
wins at another price, at another value of a day of training, or with more network bandwidth.

A run of d days on a network of yearly cost y costs d (y / 365 + v), where a day of all GPUs is
worth v. Two runs cost the same at v = (d2 y2 - d1 y1) / 365 / (d1 - d2).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isclose

from msgspec import Struct
from msgspec.structs import astuple

from netplan.costing.pricing import break_even, difference_range
from netplan.costing.ranges import Range
from netplan.decide.candidates import (
    AS_FAST,
    UNITS,
    Basis,
    Candidate,
    RunBudget,
    bought,
    nearly_fastest_s,
)
from netplan.decide.record import Change, Decision, beside_the_next, price_difference
from netplan.records import replace
from netplan.reports.quantities import listed, part_words, short_money
from netplan.units import GIGA

MOST_BANDWIDTH, BANDWIDTH_STEP = 4.0, 0.01
"""Times the bandwidth of today up to which a slower fabric is tried, and how exactly [1]."""

SENSIBLE = 10.0
"""Times the GPU hours of a day, up or down, that a day of training may be worth [1]."""
HAIR = 0.01
"""Share of a time, or of a network's price, that tells two fabrics apart; less does not [1]."""

BandwidthSolver = Callable[[str, float], float | None]
"""Network bandwidth a GPU at which a fabric trains within a time [B/s]; None if at no such."""


class Verdict(Struct, frozen=True):
    """What to buy; no fabric where several tie, the cheapest of them first.

    Then the rule, what would change the verdict, what a buyer must know of the best, and the same
    as data.
    """

    json_parts = ("fabric", "rule", "sentence", "tied", "changes", "caveats")

    fabric: str | None
    rule: str
    sentence: str
    tied: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    caveats: tuple[str, ...] = ()
    record: Decision | None = None

    @property
    def decision(self) -> Decision:
        """The verdict as data."""
        return self.record or Decision("none", self.rule)


def decide(
    candidates: Sequence[Candidate], basis: Basis, probe: BandwidthSolver | None = None
) -> Verdict | None:
    """Choose by the rule; None where nothing can be compared.

    Examples
    --------
    >>> from netplan.reports.quantities import Scale
    >>> basis = Basis("near-fastest", 0.05, None, Scale(1e6, "M USD", 1))
    >>> clos = Candidate("clos", 100e6, True, 10.0, None, 50e9)
    >>> rails = Candidate("rails", 60e6, True, 10.2, None, 50e9)
    >>> print(decide([clos, rails], basis).sentence)
    Within 5 % of the fastest, rails costs least: 60.0 M USD.
    """
    given = [candidate.name for candidate in candidates if candidate.media_given]
    candidates = bought(candidates)
    if given and not candidates:
        none = (
            f"Media of {listed(given)} are given by the file: none is recommended until a hall"
            " confirms them."
        )
        return Verdict(None, _rule_words(basis), none, ())
    # One HB domain holds all GPUs of these, which no network then joins.
    lone = [
        fabric
        for fabric in candidates
        if fabric.bill is not None and fabric.bill.fabric.sizing.domains == 1
    ]
    if basis.rule not in UNITS and 2 * len(lone) > len(candidates):  # others bring smaller domains
        return Verdict(None, _rule_words(basis), _no_network(lone[0], basis), ())
    if basis.rule not in ("price", *UNITS) and all(fabric.time_s == inf for fabric in candidates):
        if candidates and basis.timing:
            none = "No fabric trains the model in this size (see the notes): none is recommended."
            return Verdict(None, _rule_words(basis), none, ())
        basis = replace(basis, rule="price")
    candidates, nothing = _gained(candidates, basis)
    field = list(_field(candidates, basis))
    if not field:
        return _too_slow(candidates, basis)
    best = min(field, key=lambda fabric: _value(fabric, basis))
    even = [fabric for fabric in field if not any(_beats(other, fabric, basis) for other in field)]
    near = [] if basis.rule != "near-fastest" else _at_limit(candidates, field, best, basis)
    ranges = {
        fabric.name: margin
        for fabric in field
        if fabric not in (*even, *near)
        and ((margin := _margin(best, fabric, basis)).low <= 0 or _by_a_hair(best, fabric, basis))
    }
    may = [fabric for fabric in field if fabric.name in ranges]
    caveats = (
        *([f"Aside, since the file gives the medium: {listed(given)}."] if given else []),
        *_aside(candidates, best, basis),
        *_unlike(candidates, best),
        *_other_lines(candidates, best, basis),
        *_switchless(candidates, best, basis),
        *(
            f"{name} gives up traffic between rails, and is not 1 % cheaper than {clos}."
            for name, clos in nothing.items()
        ),
    )
    parts = (*even, *near, *may)
    names = tuple(fabric.name for fabric in sorted(parts, key=lambda fabric: fabric.price))
    sentence = " ".join(
        (
            *([f"Undecided: ask for offers on {listed(names)}."] if near or may else []),
            f"{_sentence(even, best, basis)}.",
            *_but(near, best, basis),
            *_may_cost_less(ranges, basis),
            *caveats,
        )
    )
    if near:
        changes = _by_bandwidth(candidates, near, best, basis, probe)
    else:
        apart = [fabric for fabric in field if fabric is best or fabric not in even]
        changes = _changes(candidates, apart, best, basis, probe)
    alone, tied = (best.name, ()) if len(names) == 1 else (None, names)
    rule, flips = _rule_words(basis), tuple(changes)
    outcome = Decision("buy", rule, tied=tied, flips=flips, caveats=caveats)
    first = next(fabric for fabric in candidates if fabric.name == names[0])
    record = beside_the_next(outcome, first, candidates)
    return Verdict(alone, rule, sentence, tied, flips, caveats, record)


def _no_network(fabric: Candidate, basis: Basis) -> str:
    """Say that no network has to be ordered, and what joins the GPUs."""
    bill = fabric.bill
    joined = "what joins them comes with the servers"
    if bill is not None and not bill.inside.known:
        joined = "the gear inside it has no price in this book"
    elif bill is not None and bill.inside.bought:
        gear = bill.inside.quote.total
        ends = short_money(gear.low), short_money(gear.high)
        joined = (
            f"the gear inside it costs {short_money(gear.base, basis.money.title.split()[-1])}"
            f" ({ends[0]} to {ends[1]}), beside the network"
        )
    gpus = f"{bill.gpus:,} " if bill is not None else ""
    return (
        f"No network between HB domains is needed: one holds all {gpus}GPUs, and {joined}. What is"
        " priced here leads out of it."
    )


def _margin(best: Candidate, other: Candidate, basis: Basis) -> Range:
    """What another one takes more of what the rule makes small, low to high, by all prices.

    Of a training run GPU hours and energy are at their base: times of one model move together, and
    so do prices that both networks pay. Times that are not told apart count as the same.
    """
    more = Range.point(_value(other, basis) - _value(best, basis))
    if best.bill is None or other.bill is None or basis.rule == "fastest":
        return more
    if basis.rule in UNITS:
        return price_difference(best, other)
    if basis.rule != "run-cost" or basis.run is None:
        return difference_range(best.bill.quote, other.bill.quote)
    run = basis.run
    alike = replace(other, time_s=best.time_s) if basis.same_time(best, other) else other
    weights = (run.paid_back(best), run.paid_back(alike))
    prices = difference_range(best.bill.quote, other.bill.quote, weights)
    return prices + Range.point(run.cost(alike) - run.cost(best) - prices.base)


def _by_a_hair(best: Candidate, other: Candidate, basis: Basis) -> bool:
    """Whether less than a percent of what another one pays for its network separates the two.

    GPU hours of runs and of tokens are far more money, and not what is bought.
    """
    network = other.price
    if basis.rule == "run-cost" and basis.run:
        network = basis.run.network(other)
    elif basis.rule in UNITS and other.bill is not None:
        network = other.share * other.bill.capital.base
    apart = _value(other, basis) - _value(best, basis)
    return basis.rule != "fastest" and apart < HAIR * network


def _gained(
    candidates: Sequence[Candidate], basis: Basis
) -> tuple[list[Candidate], dict[str, str]]:
    """Candidates that gain by what they give up, and a Clos for each of the rest.

    Networks of rails alone give up traffic between rails: for nothing, if they cost less than an
    any-to-any one that competes by less than a percent, or more.
    """
    open_to_all = [fabric for fabric in candidates if _wired(fabric) == "any-to-any"]
    clos = [] if basis.rule == "fastest" else [*_field(open_to_all, basis)]
    least = min(clos, key=lambda fabric: fabric.price, default=None)
    if least is None:
        return [*candidates], {}
    nothing = {
        fabric.name: least.name
        for fabric in candidates
        if fabric.complete
        and _wired(fabric) == "rail-only"
        and fabric.price > (1 - HAIR) * least.price
    }
    return [fabric for fabric in candidates if fabric.name not in nothing], nothing


def _wired(fabric: Candidate) -> str:
    """The kind of network between several HB domains; empty where there is none."""
    known = fabric.bill.fabric if fabric.bill is not None else None
    return known.network if known is not None and known.sizing.domains > 1 else ""


def _may_cost_less(ranges: Mapping[str, Range], basis: Basis) -> Iterator[str]:
    """Say who may cost less than the best at prices within their ranges."""
    unit = " for the run" if basis.rule == "run-cost" else ""
    for name, margin in ranges.items():
        low, base, high = (
            f"{end:+,.4f}" if basis.rule in UNITS else short_money(end, sign=True)
            for end in astuple(margin)
        )
        less = "; less than 1 % tells nothing apart" if margin.low > 0 else ""
        yield f"{name}: {base}{unit}, {low} to {high} by the prices of the book{less}."


def _too_slow(candidates: Sequence[Candidate], basis: Basis) -> Verdict | None:
    """No fabric, where those with a whole price are slow beside one without; else nothing."""
    fastest = min(candidates, key=lambda fabric: fabric.time_s, default=None)
    if (
        fastest is None
        or basis.rule != "near-fastest"
        or not any(fabric.complete for fabric in candidates)
    ):
        return None
    sentence = (
        f"No fabric with a whole price trains as fast as {fastest.name}, of which parts have none,"
        f" within {100 * basis.within:g} %: none is recommended."
    )
    return Verdict(None, _rule_words(basis), sentence, ())


def _field(candidates: Sequence[Candidate], basis: Basis) -> Iterator[Candidate]:
    """Who competes."""
    fastest = min(candidates, key=lambda fabric: fabric.time_s, default=None)
    for fabric in candidates:
        timed = fabric.time_s < inf
        match basis.rule:
            case "near-fastest":
                competes = fabric.complete and (fastest is None or basis.nearly(fabric, fastest))
            case "run-cost":
                competes = fabric.complete and timed and fabric.life is not None
            case "fastest":
                competes = timed
            case _:
                competes = fabric.complete
        if competes:
            yield fabric


def _at_limit(
    candidates: Sequence[Candidate], field: Sequence[Candidate], best: Candidate, basis: Basis
) -> list[Candidate]:
    """Who is kept from winning, or from losing, by less than is known of times.

    Cheaper fabrics that are too slow by the fastest, but not told apart from the best, or beyond
    the limit by less than a percent; and who would win if the best, inside by so little, were out.
    """
    late = [
        fabric
        for fabric in candidates
        if fabric.complete
        and fabric.price < best.price
        and fabric not in field
        and (basis.nearly(fabric, best) or _hair(candidates, fabric, basis))
    ]
    if late or not _hair(candidates, best, basis):
        return late
    sure = [fabric for fabric in field if not _hair(candidates, fabric, basis)]
    return sorted(sure, key=lambda fabric: fabric.price)[:1]


def _hair(candidates: Sequence[Candidate], fabric: Candidate, basis: Basis) -> bool:
    """Whether the limit of times puts a fabric in or out by less than a percent."""
    fastest = min(candidates, key=lambda other: other.time_s)
    if fabric.time_s == inf or (basis.same_time(fabric, fastest) and basis.barred):
        return False
    return abs(fabric.time_s / fastest.time_s - 1 - basis.within) < HAIR


def _but(near: Sequence[Candidate], best: Candidate, basis: Basis) -> Iterator[str]:
    """Say who is aside for less than the model's error, or than a percent."""
    if not near:
        return
    other = min(near, key=lambda fabric: fabric.time_s)
    apart = basis.money.less(*sorted((other.price, best.price)))
    money = f"{apart} {basis.money.title} {'less' if other.price < best.price else 'more'}"
    slower = other.time_s / best.time_s - 1
    gap = f"{100 * abs(slower):.1f} % {'slower' if slower > 0 else 'faster'} than {best.name}"
    if slower > 0 and basis.nearly(other, best):
        why = "less than the model's error"
    else:
        why = f"and the limit of {100 * basis.within:g} % tells them apart by less than a percent"
    yield (
        f"But {other.name}, {money}, trains {'only ' if slower > 0 else ''}{gap}, {why}: neither"
        " is recommended over the other."
    )


def _value(fabric: Candidate, basis: Basis) -> float:
    """What the rule makes small."""
    if basis.rule == "fastest":
        return fabric.time_s
    return basis.run.cost(fabric) if basis.rule == "run-cost" and basis.run else fabric.price


def _beats(fabric: Candidate, other: Candidate, basis: Basis) -> bool:
    """Whether one is better than another, by more than the model's error where times decide."""
    value, least = _value(fabric, basis), _value(other, basis)
    if value >= least or isclose(value, least, rel_tol=1e-9):
        return False
    if basis.rule in ("price", *UNITS, "near-fastest") or not basis.same_time(fabric, other):
        return True
    # Times so near are not told apart: only the network's own cost counts, if no time is lost.
    return basis.rule == "run-cost" and fabric.per_year <= other.per_year


def _rule_words(basis: Basis) -> str:
    near = f"{100 * basis.within:g} %"
    error = "the model's error" if basis.barred else near
    barred = ", or within the model's error" if basis.barred else ""
    hour = f" at {basis.unscaled(basis.run.hour)} an hour of all GPUs" if basis.run else ""
    share = f"the {basis.bought}'s share"
    return {
        "price": "lowest cost",
        **{rule: f"least cost of {unit}" for rule, (unit, _) in UNITS.items()},
        "near-fastest": f"lowest cost within {near} of the fastest iteration time{barred}",
        "run-cost": f"least cost of the training run: GPU hours{hour}, and {share}",
        "fastest": f"fastest iteration; times within {error} are not told apart",
    }[basis.rule]


def _sentence(even: Sequence[Candidate], best: Candidate, basis: Basis) -> str:
    """Who wins, or ties, and with what."""
    names, alone = listed([fabric.name for fabric in even]), len(even) == 1
    near = f"{100 * basis.within:g} %"
    if basis.rule in UNITS:
        price = f"{basis.least}{best.price:,.4g} {basis.money.title}"
        return f"{UNITS[basis.rule][1]} least on {names}: {price}{best.ends}"
    if basis.rule == "fastest":
        if alone:
            return f"{names} trains fastest: {best.time_text} an iteration"
        ends = best.time_s, max(fabric.time_s for fabric in even)
        span = f"{' to '.join(dict.fromkeys(f'{end:.3f}' for end in ends))} s"
        span = best.time_text if basis.barred else span
        return f"{names} train as fast as each other, within the model's {basis.near}: {span}"
    if basis.rule == "run-cost" and basis.run:
        run = basis.run
        if not alone:
            costs = " or ".join(basis.amount(run.cost(fabric)) for fabric in even)
            return (
                f"The training run costs as much on {names}, within the model's {basis.near} of"
                f" time: {costs}"
            )
        money = basis.money
        cost = best.barred_text(run.cost(best) / money.factor, money.digits)
        days, share = best.barred_text(run.days(best), 1), basis.amount(run.network(best))
        return (
            f"{names} has the cheapest training run: {cost} {money.title} in {days} days,"
            f" {share} of it for the {basis.bought}"
        )
    start = f"Within {near} of the fastest, " if basis.rule == "near-fastest" else ""
    verb = "costs least" if alone else "tie for the least cost"
    return f"{start}{names} {verb}: {best.floor}{basis.amount(best.price)}{best.ends}"


def _aside(candidates: Sequence[Candidate], best: Candidate, basis: Basis) -> Iterator[str]:
    """Who might cost less, but lacks prices."""
    passed = [fabric.name for fabric in candidates if fabric.lacking and fabric.price <= best.price]
    if passed and basis.rule != "fastest":
        yield f"Aside, since parts have no price: {listed(passed)}."


def _unlike(candidates: Sequence[Candidate], best: Candidate) -> Iterator[str]:
    """Say where fabrics have other network bandwidths than the best."""
    rates: dict[str, list[str]] = {}
    for fabric in candidates:
        rate = fabric.gpu_bytes_per_s  # 0 where there is no network, or none can be built
        if rate and not isclose(rate, best.gpu_bytes_per_s, rel_tol=1e-6):
            rates.setdefault(_gigabytes(rate, 4), []).append(fabric.name)
    others = [f"{listed(names)} {rate}" for rate, names in rates.items()]
    best_rate = _gigabytes(best.gpu_bytes_per_s, 4)
    if others and not best.gpu_bytes_per_s:  # one HB domain, and the fabric joins domains alone
        yield (
            f"Not like for like: {best.name} has no network, as one HB domain holds all GPUs;"
            f" others have one, in GB/s a GPU: {', '.join(others)}."
        )
    elif others:
        yield f"Not like for like: {best.name} has {best_rate} GB/s a GPU, {', '.join(others)}."


def _other_lines(candidates: Sequence[Candidate], best: Candidate, basis: Basis) -> Iterator[str]:
    """Say where the price of one holds gear inside HB domains that has no price for another."""
    field = [fabric for fabric in candidates if fabric.complete]
    bare = [fabric for fabric in field if not fabric.geared]
    paid = [fabric for fabric in field if fabric.gear]
    if basis.rule != "fastest" and bare and paid and (best in bare or best in paid):
        amounts = [f"{basis.amount(fabric.gear)} in that of {fabric.name}" for fabric in paid]
        yield (
            "Prices do not hold the same: gear inside HB domains has none for"
            f" {listed([fabric.name for fabric in bare])}, and is {listed(amounts)}."
        )


def _switchless(candidates: Sequence[Candidate], best: Candidate, basis: Basis) -> Iterator[str]:
    """Say what a network without switches lacks, and what the cheapest with switches costs."""
    if best.direct and best.gpu_bytes_per_s:
        switched = [fabric for fabric in candidates if fabric.complete and not fabric.direct]
        text = f"{best.name} has no switches: a GPU reaches its neighbours, all others through them"
        for least in sorted(switched, key=lambda fabric: fabric.price)[:1]:
            text += f"; the cheapest with switches is {least.name}, {basis.amount(least.price)}"
        yield f"{text}."


def _changes(
    candidates: Sequence[Candidate],
    field: Sequence[Candidate],
    best: Candidate,
    basis: Basis,
    probe: BandwidthSolver | None,
) -> Iterator[Change]:
    """What would let another win: price, bandwidth, value of a day."""
    others = sorted(
        (fabric for fabric in field if fabric is not best), key=lambda fabric: _value(fabric, basis)
    )
    slow: list[Candidate] = []
    if basis.rule == "fastest":
        slow = others[:1]
    elif others and best.price and basis.rule not in UNITS:
        yield _by_price(best, others[0], basis)
    if basis.rule == "near-fastest":
        fastest = min(candidates, key=lambda fabric: fabric.time_s)
        late = [
            fabric
            for fabric in candidates
            if fabric.complete and fabric.time_s < inf and not basis.nearly(fabric, fastest)
        ]
        slow = [fabric for fabric in late if fabric.price < best.price] or ([] if others else late)
    yield from _by_bandwidth(candidates, slow, best, basis, probe)
    if basis.run and best.life is not None:
        yield from _by_day(candidates, best, basis, basis.run)


def _by_price(best: Candidate, other: Candidate, basis: Basis) -> Change:
    """Price of the best at which the next one wins, and whether prices of the book come to that."""
    value = other.price
    if basis.rule == "run-cost" and basis.run and best.life:
        more = basis.run.cost(other) - basis.run.cost(best)
        value = best.price + more / basis.run.paid_back(best)
    margin = _margin(best, other, basis)
    if margin.low > 0:
        low, high = short_money(margin.low).strip(), short_money(margin.high).strip()
        span = low if low == high else f"{low} to {high}"
        dearer = "its run costs more" if basis.rule == "run-cost" else f"{span} dearer"
        text = f"No price in the book flips it: {other.name}, {dearer} at all of them"
    else:
        turns = " or ".join(_turns(best, other)) or "several prices of the book together do"
        text = f"{other.name} costs less if {turns}"
    return Change(other.name, "price", best.price, value, f"{text}.")


def _turns(best: Candidate, other: Candidate) -> Iterator[str]:
    """Prices of single parts, within the book, at which another one costs as much."""
    if best.bill is None or other.bill is None:
        return
    quotes = best.bill.quote, other.bill.quote
    known = {part: None for quote in quotes for part in quote.priced_parts}
    turns = [turn for part in known if (turn := break_even(*quotes, part)).in_book]
    for turn in sorted(turns, key=lambda turn: abs((turn.price or 0.0) / turn.base - 1))[:2]:
        side = "less" if turn.direction == "below" else "more"
        yield (
            f"{part_words(turn.part)} costs {side} than {turn.price:,.0f} (base {turn.base:,.0f})"
        )


def _by_bandwidth(
    candidates: Sequence[Candidate],
    slow: Sequence[Candidate],
    best: Candidate,
    basis: Basis,
    probe: BandwidthSolver | None,
) -> Iterator[Change]:
    """Network bandwidth at which the least slow one counts as fast."""
    if not slow or probe is None:
        return
    other = min(slow, key=lambda fabric: fabric.time_s)
    limit_s = nearly_fastest_s((fabric.time_s for fabric in candidates), basis.within)
    needed, now = probe(other.name, limit_s), other.gpu_bytes_per_s
    slower = f"trains {100 * (other.time_s / best.time_s - 1):.1f} % slower than {best.name}"
    if other.complete and best.complete and other.price != best.price:
        apart = basis.money.less(*sorted((other.price, best.price)))
        more = "less but" if other.price < best.price else "more and"
        slower = f"costs {apart} {basis.money.title} {more} {slower}"
    if needed is None:
        end = f"up to {MOST_BANDWIDTH:g} times the network bandwidth do not change that"
    else:
        end = f"it counts as fast from {_gigabytes(needed)} GB/s a GPU on (now {_gigabytes(now)})"
    yield Change(other.name, "bandwidth", now, needed, f"{other.name} {slower}: {end}.")


def _gigabytes(rate: float, digits: int = 3) -> str:
    """A bandwidth in GB/s, rounded, without an exponent.

    Examples
    --------
    >>> _gigabytes(53.125e9), _gigabytes(2_250e9)
    ('53.1', '2,250')
    """
    return f"{float(f'{rate / GIGA:.{digits}g}'):,g}"


def _by_day(
    candidates: Sequence[Candidate], best: Candidate, basis: Basis, run: RunBudget
) -> Iterator[Change]:
    """Value of a day of training at which a faster one wins, or a slower one, whose run is near."""
    known = [
        rival for rival in candidates if rival.complete and rival.time_s < inf and rival is not best
    ]
    if basis.rule != "run-cost" and (ahead := _ahead(known, best, basis, run)):
        yield ahead
        return
    pays = []
    for rival in known:
        saved = run.days(best) - run.days(rival)
        # Only a dearer run that is faster, or a cheaper one that is slower, is a trade.
        differ = abs(best.time_s / rival.time_s - 1) >= AS_FAST
        value = (run.network(rival) - run.network(best)) / saved if differ else 0.0
        faster = saved > 0
        if value > 0 and (faster or basis.rule == "run-cost"):
            pays.append((value, faster, rival))
    # What a day would have to be worth is told where it may be.
    pays = [pay for pay in pays if run.day / SENSIBLE <= pay[0] <= SENSIBLE * run.day]
    if not pays:
        return
    near = run.day if basis.rule == "run-cost" else 0.0
    value, faster, other = min(pays, key=lambda row: abs(row[0] - near))
    gap = abs(best.time_s / other.time_s - 1)
    error = ", less than the model's error," if basis.same_time(best, other) else ""
    text = (
        f"{other.name} trains {100 * gap:.1f} % {'faster' if faster else 'slower'}{error} and pays"
        f" where a day of training is worth {'more' if faster else 'less'} than"
        f" {basis.unscaled(value)} (its GPU hours cost {basis.unscaled(run.day)})"
    )
    yield Change(other.name, "day_value", run.day, value, f"{text}.")


def _ahead(
    known: Sequence[Candidate], best: Candidate, basis: Basis, run: RunBudget
) -> Change | None:
    """Who trains faster and pays less for the network of the run, whatever a day is worth."""
    faster = [
        fabric
        for fabric in known
        if best.time_s >= fabric.time_s * (1 + AS_FAST)
        and not basis.same_time(best, fabric)
        and 0 < run.network(fabric) <= run.network(best)
    ]
    if not faster:
        return None
    other = min(faster, key=run.network)
    text = (
        f"{other.name} trains {100 * (best.time_s / other.time_s - 1):.1f} % faster, and the"
        f" {basis.bought}'s share of its training run is {basis.unscaled(run.network(other))}, of"
        f" {best.name} {basis.unscaled(run.network(best))}: it pays whatever a day of training is"
        " worth"
    )
    return Change(other.name, "day_value", run.day, 0.0, f"{text}.")


def bandwidth_needed(time_s: Callable[[float], float], limit_s: float) -> float | None:
    """How many times the network bandwidth brings an iteration within a time, to a percent.

    Parameters
    ----------
    time_s
        Iteration time with so many times the bandwidth [s].
    limit_s
        The time to reach [s].

    Examples
    --------
    Two seconds of computing and eight of communication: 8 / k = 3 at k = 2.67.

    >>> bandwidth_needed(lambda times: 2 + 8 / times, 5.0)
    2.671875
    >>> bandwidth_needed(lambda times: 2 + 8 / times, 2.0)
    """
    low, high = 1.0, 2.0
    while time_s(high) > limit_s:
        low, high = high, 2 * high
        if high > MOST_BANDWIDTH:
            return None
    while high - low > BANDWIDTH_STEP * low:
        middle = (low + high) / 2
        low, high = (low, middle) if time_s(middle) <= limit_s else (middle, high)
    return high
