"""A comparison for people: two tables and their notes, for terminals of any width."""

from math import inf

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from netplan.questions.comparison import BASELINE, Comparison, FabricRow
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

WIDE = 120
NEARLY_AS_FAST = 0.05
DASH = "-"


def comparison_rows(answer: Comparison) -> list[dict[str, Cell]]:
    """One flat row a fabric, for CSV and Markdown; parts of the plan have columns of their own."""
    rows = []
    for row in answer.rows:
        data = row.to_dict()
        cost, plan = data["cost_usd"] or {}, data["plan"] or {}
        flat: dict[str, Cell] = {key: data[key] for key in _FLAT_BEFORE}
        flat |= {f"cost_{key}_usd": cost.get(key) for key in ("low", "base", "high")}
        flat |= {key: data[key] for key in _FLAT_AFTER}
        flat |= {key: plan.get(key) for key in _FLAT_PLAN}
        flat["notes"] = " ".join(row.notes)
        rows.append(flat)
    return rows


_FLAT_BEFORE = (
    "fabric",
    "tiers",
    "switches",
    "switches_lower_bound",
    "count_status",
    "spare_ports",
    "links",
    "transceivers",
    "copper_cables",
    "nic_ports",
)
_FLAT_AFTER = (
    "cost_per_gpu_usd",
    "cost_complete",
    "cost_reduction",
    "power_w",
    "iteration_time_s",
    "mfu",
    "gpus_used",
)
_FLAT_PLAN = ("tensor", "pipeline", "data", "microbatch", "microbatches", "interleave")


def comparison_text(answer: Comparison, width: int, *, colour: bool = False) -> str:
    """The answer as text of at most ``width`` columns, with the terminal's colours if wanted."""
    layout = _layout(answer, width)
    return as_terminal(layout, width) if colour else as_text(layout, width)


def comparison_html(answer: Comparison) -> str:
    """The answer as an HTML fragment for notebooks; text from files is escaped."""
    return as_html(_layout(answer, NOTEBOOK_WIDTH))


def _layout(answer: Comparison, width: int) -> Group:
    parts: list[RenderableType] = [_heading(answer), _network_table(answer, width)]
    parts.append(Text(_legend(answer), style="dim"))
    if answer.inputs["timing"]:
        parts.append(_training_table(answer, width))
    return Group(*parts, Text(_verdict(answer), style="bold"), _notes(answer))


def _heading(answer: Comparison) -> Text:
    inputs = answer.inputs
    size = inputs["hb_size"]
    lines = [
        (
            f"Networks for {inputs['gpus']:,} GPUs in HB domains of {size:,}:"
            f" switches of {inputs['radix']} ports, {inputs['link_gbps']:g} Gb/s"
        ),
        f"prices {inputs['prices']}, power {inputs['power']}",
    ]
    if inputs["timing"]:
        lines[1] += (
            f"; training {inputs['model']}, batch {inputs['batch']:,}, on {inputs['accelerator']}"
        )
    lines += [f"with {key} = {value}" for key, value in inputs["set"].items()]
    heading = printable("\n".join(lines) + "\n")
    heading.stylize("bold", 0, len(lines[0]))
    return heading


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _network_table(answer: Comparison, width: int) -> RenderableType:
    ranged = any(row.cost and row.cost.low < row.cost.high for row in answer.rows)
    cells = [_network_cells(row, wide=width >= WIDE, ranged=ranged) for row in answer.rows]
    money = answer.currency
    names = {"cost": f"M {money}", "range": "low-high", "each": f"{money}/GPU"}
    table = _table(*(names.get(key, key) for key in cells[0]))
    for row in cells:
        table.add_row(*row.values())
    return table


def _network_cells(row: FabricRow, *, wide: bool, ranged: bool) -> dict[str, str]:
    fabric, cost = row.fabric, row.cost
    more = "" if row.cost_complete or cost is None else "≥ "
    bound = "" if fabric is None or fabric.exact else "*"
    cells = {"Fabric": printable(row.name).markup}
    if wide:
        cells["tiers"] = number(len(fabric.tiers) if fabric else None)
    cells["switches"] = number(fabric.switches if fabric else None) + bound
    if wide:
        cells["spare ports"] = number(fabric.spare_ports if fabric else None)
        cells["cables"] = number(fabric.link_count if fabric else None)
        cells["copper"] = number(fabric.copper_cables if fabric else None)
    cells["optics"] = number(fabric.transceivers if fabric else None)
    cells["cost"] = more + number(cost.base / 1e6 if cost else None, 1)
    if ranged:
        spread = f"{cost.low / 1e6:,.0f}-{cost.high / 1e6:,.0f}" if cost else DASH
        cells["range"] = spread
    cells["each"] = number(cost.base / fabric.sizing.gpus if cost and fabric else None)
    cells["saves"] = percent(row.cost_reduction)
    cells["kW"] = number(row.power.typical_w / 1e3 if row.power else None)
    return cells


