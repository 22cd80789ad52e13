"""``netplan compare``: its formats, its JSON contract, its first screens."""

import csv
import io
import json
import os
from pathlib import Path

import pytest

import netplan as library
from tests.cli.command import netplan
from tests.cli.layout import asked, schema_of

GOLDEN = Path(__file__).parents[1] / "golden"
TOPOLOGIES = Path(__file__).parents[2] / "topologies"
MAIN_JOB = ("compare", "rail-only-paper", "--gpus", "32768", "--radix", "128")


def golden(name: str, text: str) -> None:
    """Compare with a kept output; NETPLAN_UPDATE_GOLDEN=1 keeps the new one."""
    path = GOLDEN / name
    if os.environ.get("NETPLAN_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


TIMED = "Fabric | tiers | switches | modules | M USD | MW | iteration s | MFU | saves"
HGX = "rail-only, rail-optimized, fat-tree, dgx-superpod *, dragonfly *, torus-2d *, torus-3d *"
BY_SIZE = "hb-size | Fabric | switches | M USD | gear | MW | iteration s | MFU | saves"
SCREENS = {
    "--gpus 32768 --radix 128": (TIMED, HGX),
    # Of networks that are the same the first one stands for all.
    "rail-only-paper --gpus 32768 --radix 128": (
        TIMED,
        "rail-optimized, rail-only, dgx-superpod, dgx-2 *, dragonfly *, torus-2d *, torus-3d *",
    ),
    "--hb-size 8 --hb-size 72 --hb-size 256": (BY_SIZE, "8, 8, 8, 72, 72, 72, 256, 256, 256"),
    "--radix 64 --radix 128 --radix 256": (f"radix | {TIMED}", "64, 64, 128, 128, 256, 256"),
    "tpu-v7": (TIMED, "torus-3d, torus-2d *, rail-optimized *, dragonfly *"),
    "serving-r1-h200": (
        "Fabric | tiers | switches | modules | k USD | kW | tokens/s | USD/M tokens | saves",
        HGX.replace("superpod *", "superpod"),
    ),
    "--gpus 8": (
        "Fabric | tiers | switches | modules | k USD | low-high | kW | saves",
        "rail-only, rail-optimized, dgx-superpod *, torus-2d *, torus-3d *",
    ),
    "--fabric all --gpus 4096": (TIMED, "rail-only, rail-optimized, fat-tree"),
}


@pytest.mark.parametrize("words", SCREENS)
def test_the_first_screen(words: str) -> None:
    """At most 25 lines of 80 columns, the verdict before the table."""
    done, answer = asked("compare", *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 25
    table = next(number for number, line in enumerate(lines) if set(line) == {"─"})
    assert any(line and not line[0].isspace() for line in lines[3 : table - 2])
    columns, rows = SCREENS[words]
    assert schema_of(answer.summary()) == [("", columns, rows)]
    assert [*filter(None, lines[table - 1].split(" "))] == columns.replace(" | ", " ").split(" ")
    assert lines[table + 1].strip().startswith(rows.partition(",")[0])
    assert lines[-1].startswith("More: ")


def test_all_is_every_fabric_that_is_shipped() -> None:
    data = json.loads(netplan("compare", "--fabric", "all", "--gpus", "4096", "--no-timing",
                              "--format", "json").stdout)  # fmt: skip
    rows = {row["fabric"]: row for row in data["fabrics"]}
    assert {*rows} == {path.stem for path in TOPOLOGIES.glob("*.yaml")}
    # Eight rails of 512, and a Clos of 4,096: 3 N / 128 switches either way.
    names = ("rail-only", "rail-optimized", "fat-tree", "dgx-superpod", "uneven-clos")
    assert {rows[name]["switches"] for name in names} == {96}


def test_cases_by_radix_and_by_hb_domain_have_the_switches_of_their_tiers() -> None:
    """5 N / r switches of three tiers, 3 N / r of two, N / r of one."""
    fabrics = ("--fabric", "rail-only", "--fabric", "fat-tree")
    asked = ("compare", "--gpus", "32768", "--no-timing", *fabrics, "--format", "json")
    by_radix, by_size = (
        json.loads(netplan(*asked, *words).stdout)["cases"]
        for words in (("--radix", "64", "--radix", "256"), ("--hb-size", "72", "--hb-size", "256"))
    )
    switches = {(case["radix"], row["fabric"]): row["switches"] for case in by_radix
                for row in case["rows"]}  # fmt: skip
    assert switches == {
        (64, "rail-only"): 5 * 32_768 / 64,  # a rail of 4,096 has three tiers, too
        (64, "fat-tree"): 5 * 32_768 / 64,
        (256, "rail-only"): 3 * 32_768 / 256,
        (256, "fat-tree"): 3 * 32_768 / 256,
    }
    rack, pod = (case["rows"][0] for case in by_size)
    assert pod["switches"] == 32_768 / 128
    # 72: 900 GB/s a GPU at 5.79 USD of switch and 2.28 of copper, of 456 racks. 256: a tier
    # with as much up as down, one above, and as much copper as optics at 16.1.
    assert rack["gear_cost"]["base"] == pytest.approx(456 * 72 * 900 * (5.79 + 2.28), rel=1e-3)
    gear = 32_768 * 900 * (3 * 5.79 + 2.28 + 16.1)
    assert pod["gear_cost"]["base"] == pytest.approx(gear, rel=1e-3)


def test_rail_only_with_experts_says_that_no_such_run_is_published() -> None:
    asked = ("--gpus", "16384", "--accelerator", "h100-80gb")
    screen = netplan("compare", *asked, "--model", "mixtral-8x7b").stdout
    assert len(screen.splitlines()) <= 25
    assert "Order rail-only" in screen
    assert " ".join(screen.split()).count("; no such run is published):") == 1
    dense = netplan("compare", *asked, "--model", "llama-3-8b").stdout
    assert "Order rail-only" in dense
    assert "published" not in dense


def test_of_fabrics_that_are_the_same_the_best_known_time_is_shown() -> None:
    """Rail-only with experts has a wider bar than the Clos, which search shows, too."""
    cluster = ("--gpus", "2048", "--accelerator", "h100-80gb")
    asked = (*cluster, "--model", "deepseek-v3", "--precision", "fp8")
    bars = {
        row["fabric"]: row["iteration_time_high_s"] / row["iteration_time_s"]
        for row in json.loads(netplan("compare", *asked, "--format", "json").stdout)["fabrics"]
    }
    assert bars["rail-only"] > 1.05 * bars["rail-optimized"]
    lines = netplan("compare", *asked).stdout.splitlines()
    shown = next(number for number, line in enumerate(lines) if line.startswith("rail-opt"))
    assert lines[shown + 1].strip() == "= dgx-superpod"
    plan = json.loads(netplan("search", *asked, "--format", "json").stdout)["plans"][0]
    assert plan["iteration_time_high_s"] / plan["iteration_time_s"] == pytest.approx(
        bars["rail-optimized"]
    )


def test_the_paper_s_scenario_gives_the_json_of_before_there_were_scenarios() -> None:
    """Every field that was there; more may be. Table 2: 1,280 and 256 switches, 75 % saved."""
    before = json.loads((GOLDEN / "compare-rail-only-paper.json").read_text(encoding="utf-8"))
    now = json.loads(netplan(*MAIN_JOB, "--format", "json").stdout)
    assert kept(before, now) == before
    rows = {row["fabric"]: row for row in now["fabrics"]}
    assert (rows["rail-optimized"]["switches"], rows["rail-only"]["switches"]) == (1280, 256)
    assert rows["rail-only"]["cost_reduction"] == pytest.approx(0.75, abs=1e-9)


def kept(before: object, now: object) -> object:
    """What of an answer was in the one before: its fields, at any depth."""
    if isinstance(before, dict) and isinstance(now, dict):
        return {key: kept(value, now.get(key)) for key, value in before.items()}
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [kept(*pair) for pair in zip(before, now, strict=True)]
    return pytest.approx(now, rel=1e-12) if isinstance(now, float) else now


def test_cases_are_one_table_for_programs() -> None:
    asked = ("compare", "--gpus", "4096", "--no-timing", "--nic", "400", "--nic", "800")
    lines = list(csv.DictReader(netplan(*asked, "--format", "csv").stdout.splitlines()))
    cases = json.loads(netplan(*asked, "--format", "json").stdout)["cases"]
    rows = [(case["nic_gbps"], row["fabric"]) for case in cases for row in case["rows"]]
    assert [(float(line["nic_gbps"]), line["fabric"]) for line in lines] == rows
    assert {line["gear_in_server"] for line in lines} == {"True"}
    details = netplan(*asked, "--details").stdout
    assert details.index("What to order by nic: 400 ") < details.index("─")
    frame = library.compare("hgx-b200", gpus=4096, timing=False, nic=[400, 800]).to_frame()
    assert [*frame.index] == [rate for rate, _ in rows]


def test_a_repeated_flag_makes_cases_that_single_questions_give() -> None:
    asked = (
        "compare",
        "--gpus",
        "4096",
        "--model",
        "llama-3-70b",
        "--no-timing",
        "--format",
        "json",
    )
    cases = json.loads(netplan(*asked, "--nic", "400", "--nic", "800").stdout)["cases"]
    # 128 ports of 400G are two tiers, 64 + 32; 64 of 800G are three, 5 N / 64.
    switches = [{row["fabric"]: row["switches"] for row in case["rows"]} for case in cases]
    assert [counts["fat-tree"] for counts in switches] == [96, 5 * 4096 / 64]
    for case, rate in zip(cases, ("400", "800"), strict=True):
        alone = json.loads(netplan(*asked, "--nic", rate).stdout)
        assert (case["nic_gbps"], case["rows"]) == (float(rate), alone["fabrics"])
        assert case["verdict"] == alone["verdict"]
    done = netplan(*asked, "--nic", "400", "--nic", "800", "--radix", "64", "--radix", "128")
    assert (done.returncode, done.stdout) == (2, "")
    assert "repeat one of them at a time" in done.stderr


def test_faster_cards_keep_the_capacity_of_switches() -> None:
    """128 ports of 400G are 64 of 800G: a box of 51.2 Tb/s either way."""
    for extra, radix in (((), 64), (("--radix", "128"), 128)):
        asked = ("compare", "--nic", "800", *extra, "--no-timing", "--format", "json")
        inputs = json.loads(netplan(*asked).stdout)["inputs"]
        assert (inputs["radix"], inputs["link_gbps"]) == (radix, 800)


def test_what_no_maker_sells_is_shown_and_not_recommended() -> None:
    """A torus costs less than rail-only here, and comes with no HGX server."""
    data = json.loads(netplan("compare", "--no-timing", "--format", "json").stdout)
    rows = {row["fabric"]: row for row in data["fabrics"]}
    assert rows["torus-2d"]["cost"]["base"] < rows["rail-only"]["cost"]["base"]
    assert (rows["torus-2d"]["sold"], rows["rail-only"]["sold"]) == (False, True)
    assert data["verdict"]["fabric"] == "rail-only"
    alone = json.loads(
        netplan("compare", "--fabric", "dragonfly", "--no-timing", "--format", "json").stdout
    )
    assert alone["verdict"]["fabric"] == "dragonfly"


def test_rail_only_by_hb_domain_costs_what_cost_says() -> None:
    """The gear inside domains stands beside; ``--with hb-gear`` puts it into the bill."""
    data = json.loads(netplan("compare", "--no-timing", "--format", "json").stdout)
    for row in data["by_hb_size"]:
        asked = ("cost", "--hb-size", str(row["hb_size"]), "--fabric", "rail-only")
        (bill,) = json.loads(netplan(*asked, "--format", "json").stdout)["fabrics"]
        assert row["cost"] == pytest.approx(bill["capital"]["base"], rel=1e-12)
        told = ("--with", "hb-gear", "--format", "json")
        (whole,) = json.loads(netplan(*asked, *told).stdout)["fabrics"]
        gear = row["gear"] or 0.0
        if row["hb_size"] == 72:
            # 456 racks with 900 GB/s a GPU, 5.79 USD of switch and 2.28 of copper each.
            assert gear == pytest.approx(456 * 72 * 900 * (5.79 + 2.28), rel=1e-3)
        assert row["cost"] + gear == pytest.approx(whole["capital"]["base"], rel=1e-12)
        assert whole["inside_hb_domains"]["counted"] is not row["gear_in_server"]


def test_expanded_memory_or_more_gpus() -> None:
    """491,520 GB of DDR5 at 7.03 USD; 352 GPUs more are 1,376 = 1.34 times as many."""
    arguments = ("compare", "rail-only-paper", "--gpus", "1024", "--radix", "64",
                 "--accelerator", "h100-80gb", "--prices", "2026")  # fmt: skip
    memories = ("--expanded-memory", "none", "--expanded-memory", "comet-480gb")
    told = (*arguments, "--fabric", "rail-only", *memories, "--format", "json")
    (trade,) = json.loads(netplan(*told).stdout)["memory_or_gpus"]
    assert trade["memory_cost"]["base"] == pytest.approx(1024 * 480 * 7.03, rel=1e-6)
    assert trade["gpus_without"] % 8 == 0
    assert trade["gpus_without_time_s"] < trade["iteration_time_s"] < trade["without_s"]
    more = trade["more_gpus_cost"]["base"] - trade["memory_cost"]["base"]
    assert (trade["cheaper"], trade["saving"]) == ("expanded memory", pytest.approx(more))
    asked = ("--gpus", "1024", "--fabric", "rail-only", "--memory", "model", *memories)
    done = netplan("compare", "hgx-h100", *asked, "--details")
    weighed = done.stdout[done.stdout.index("Expanded memory or more GPUs?") :].partition("\n\n")[0]
    page = (Path(__file__).parents[2] / "docs/guide/memory.md").read_text(encoding="utf-8")
    assert f"> {' '.join(weighed.split())}\n" in page


def test_markdown() -> None:
    golden("compare.md", netplan(*MAIN_JOB, "--no-timing", "--format", "markdown").stdout)


def test_json_contract() -> None:
    data = json.loads(netplan(*MAIN_JOB, "--format", "json").stdout)
    assert data["inputs"]["gpus"] == 32_768
    assert data["inputs"]["radix"] == 128
    assert data["inputs"]["hb_size"] == 256
    assert data["inputs"]["model"] == "gpt-1t"
    rows = {row["fabric"]: row for row in data["fabrics"]}
    rail_only = rows["rail-only"]
    assert (rail_only["tiers"], rail_only["switches"], rail_only["links"]) == (1, 256, 32_768)
    assert rail_only["transceivers"] == 65_536
    assert rail_only["cost_usd"]["base"] == 49_020_928.0
    assert rail_only["cost_per_gpu_usd"] == 1496.0
    assert rail_only["cost_reduction"] == 0.75
    plan = rail_only["plan"]
    assert plan["tensor"] * plan["pipeline"] * plan["data"] == 32_768
    inside = plan["hb"]
    assert inside["tensor"] * inside["context"] * inside["pipeline"] * inside["data"] == 256
    assert plan["microbatch"] * plan["microbatches"] * plan["data"] == 4096
    # Useful FLOPs of an iteration over its time: 6 B s (l 12h^2 + h V) + 12 B s^2 h l, l 128.
    flops = 6 * 4096 * 2048 * (128 * 12 * 25_600**2 + 25_600 * 51_200)
    flops += 12 * 4096 * 2048**2 * 25_600 * 128
    useful = flops / rail_only["iteration_time_s"]
    assert rail_only["effective_flops_per_s"] == pytest.approx(useful, rel=1e-9)
    per_pflops = 49_020_928 / (useful / 1e15)
    assert rail_only["cost_per_effective_pflops_usd"] == pytest.approx(per_pflops, rel=1e-9)
    assert sum(rail_only["breakdown_s"].values()) == pytest.approx(rail_only["iteration_time_s"])
    assert rail_only["iteration_time_s"] == rows["rail-optimized"]["iteration_time_s"]


def test_every_fabric_has_its_own_time() -> None:
    data = json.loads(netplan(*MAIN_JOB, "--format", "json").stdout)
    assert len(data["fabrics"]) == 9
    times = {row["fabric"]: row["iteration_time_s"] for row in data["fabrics"]}
    assert None not in times.values()
    # Smaller HB domains and tapered networks train slower than domains of 256.
    assert times["rail-only"] < times["dragonfly"] < times["dgx-2"] < times["dgx-1"]


def test_no_timing_leaves_nulls() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--no-timing",
        "--format",
        "json",
    )
    for row in json.loads(netplan(*arguments).stdout)["fabrics"]:
        assert row["iteration_time_s"] is None
        assert row["mfu"] is None
        assert row["plan"] is None


def test_csv_has_a_row_a_fabric() -> None:
    text = netplan(
        "compare", "rail-only-paper", "--gpus", "4096", "--radix", "64", "--format", "csv"
    ).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["fabric"] for row in rows][:2] == ["rail-optimized", "rail-only"]
    assert rows[0]["switches"] == "320"  # 128 + 128 + 64


