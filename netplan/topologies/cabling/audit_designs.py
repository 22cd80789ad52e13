"""Audit of a table of designs: counts that do not multiply, ports that do not exist, and traps.

A row is audited with what it has; a rule whose columns are missing or empty says nothing.
The traps are those of published tables: GPU counts that contradict their own cables, spine counts
by ceiling alone, rates off by a thousand, percentages beside other counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, isnan, nan
from statistics import median

from msgspec import Struct

from netplan.spreadsheets import Row


class AuditFinding(Struct, frozen=True):
    """Something that does not add up: its kind, file and line, what is found, expected, and why."""

    what: str
    where: str
    got: str
    expected: str
    why: str


COLUMNS = frozenset(
    (
        *("gpus", "nodes", "gpus_per_node", "planes", "radix", "management_links"),
        *("leaf_switches", "spine_switches", "core_switches", "total_switches"),
        *("links_endpoint", "links_leaf_spine", "links_spine_core"),
        *("copper_links", "fibre_links", "transceivers", "oversubscription"),
        *("gbps_endpoint", "gbps_leaf_spine", "gbps_spine_core"),  # of one link [Gb/s]
        *("groups", "nodes_per_group", "links_per_pair", "global_links"),  # dragonflies
        *("hosts_per_switch", "switches_per_group", "global_ports"),  # of one switch, of a group
        *("tensor", "context", "pipeline", "data"),  # parallel plans
        *("count", "total", "percent"),  # failure tables
        *("failures_per_1000_node_days", "mttf_hours"),
    )
)
SERVER_GPUS = 8
MAX_MTTF_RATIO = 2.0
"""Times to failure farther than that from the table's line 1/GPUs are found [1]."""

# The best and the worst cluster on record are both far above this.
MIN_FAILURES_PER_1000_NODE_DAYS = 0.1
MAX_NUMBER = 1e15
TOLERANCE = 1e-9


class AuditRow(Struct, frozen=True):
    """One row: where it stands and its numbers; what is missing is nan."""

    where: str
    values: Mapping[str, float]
    texts: Mapping[str, str]

    def __getitem__(self, column: str) -> float:
        """Number in a column, nan if there is none."""
        return self.values.get(column, nan)

    def has(self, *columns: str) -> bool:
        """Whether all these columns hold a number."""
        return not any(isnan(self[column]) for column in columns)

    def or_else(self, column: str, default: float) -> float:
        """Number in a column, or what holds without it."""
        return default if isnan(self[column]) else self[column]

    def finding(self, what: str, column: str, expected: float | str, why: str) -> AuditFinding:
        """Build a finding on one column."""
        text = expected if isinstance(expected, str) else f"{expected:,.10g}"
        return AuditFinding(what, self.where, f"{column} {self.texts[column]}", text, why)


def is_design_table(header: Sequence[str]) -> bool:
    """Whether a header is that of a table of designs.

    Examples
    --------
    >>> is_design_table(["design", "gpus", "nodes"]), is_design_table(["a_device"])
    (True, False)
    """
    return len(COLUMNS & set(header)) > 1


def audit_designs(path: str, header: Sequence[str], rows: Iterator[Row]) -> Iterator[AuditFinding]:
    """Audit every row of a table, and its rows against each other.

    Examples
    --------
    >>> rows = iter([(2, ["1296", "9216"])])
    >>> next(audit_designs("pod.csv", ["nodes", "gpus"], rows)).what
    'counts that do not multiply'
    """
    designs = []
    for line, cells in rows:
        texts = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        name = texts.get("design") or (cells[0] if header[0] not in COLUMNS else "")
        where = f"{path}:{line}" + (f" {name[:60]}" if name else "")
        numbers = {column: _number(texts[column]) for column in COLUMNS & set(texts)}
        for column in sorted(numbers):
            if numbers[column] is None:
                why = "the column holds counts or rates"
                yield AuditFinding(
                    "no number", where, f"{column} {texts[column][:40]}", "a number", why
                )
        values = {column: value for column, value in numbers.items() if value is not None}
        designs.append(AuditRow(where, values, texts))
        for rule in RULES:
            yield from rule(designs[-1])
    yield from _off_the_line(designs)


def _number(text: str) -> float | None:
    """Number in a cell: nan for an empty one, None for what is no number from 0 to 10^15."""
    if not text:
        return nan
    try:
        value = float(text.replace(",", "").removesuffix("%"))
    except ValueError:
        return None
    return value if 0 <= value <= MAX_NUMBER else None


def _gpus(row: AuditRow) -> Iterator[AuditFinding]:
    """GPUs against nodes."""
    if not row.has("gpus", "nodes") or not row["nodes"]:
        return
    per_node = row.or_else("gpus_per_node", round(row["gpus"] / row["nodes"]))
    if row["gpus"] != per_node * row["nodes"]:
        per_node = row.or_else("gpus_per_node", SERVER_GPUS)
        expected = per_node * row["nodes"]
        why = f"{row['nodes']:,.0f} nodes of {per_node:g} GPUs"
        yield row.finding("counts that do not multiply", "gpus", expected, why)


