"""The front for people: a table, what its steps cost, and how it was proven."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from netplan.questions.designs_words import counted, label, money, ports, ratio, watts
from netplan.questions.optimize_answer import Optimization
from netplan.reports.text import (
    NOTEBOOK_WIDTH,
    Cell,
    as_html,
    as_terminal,
    as_text,
    number,
    percent,
    printable,
)

WIDE = 130
MILLIONS_FROM = 1e7
NAMED_EQUALS = 3


def optimization_rows(answer: Optimization) -> list[dict[str, Cell]]:
    """One flat row a point of the front; parts of the plan have columns of their own."""
    rows = []
    for at, row in enumerate(answer.rows, start=1):
        data = row.to_dict()
        cost, plan = data["cost_usd"] or {}, data["plan"] or {}
        flat: dict[str, Cell] = {"design": at}
        flat |= {key: data[key] for key in _FLAT_BEFORE}
        flat |= {f"cost_{key}_usd": cost.get(key) for key in ("low", "base", "high")}
        flat |= {key: data[key] for key in _FLAT_AFTER}
        flat |= {key: plan.get(key) for key in _FLAT_PLAN}
        flat["equal"] = "; ".join(label(design) for design in row.equal)
        flat["notes"] = " ".join(row.row.notes)
        rows.append(flat)
    return rows


_FLAT_BEFORE = (
    "fabric",
    "hb_size",
    "radix",
    "switch",
    "oversubscription",
    "tiers",
    "switches",
    "links",
    "transceivers",
    "copper_cables",
    "nic_ports",
)
_FLAT_AFTER = (
    "cost_per_gpu_usd",
    "cost_complete",
    "power_w",
    "iteration_time_s",
    "mfu",
    "gpus_used",
    "survives_switch",
    "worst_switch_share",
)
_FLAT_PLAN = ("tensor", "pipeline", "data", "microbatch", "microbatches", "interleave")


def optimization_text(answer: Optimization, width: int, *, colour: bool = False) -> str:
    """The answer as text of at most ``width`` columns, with the terminal's colours if wanted."""
    layout = _layout(answer, width)
    return as_terminal(layout, width) if colour else as_text(layout, width)


def optimization_html(answer: Optimization) -> str:
    """The answer as an HTML fragment for notebooks; text from files is escaped."""
    return as_html(_layout(answer, NOTEBOOK_WIDTH))


def _layout(answer: Optimization, width: int) -> Group:
    wide = width >= WIDE
    network = [_network_cells(answer, at) for at in range(len(answer.rows))]
    training = [_training_cells(answer, at) for at in range(len(answer.rows))]
    parts: list[RenderableType] = [_heading(answer)]
    if wide:
        parts.append(_table([a | b for a, b in zip(network, training, strict=True)]))
    else:
        parts += [_table(network), Padding(_table(training), (1, 0, 0, 0))]
    parts += [Text("\n".join(_equals(answer)), style="dim")] if _has_equals(answer) else []
    parts.append(Text("\n" + _verdict(answer), style="bold"))
    parts.append(Padding(printable("\n".join(_proof(answer))), (1, 0, 0, 0)))
    return Group(*parts, _notes(answer))


def _heading(answer: Optimization) -> Text:
    inputs = answer.inputs
    switches = " or ".join(f"{one:,}" for one in inputs["radices"])
    lines = [
        f"Networks for {inputs['gpus']:,} GPUs: {answer.objective} against iteration time",
        (
            f"switches of {switches} ports, {inputs['link_gbps']:g} Gb/s; prices"
            f" {inputs['prices']}, power {inputs['power']}"
        ),
        (
            f"training {inputs['model']}, batch {inputs['batch']:,}, on {inputs['accelerator']};"
            f" iteration model {inputs['iteration_model']}"
        ),
    ]
    lines += [f"with {key} = {value}" for key, value in inputs["set"].items()]
    heading = printable("\n".join(lines) + "\n")
    heading.stylize("bold", 0, len(lines[0]))
    return heading


def _table(rows: Sequence[dict[str, str]]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, collapse_padding=True
    )
    for key in rows[0]:
        table.add_column(key, justify="left" if key == "fabric" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(printable(cell) for cell in row.values()))
    return table


def _network_cells(answer: Optimization, at: int) -> dict[str, str]:
    row = answer.rows[at]
    fabric, cost, power_w = row.design.fabric, row.row.cost, row.row.power_w
    cells = {
        "": str(at + 1),
        "fabric": row.design.choice.spec.name,
        "HB size": number(fabric.sizing.hb_size),
        "switch" if answer.inputs["switches"] else "radix": ports(row.design),
        "oversub.": ratio(row.design.oversubscription),
        "switches": number(fabric.switches),
    }
    if answer.objective == "power":
        cells["kW"] = number(power_w / 1e3 if power_w is not None else None, 1)
        return cells
    scale, unit = _scale(answer)
    cells[f"{unit} {answer.currency}"] = number(cost.base / scale if cost else None, 1)
    if any(one.row.cost and one.row.cost.low < one.row.cost.high for one in answer.rows) and cost:
        cells["low-high"] = f"{cost.low / scale:,.0f}-{cost.high / scale:,.0f}"
    return cells