def test_the_same_input_gives_the_same_bytes() -> None:
    assert netplan(*MAIN_JOB).stdout == netplan(*MAIN_JOB).stdout


def test_output_file_equals_stdout(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--no-timing",
        "--format",
        "json",
    )
    assert netplan(*arguments, "-o", str(path)).stdout == ""
    assert path.read_text() == netplan(*arguments).stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["answer.json"]


def test_one_fabric_and_an_override() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--fabric",
        "rail-only",
    )
    override = ("--set", "accelerator.memory_bytes=200e9", "--format", "json")
    data = json.loads(netplan(*arguments, *override).stdout)
    assert data["inputs"]["set"] == {"accelerator.memory_bytes": 200e9}
    assert [row["fabric"] for row in data["fabrics"]] == ["rail-only"]
    assert data["fabrics"][0]["memory_bytes"] < 200e9


def test_a_users_catalog_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / "traffic" / "models"
    folder.mkdir(parents=True)
    shipped = netplan("catalog", "show", "gpt-22b").stdout
    (folder / "gpt-22b.yaml").write_text(shipped.replace("layers: 48", "layers: 12"))
    show = ("catalog", "show", "gpt-22b", "--format", "json", "--catalog", str(tmp_path))
    assert json.loads(netplan(*show).stdout)["layers"] == 12


