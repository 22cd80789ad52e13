"""What a terminal shows of every question: a verdict first, 25 lines of 80 columns at the most."""

import re
from pathlib import Path

import pytest

from netplan.cli.main import COMMANDS
from netplan.costing.offers import Request
from netplan.reports.screen import MOST_LINES, WIDTH
from tests.cli.command import netplan
from tests.cli.layout import asked, check_layout
from tests.cli.test_compare import golden
from tests.cli.test_forms import ANSWERS, SMALL, lay_files
from tests.procurement.offer_cases import Filled
from tests.procurement.offer_cases import line as asked_line

NO_SCREEN = {"completion", "explore", "export", "init", "mcp"}
"""Commands that write what other tools read: a script, a page, a fabric, a scenario, a protocol."""

LAST = {"diff"}
"""Commands that close with their sentence, below the lines that it sums up."""

PLAN = ("--gpus", "16", "--radix", "8", "--hb-size", "4")
LARGE = ("--gpus", "4096")
TABLE = ("--format", "table")
SETS = tuple(
    word
    for key in ("memory_bytes", "tensor_flops_per_s", "hb_bytes_per_s", "network_bytes_per_s")
    for word in ("--set", f"accelerator.{key}=1e12")
)
RUN = ("hgx-h100", "--gpus", "512", "--model", "llama-3-8b")
SERVED = ("serving-70b-h200", "--gpus", "16")
MORE: dict[str, tuple[tuple[str, ...], ...]] = {
    "compare": (LARGE, (*LARGE, "--no-timing"), SERVED),
    "search": (
        (*RUN, "--top", "40"),
        (*RUN, "--explain", "1,2"),
        (*RUN, "--explain", "memory"),
        ("rail-only-paper", "--gpus", "512", "--model", "gpt-22b", "--explain", "layer"),
        ("rail-only-paper", "--model", "hpl-16k", "--gpus", "8", "--accelerator", "sn10"),
        ("rail-only-paper", "--model", "dlrm-1.2t", "--gpus", "64", "--accelerator", "h200",
         "--instances", "8"),
    ),
    "serving": (SERVED, (*SERVED, "--ttft-ms", "2000", "--tpot-ms", "60", "--top", "30"),
                (*SERVED, "--disaggregated")),
    "map": ((), ("dfmodel-paper",), ("rail-only-paper", "--model", "hpl-16k", "--gpus", "8",
                                     "--accelerator", "sn10")),
    "optimize": (("--gpus", "512"), ("--gpus", "512", "--for", "power"),
                 ("--gpus", "256", "--radix", "32", "--search", "graphs", "--tries", "1")),
    "cost": (
        LARGE,
        (*LARGE, "--fabric", "all"),
        (*LARGE, "--fabric", "rail-only", "--with", "storage", "--with", "out-of-band"),
        (*LARGE, *SETS),
        ("rail-only-paper", "--fabric", "torus-3d"),
        SERVED,
    ),
    "grow": (("--gpus", "512", "--gpus", "1024", "--gpus", "2048", "--gpus", "4096"),),
    "traffic": (RUN, SERVED),
    "collective": (
        ("--kind", "all_reduce", *LARGE),
        ("--kind", "all_to_all", "--gpus", "64", "--bytes", "512MiB"),
        ("--kind", "all_gather", "--graph", "{ring}", "--bytes", "1MiB..64MiB"),
    ),
    "congestion": (
        ("hgx-h100", "--gpus", "256", "--model", "gpt-22b", "--draws", "2"),
        ("hgx-h100", "--gpus", "256", "--routing", "static", "--traffic", "ring"),
    ),
    "sites": (
        ("hgx-h100", "--gpus", "128", "--model", "llama-3-8b"),
        ("hgx-h100", "--gpus", "128", "--model", "llama-3-8b", "--sites", "4", "--layout", "ring"),
    ),
    "jobs": (
        ("hgx-h100", "--gpus", "256", "--count", "60", "--draws", "2", "--oversubscription", "4"),
        ("tpu-v7", "--gpus", "512", "--count", "60", "--placement", "cube"),
    ),
    "loads": (RUN, (*RUN, "--fail", "leaf=1"), SERVED),
    "simulate": (RUN, ("hgx-h100", "--gpus", "256", "--jobs", "{jobs}"), SERVED),
    "cables": (
        (*PLAN, *TABLE),
        (*PLAN, *TABLE, "--to", "lengths", "--floor-plan", "example-hall"),
        (*PLAN, *TABLE, "--to", "netbox-devices"),
        (*PLAN, *TABLE, "--to", "ibnetdiscover"),
        ("--compare", "plan.csv", "built.csv"),
        ("--compare", "plan.csv", "plan.csv"),
    ),
    "draw": ((*SMALL, *TABLE), (*SMALL, *TABLE, "--fail", "leaf=1")),
    "faults": (
        ("--gpus", "512", "--years", "5", "--no-timing"),
        (*RUN, "--years", "5"),
        (*RUN, "--years", "5", "--fabric", "rail-only", "--fail", "leaf=1", "--fail", "gpu-5"),
        ("rail-only-paper", "--gpus", "512", "--radix", "64", "--hb-size", "8", "--no-timing",
         "--years", "5", "--policy", "reconfigure", "--fabric", "rail-only"),
        SERVED,
        (*SERVED, "--fail", "leaf=1", "--fabric", "rail-only"),
    ),
    "offers": (("a.xlsx", "b.xlsx"),),
    "study": (("status", "mine.study"), ("show", "mine.study")),
    "report": (("procurement", *TABLE, "--gpus", "512"), ("procurement", *TABLE, *SERVED)),
    "catalog": (("list",), ("check",), ("check", "--sources")),
    "audit": (("large.csv",), ("sound.csv",)),
}  # fmt: skip
"""Further inputs: larger sizes, other workloads, failures, many values that are replaced."""