def _training_cells(answer: Optimization, at: int) -> dict[str, str]:
    row = answer.rows[at]
    plan = row.best.plan
    cells = {
        "": str(at + 1),
        "iteration": f"{row.best.iteration_time_s:.3f} s",
        "MFU": percent(row.best.mfu),
        "memory": f"{row.best.memory_bytes / 1e9:.0f} GB",
        "TPxPPxDP": f"{plan.tensor}x{plan.pipeline}x{plan.data}",
        "microbatches": f"{plan.microbatches} x {plan.microbatch}",
        "stages": number(plan.interleave),
    }
    if answer.inputs["survives_switch"]:
        cells["worst switch"] = f"{100 * row.loss.share:.3g} %"
    return cells


def _scale(answer: Optimization) -> tuple[float, str]:
    """Millions for large clusters, thousands for small ones."""
    largest = max(row.row.cost.base for row in answer.rows if row.row.cost)
    return (1e6, "M") if largest >= MILLIONS_FROM else (1e3, "k")


def _equals(answer: Optimization) -> Iterator[str]:
    """Designs that are exactly as good as one of the front."""
    for number_, row in enumerate(answer.rows, start=1):
        named = [label(design) for design in row.equal[:NAMED_EQUALS]]
        more = len(row.equal) - len(named)
        if named:
            rest = f"; and {more:,} more" if more else ""
            yield f"Exactly as good as {number_}: {'; '.join(named)}{rest}."


def _of_cost(answer: Optimization) -> bool:
    return answer.objective == "cost"


def _amount(answer: Optimization, value: float) -> str:
    return money(value, answer.currency) if _of_cost(answer) else watts(value)


def _verdict(answer: Optimization) -> str:
    """Where the front bends, and what the next step costs for each percent of speed."""
    if len(answer.rows) == 1:
        verb = "costs" if _of_cost(answer) else "draws"
        return f"One design beats all others: none {verb} less, and none trains faster."
    at = answer.knee or 0
    value, time_s = answer.points[at]
    step = answer.step(at)
    start = (
        "Knee of the front" if answer.knee else "Cheapest" if _of_cost(answer) else "Least power"
    )
    return (
        f"{start}: {at + 1} ({label(answer.rows[at].design)}), {_amount(answer, value)} and"
        f" {time_s:.3f} s. The next step, to {at + 2}, is {100 * step.faster:.2g} % faster for"
        f" {_amount(answer, step.price)} more: {_amount(answer, step.per_percent)} for each"
        " percent of speed."
    )


def _proof(answer: Optimization) -> Iterator[str]:
    """How many designs there are, what excluded them, and how the front was proven."""
    tally, axes = answer.tally, answer.inputs
    searches = tally.searches
    yield (
        f"Space: {counted(tally.size, 'design')} ({counted(len(axes['fabrics']), 'fabric')},"
        f" {counted(len(axes['hb_sizes']), 'HB size')},"
        f" {counted(len(axes['switches'] or axes['radices']), 'switch', 'switches')},"
        f" {counted(len(axes['oversubscriptions']), 'oversubscription')}; none counted twice), of"
        f" which {tally.built:,} can be built."
    )
    for verdict in tally.verdicts:
        if verdict.excluded or verdict.name != "complete":
            unknown = f", {verdict.unknown:,} of them unknown" if verdict.unknown else ""
            yield (
                f"Demand: {verdict.words}: met by {verdict.met:,}, excludes"
                f" {verdict.excluded:,}{unknown}; {verdict.alone:,} meet all else."
            )
    untimed = f" ({tally.untimed:,} have no time)" if tally.untimed else ""
    yield (
        f"Proof: {counted(tally.feasible, 'design')} meet every demand{untimed}, in"
        f" {counted(searches.levels, 'bandwidth hierarchy', 'different bandwidth hierarchies')}."
        f" {counted(searches.run, 'plan search', 'plan searches')} run, and"
        f" {searches.bounds:,} for bounds; {searches.spared:,} spared, since a bound proves their"
        f" designs dominated. {searches.plans:,} parallel plans evaluated in all."
    )


def _notes(answer: Optimization) -> RenderableType:
    """Notes on the whole answer, then on single designs; what several share stands once."""
    shared: dict[str, list[str]] = {}
    for number_, row in enumerate(answer.rows, start=1):
        for note in row.row.notes:
            shared.setdefault(note, []).append(str(number_))
    grouped: dict[str, list[str]] = {}
    for note, numbers in shared.items():
        grouped.setdefault(", ".join(numbers), []).append(note)
    lines = [printable(note) for note in answer.notes]
    for heading, notes in grouped.items():
        lines.append(printable(f"{heading}: ", "bold").append_text(printable(" ".join(notes))))
    return Padding(Group(*lines), (1, 0, 0, 0))


def _has_equals(answer: Optimization) -> bool:
    return any(row.equal for row in answer.rows)