def _endpoints(row: AuditRow) -> Iterator[AuditFinding]:
    """Host links against GPUs: one a plane, and a few for managers."""
    if not row.has("gpus", "links_endpoint") or not row["gpus"]:
        return
    links = row["links_endpoint"]
    planes = max(1.0, row.or_else("planes", links // row["gpus"]))
    spare = row["links_endpoint"] - planes * row["gpus"]
    managers = row["management_links"]
    allowed = 0 <= spare < SERVER_GPUS if isnan(managers) else spare == managers
    if not allowed:
        why = f"one link a GPU and plane, planes {planes:g}; as many links, so many GPUs"
        expected = (links - row.or_else("management_links", 0)) // planes
        yield row.finding("counts that contradict the cables", "gpus", expected, why)


def _totals(row: AuditRow) -> Iterator[AuditFinding]:
    """Sums of switches and links, two modules a fibre link."""
    tiers = ("leaf_switches", "spine_switches")
    if row.has("total_switches", *tiers):
        expected = sum(row[tier] for tier in tiers) + row.or_else("core_switches", 0)
        if row["total_switches"] != expected:
            why = "leaf, spine and core switches added"
            yield row.finding("a total that is no sum", "total_switches", expected, why)
    if row.has("transceivers", "fibre_links") and row["transceivers"] != 2 * row["fibre_links"]:
        why = "a module at each end of a fibre link; twin-port modules are counted otherwise"
        expected = 2 * row["fibre_links"]
        yield row.finding("counts that do not multiply", "transceivers", expected, why)
    links = ("links_endpoint", "links_leaf_spine")
    if row.has("fibre_links", "copper_links", *links):
        total = sum(row[group] for group in links) + row.or_else("links_spine_core", 0)
        if row["fibre_links"] + row["copper_links"] != total:
            why = "links of all tiers, less the copper ones"
            expected = total - row["copper_links"]
            yield row.finding("a total that is no sum", "fibre_links", expected, why)


def _ports(row: AuditRow) -> Iterator[AuditFinding]:
    """Cable ends against the ports of each tier."""
    below = ("links_endpoint", "links_leaf_spine", "links_spine_core")
    for tier, name in enumerate(("leaf_switches", "spine_switches", "core_switches")):
        if not row.has("radix", name, below[tier]) or not row["radix"]:
            continue
        ends = row[below[tier]] + (row.or_else(below[tier + 1], 0) if tier + 1 < len(below) else 0)
        room = row[name] * row["radix"]
        if ends > room:
            why = f"{ends:,.0f} cable ends on {room:,.0f} ports, {row['radix']:g} a switch"
            least = f"at least {ceil(ends / row['radix']):,}"
            yield row.finding("ports that do not exist", name, least, why)


def _oversubscription(row: AuditRow) -> Iterator[AuditFinding]:
    """Less bandwidth above a tier than below it, and nothing said about it.

    Links count by their rates where the table has them; else every link counts one.
    """
    stated = row.or_else("oversubscription", 1)
    for lower, upper in pairwise(("endpoint", "leaf_spine", "spine_core")):
        below, above = f"links_{lower}", f"links_{upper}"
        if not row.has(below, above) or not row[above]:
            continue
        rates = row[f"gbps_{lower}"], row[f"gbps_{upper}"]
        faster = rates[1] / rates[0] if all(rate > 0 for rate in rates) else 1.0
        ratio = (row[below] - row.or_else("management_links", 0)) / (row[above] * faster)
        # A ratio may be larger than stated by half of the last digit that the table gives.
        digits = len(row.texts.get("oversubscription", "").partition(".")[2])
        slack = 0.5 * 10**-digits if digits else 0.0
        if ratio > (stated + slack) * (1 + TOLERANCE):
            why = f"{row[below]:,.0f} links below, {row[above]:,.0f} above: {ratio:.4g}:1"
            if faster != 1:
                why += f", by rates of {rates[0]:g} and {rates[1]:g} Gb/s"
            expected = f"{row[below]:,.0f}, or say {ratio:.4g}:1"
            yield row.finding("oversubscription not stated", above, expected, why)


def _uplinks(row: AuditRow) -> Iterator[AuditFinding]:
    """Uplinks of a leaf that do not spread evenly over the spines."""
    if not row.has("links_leaf_spine", "leaf_switches", "spine_switches"):
        return
    leaves, spines = row["leaf_switches"], row["spine_switches"]
    uplinks = row["links_leaf_spine"] / leaves if leaves and spines else 0.0
    if uplinks and (not uplinks.is_integer() or (spines <= uplinks and uplinks % spines)):
        why = f"{uplinks:.4g} uplinks a leaf; the same number to every spine needs a divisor"
        yield row.finding("spines by ceiling alone", "spine_switches", "a divisor", why)


def _groups(row: AuditRow) -> Iterator[AuditFinding]:
    """Groups of a dragonfly against its nodes, global links against its pairs."""
    if row.has("groups", "nodes", "nodes_per_group") and row["nodes_per_group"]:
        least = ceil(row["nodes"] / row["nodes_per_group"])
        if least > row["groups"]:
            why = f"{row['nodes']:,.0f} nodes in groups of {row['nodes_per_group']:,.0f}"
            yield row.finding("groups from before an extension", "groups", least, why)
    if row.has("groups", "links_per_pair", "global_links"):
        pairs = row["groups"] * (row["groups"] - 1) / 2
        if row["global_links"] != row["links_per_pair"] * pairs:
            why = f"{pairs:,.0f} pairs of groups, {row['links_per_pair']:g} links each"
            expected = row["links_per_pair"] * pairs
            yield row.finding("counts that do not multiply", "global_links", expected, why)


def _dragonfly(row: AuditRow) -> Iterator[AuditFinding]:
    """Ports of a dragonfly's switch, and what its global ports reach."""
    columns = ("hosts_per_switch", "switches_per_group", "global_ports")
    if not row.has(*columns):
        return
    hosts, switches, ports = (row[column] for column in columns)
    used = hosts + switches - 1 + ports
    if row.has("radix") and used > row["radix"]:
        why = f"{hosts:g} hosts, {switches - 1:g} switches of the group: {used:g} ports"
        room = max(0.0, row["radix"] - hosts - switches + 1)
        yield row.finding("ports that do not exist", "global_ports", f"at most {room:g}", why)
    reach = switches * ports + 1
    if row.has("groups") and row["groups"] > reach:
        why = f"{switches:g} switches of {ports:g} global ports reach {reach - 1:,.0f} other groups"
        yield row.finding("groups that no port reaches", "groups", f"at most {reach:,.0f}", why)
    if not row.has("groups"):
        return
    whole = switches * row["groups"]
    for column, per_switch in (("total_switches", 1.0), ("links_endpoint", hosts)):
        if row.has(column) and row[column] > whole * per_switch:
            why = f"{row['groups']:,.0f} groups of {switches:g} switches"
            why += f" of {hosts:g} hosts" if column == "links_endpoint" else ""
            yield row.finding("counts that do not multiply", column, whole * per_switch, why)
    if row.has("global_links") and 2 * row["global_links"] > whole * ports:
        why = f"{whole:,.0f} switches of {ports:g} global ports, two a link"
        room = whole * ports // 2
        yield row.finding("ports that do not exist", "global_links", f"at most {room:,.0f}", why)


def _plans(row: AuditRow) -> Iterator[AuditFinding]:
    """Product of the parallel degrees against the GPUs beside it."""
    degrees = ("tensor", "context", "pipeline", "data")
    if not row.has("gpus", "tensor", "pipeline", "data"):
        return
    product = 1.0
    for degree in degrees:
        product *= row.or_else(degree, 1)
    if product != row["gpus"]:
        why = " x ".join(row.texts[degree] for degree in degrees if row.has(degree))
        yield row.finding("counts that do not multiply", "gpus", product, why)


def _failures(row: AuditRow) -> Iterator[AuditFinding]:
    """Percentages beside counts, and rates a thousand times too small."""
    if row.has("count", "total", "percent") and row["total"]:
        share = 100 * row["count"] / row["total"]
        digits = len(row.texts["percent"].removesuffix("%").partition(".")[2])
        if abs(share - row["percent"]) > 0.5 * 10**-digits + TOLERANCE:
            why = f"{row['count']:g} of {row['total']:g}"
            expected = f"{share:.{digits}f}"
            yield row.finding("a percentage beside another count", "percent", expected, why)
    rate = row["failures_per_1000_node_days"]
    if 0 < rate < MIN_FAILURES_PER_1000_NODE_DAYS:
        why = "published clusters have 2 to 7; this looks like a rate of one node-day"
        column = "failures_per_1000_node_days"
        yield row.finding("a rate off by a thousand", column, 1000 * rate, why)


def _off_the_line(designs: Sequence[AuditRow]) -> Iterator[AuditFinding]:
    """Times to failure that leave the line 1/N which the others of the table keep."""
    rows = [row for row in designs if row["gpus"] > 0 and row["mttf_hours"] > 0]
    if len(rows) < 3:  # noqa: PLR2004 - two rows do not say which one is off
        return
    middle = median(row["gpus"] * row["mttf_hours"] for row in rows)
    for row in rows:
        expected = middle / row["gpus"]
        ratio = row["mttf_hours"] / expected
        if not 1 / MAX_MTTF_RATIO <= ratio <= MAX_MTTF_RATIO:
            why = "time to failure falls as 1/GPUs, as the other rows do"
            text = f"about {expected:.3g}"
            yield row.finding("a value off the line 1/N", "mttf_hours", text, why)


RULES: tuple[Callable[[AuditRow], Iterator[AuditFinding]], ...] = (
    _gpus,
    _endpoints,
    _totals,
    _ports,
    _oversubscription,
    _uplinks,
    _groups,
    _dragonfly,
    _plans,
    _failures,
)
"""What is asked of every row."""