def test_fabric_that_cannot_be_built_keeps_its_row() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "8",
        "--no-timing",
        "--format",
        "json",
    )
    rows = {row["fabric"]: row for row in json.loads(netplan(*arguments).stdout)["fabrics"]}
    assert rows["dragonfly"]["switches"] is None
    assert "holds at most 110 GPUs" in rows["dragonfly"]["notes"][0]
    assert rows["rail-only"]["switches"] > 0


def test_a_model_that_fits_nowhere_says_by_how_much() -> None:
    arguments = ("compare", "rail-only-paper", "--gpus", "8", "--radix", "8", "--format", "json")
    row = json.loads(netplan(*arguments, "--fabric", "rail-only").stdout)["fabrics"][0]
    assert row["iteration_time_s"] is None
    assert any("fits on no plan: the nearest needs" in note for note in row["notes"])


def test_cables_and_modules_are_those_of_the_bill() -> None:
    # 64 cages of two 400G ports. A full mesh of 16 switches, four links between any two: 1,024
    # hosts on 512 twin cables, and of 480 links 60 ends at each switch: 30 twin modules a switch.
    size = ("--gpus", "1024", "--switch", "sn5600", "--accelerator", "h100-80gb", "--no-timing")
    done = netplan(
        "compare", "rail-only-paper", *size, "--fabric", "dragonfly", "--format", "json"
    ).stdout
    (row,) = json.loads(done)["fabrics"]
    assert (row["modules"], row["copper_ordered"]) == (16 * 30, 512)
    assert (row["transceivers"], row["copper_cables"]) == (0, 1_024 + 480)  # links, as planned