def _training_table(answer: Comparison, width: int) -> RenderableType:
    columns = ["Fabric", "iteration", "MFU", "memory", "TPxPPxDP", "microbatches", "stages"]
    parts = ("compute", "tensor_comm", "pipeline_comm", "data_comm", "bubble")
    if width >= WIDE:
        columns += ["compute", "TP time", "PP time", "DP time", "bubble"]
    table = _table(*columns)
    for row in answer.rows:
        best = row.best
        if best is None:
            table.add_row(row.name, *[DASH] * (len(columns) - 1))
            continue
        plan = best.plan
        cells = [
            row.name,
            f"{best.iteration_time_s:.3f} s",
            percent(best.mfu),
            f"{best.memory_bytes / 1e9:.0f} GB",
            f"{plan.tensor}x{plan.pipeline}x{plan.data}",
            f"{plan.microbatches} x {plan.microbatch}",
            number(plan.interleave),
        ]
        if width >= WIDE:
            cells += [f"{best.breakdown_s[part]:.3f}" for part in parts]
        table.add_row(*cells)
    return Padding(table, (1, 0, 0, 0))


def _verdict(answer: Comparison) -> str:
    """One sentence on what to buy: the lowest cost among the fabrics that train about as fast."""
    rows = [row for row in answer.rows if row.cost and row.cost_complete]
    if not rows:
        return ""
    times = [row.best.iteration_time_s for row in answer.rows if row.best]
    text = ""
    if times:
        limit = min(times) * (1 + NEARLY_AS_FAST)
        rows = [row for row in rows if row.best and row.best.iteration_time_s <= limit]
        text = f"Within {percent(NEARLY_AS_FAST)} of the fastest, "
    if not rows:
        return ""
    cheapest = min(rows, key=lambda row: row.cost.base if row.cost else inf)
    base = cheapest.cost.base if cheapest.cost else inf
    passed = [row.name for row in answer.rows if _passed_over(row, base)]
    aside = f" ({', '.join(passed)} aside: no price for some parts)" if passed else ""
    return f"\n{text}{cheapest.name} costs least{aside}: {base / 1e6:,.1f} M {answer.currency}."


def _passed_over(row: FabricRow, base: float) -> bool:
    """Whether a fabric could be the cheaper one, had all its parts a price."""
    return row.cost is not None and not row.cost_complete and row.cost.base < base


def _legend(answer: Comparison) -> str:
    """What the signs in the tables mean, those that occur."""
    rows = [row for row in answer.rows if row.fabric]
    apart = "gear inside HB domains"
    if any(line.part == "nic_port" for row in rows if row.cost for line in row.cost.unpriced):
        apart = "network cards and " + apart
    lines = [f"saves: against {BASELINE}. Not in the prices: {apart}."]
    if not all(row.fabric.exact for row in rows if row.fabric):
        lines.append("*: does not divide evenly; as built (the port lower bound is in the notes).")
    if not all(row.cost_complete for row in rows):
        lines.append("≥: parts without a price in this book are left out (see the notes).")
    return "\n".join(lines)


def _notes(answer: Comparison) -> RenderableType:
    """Notes by fabric; what several fabrics share stands once."""
    shared: dict[str, list[str]] = {}
    for row in answer.rows:
        for note in row.notes:
            shared.setdefault(note, []).append(row.name)
    grouped: dict[str, list[str]] = {}
    for note, names in shared.items():
        everyone = len(names) == len(answer.rows) > 1
        grouped.setdefault("all fabrics" if everyone else ", ".join(names), []).append(note)
    lines = []
    for heading, notes in grouped.items():
        lines.append(printable(f"{heading}: ", "bold").append_text(printable(" ".join(notes))))
    return Padding(Group(*lines), (1, 0, 0, 0))