WITHIN = {"report": ("procurement",), "study": ("run",), "catalog": ("list",)}
"""Commands within groups of commands, which have the options of all."""

CASES = [(name, words) for name, words in ANSWERS.items()]
CASES += [(name, words) for name, others in MORE.items() for words in others]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files that inputs name."""
    folder = lay_files(tmp_path)
    plan = netplan("cables", *PLAN).stdout
    (folder / "plan.csv").write_text(plan, "utf-8")
    lines = plan.splitlines(keepends=True)
    (folder / "built.csv").write_text("".join([*lines[:3], *lines[30:]]), "utf-8")
    rows = "".join(f"pod {number},{1000 + number},128,64\n" for number in range(200))
    header = "design,gpus,nodes,radix\n"
    (folder / "large.csv").write_text(f"{header}{rows}", "utf-8")
    (folder / "sound.csv").write_text(f"{header}pod,1024,128,64\n", "utf-8")
    lots = ("Switches", "Cables", "Transceivers")
    asked = tuple(asked_line(f"L1-{at:02}", lots[at % 3], 10 * at) for at in range(1, 25))
    for name, price in (("a", 50), ("b", 60)):
        prices = {line.id: price + at for at, line in enumerate(asked)}
        Filled(prices).into(folder / f"{name}.xlsx", Request("A pod", asked))
    return folder


def filled(words: tuple[str, ...]) -> list[str]:
    """Words with the files of examples."""
    files = {"ring": EXAMPLES / "ring.graphml", "jobs": EXAMPLES / "jobs.yaml"}
    return [word.format(**files) if word.startswith("{") else word for word in words]


def test_every_command_is_here() -> None:
    assert {name for name, _ in CASES} | NO_SCREEN == set(COMMANDS)


@pytest.mark.parametrize(("name", "words"), CASES, ids=[" ".join([n, *w])[:60] for n, w in CASES])
def test_a_screen_holds_the_answer(name: str, words: tuple[str, ...], place: Path) -> None:
    command = [name, *filled(words)]
    if "mine.study" in command:
        assert netplan("study", "run", "mine.yaml", cwd=place).returncode == 0
    command += TABLE if name == "report" and "table" not in command else ()
    done, answer = asked(*command, cwd=place)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr
    lines = done.stdout.splitlines()
    long = name == "catalog" and len(words) > 1 and words[0] == "list"  # as the list is
    assert long or len(lines) <= MOST_LINES
    check_layout(answer)
    details = answer.text(WIDTH, details=True).splitlines()
    # What fits a screen anyway may be shorter than the screen, whose verdict has a title.
    assert len(details) >= len(lines) or len(details) <= MOST_LINES
    if not long:
        check_order(name, done.stdout, more=len(details) > MOST_LINES)


def test_details_are_asked_for() -> None:
    words = ("cost", *ANSWERS["cost"])
    assert netplan(*words, "--details").stdout == asked(*words)[1].text(WIDTH, details=True)


def check_order(name: str, text: str, *, more: bool) -> None:
    """A title, a verdict in words, and at the end what more there is, by options that exist."""
    blocks = text.rstrip("\n").split("\n\n")
    assert "──" not in blocks[0]
    if len(blocks) > 1 and name not in LAST:
        assert "──" not in blocks[1]
        assert re.search(r"[.?:]$", blocks[1]), blocks[1]
    last = blocks[-1].splitlines()[-1]
    assert not more or last.startswith("More: ")
    known = netplan(name, *WITHIN.get(name, ()), "--help-all").stdout
    for option in re.findall(r"--[a-z][a-z-]+", last if last.startswith("More: ") else ""):
        assert option in known, f"{name} has no {option}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cost", ()),
        ("faults", (*RUN, "--years", "20")),
        ("search", ()),
        ("optimize", ()),
        ("serving", ("serving-r1-h200",)),
        ("report", ("procurement", *TABLE)),
    ],
)
def test_golden_screens(name: str, words: tuple[str, ...]) -> None:
    done = netplan(name, *words)
    assert done.returncode == 0, done.stderr
    golden(f"screen-{name}.txt", re.sub(r" \(\d[\d.]* (s|ms|µs)\)", "", done.stdout))


def test_a_file_is_told_with_its_verdict(tmp_path: Path) -> None:
    asked = ("report", "procurement", "--no-timing", "-o", "report.html")
    done = netplan(*asked, "--xlsx", "bill.xlsx", cwd=tmp_path)
    assert re.fullmatch(r"wrote report.html: order rail-only, .* USD; bill.xlsx\n", done.stderr)
    cases: tuple[tuple[str, tuple[str, ...], str], ...] = (
        ("cost", LARGE, r"[a-z-]+ cheapest, \d[\d.]* M USD"),
        (
            "search",
            RUN,
            r"TP\d+ PP\d+ DP\d+, .* microbatches of 1 sequence, .* s \(.*\), MFU \d+ %.*",
        ),
        ("faults", (*RUN, "--years", "5"), r"goodput .* %, .* interruptions a year"),
        ("serving", SERVED, r".* tokens/s, TTFT .* ms, TPOT .* ms"),
        ("optimize", ("--gpus", "512"), r"[a-z0-9-]+, HB \d+.*, .* USD, .* s \(.*\)"),
        ("grow", ("--gpus", "512", "--gpus", "1024"), r"grow .*, .* USD in present value"),
    )
    for name, words, told in cases:
        done = netplan(name, *words, "-o", "answer.json", cwd=tmp_path)
        assert re.fullmatch(f"wrote answer.json: {told}\n", done.stderr), (name, done.stderr)