def test_what_follows_from_a_lower_bound_is_marked() -> None:
    size = ("compare", "rail-only-paper", "--gpus", "32768", "--radix", "128", "--no-timing")
    shown = netplan(*size, "--fabric", "dragonfly", "--format", "markdown").stdout
    (line,) = (text for text in shown.splitlines() if text.startswith("| dragonfly"))
    assert line.count("≥ ") == 2  # the price, and that of a GPU's share
    assert line.count("≤ ") == 1  # what is saved
    # A baseline without a whole price saves nothing that could be told.
    book = ("--prices", "2026", "--set", "prices.prices.transceiver@400.speed_gbps=401")
    rows = json.loads(netplan(*size, *book, "--format", "json").stdout)["fabrics"]
    assert {row["cost_reduction"] for row in rows} == {None}


@pytest.mark.parametrize("fabric", ["dgx-superpod", "dragonfly", "torus-2d", "rail-only"])
def test_an_oversubscription_that_does_not_apply_is_said(fabric: str) -> None:
    size = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "4096",
        "--radix",
        "64",
        "--accelerator",
        "h100-80gb",
    )
    asked = (*size, "--no-timing", "--fabric", fabric, "--format", "json")
    (row,) = json.loads(netplan(*asked, "--oversubscription", "3:1").stdout)["fabrics"]
    said = "Oversubscription 3:1 does not apply: only Clos and rail-only networks have leaves"
    assert any(note.startswith(said) for note in row["notes"]) == (fabric != "rail-only")
    (row,) = json.loads(netplan(*asked).stdout)["fabrics"]
    assert "does not apply" not in str(row["notes"])


def test_times_with_error_bars() -> None:
    arguments = ("compare", "rail-only-paper", "--gpus", "1024", "--radix", "64",
                 "--accelerator", "h100-80gb", "--fabric", "rail-only")  # fmt: skip
    asked = ("--model", "llama-3-70b", "--iteration-model", "calibrated", "--batch", "512")
    header, line = netplan(*arguments, *asked, "--format", "csv").stdout.splitlines()
    assert ",iteration_time_s,iteration_time_low_s,iteration_time_high_s,error_basis,mfu," in header
    row = dict(zip(header.split(","), line.split(","), strict=False))
    low, time_s, high = (float(row[f"iteration_time_{end}s"]) for end in ("low_", "", "high_"))
    assert (low / time_s, high / time_s) == pytest.approx((0.92, 1.1))


def test_columns_of_times_sum_to_the_iteration() -> None:
    arguments = (
        "compare",
        "rail-only-paper",
        "--gpus",
        "256",
        "--radix",
        "64",
        "--fabric",
        "rail-only",
    )
    asked = ("--accelerator", "h100-80gb", "--model", "llama-3-8b", "--recompute", "full")
    done = netplan(*arguments, *asked, "--iteration-model", "calibrated", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    parts = [float(row[name] or 0) for name in row if name.startswith("breakdown_s.")]
    assert sum(parts) == pytest.approx(float(row["iteration_time_s"]), rel=1e-9)
    assert float(row["breakdown_s.recompute"]) > 0
