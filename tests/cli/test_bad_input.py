"""Wrong input: one clear line, exit code 2, nothing lost or half-written."""

import json
from pathlib import Path

import pytest

from tests.cli.command import netplan, refused, without

COMPARE = ("compare", "rail-only-paper", "--gpus", "4096", "--radix", "64", "--no-timing")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpus", "7"), "7 GPUs are out of range: give 8 to 4,194,304"),
        (("--gpus", "-5"), "-5 GPUs are out of range"),
        (("--gpus", "1e6"), "'1e6' is not a whole number: write 1000000"),
        (("--gpus", "many"), "'many' is not a whole number"),
        (("--gpus", "99999999"), "99,999,999 GPUs are out of range"),
        (("--radix", "127"), "switch radix 127 cannot be used: give an even number"),
        (("--radix", "0"), "switch radix 0 cannot be used"),
        (("--radix", "6"), "give an even number of ports from 8 to 1,024"),
        (("--hb-size", "5000"), "an HB domain of 5,000 GPUs is out of range: give 1 to 4,096"),
        (("--hb-size", "0"), "an HB domain of 0 GPUs is out of range"),
        (("--batch", "0"), "the global batch is at least 1 sequence, got 0"),
        (("--batch", "1000000001"), "at most 1,000,000,000 sequences, got 1,000,000,001"),
        (("--oversubscription", "0.5"), "'0.5' is out of range: at least 1:1"),
        (("--oversubscription", "a:b"), "'a:b' is not a ratio: write 3 or 3:1"),
        (("--oversubscription", "100"), "oversubscription 100:1 cannot be built with radix 64"),
        (("--model", "gtp-1t"), "unknown model 'gtp-1t': did you mean gpt-1t"),
        (("--accelerator", "h100"), "unknown accelerator 'h100': did you mean h100-80gb"),
        (("--accelerator", 300 * "a"), "unknown accelerator 'aaa"),
        (("--fabric", "torus-4d"), "unknown fabric 'torus-4d': did you mean torus-"),
        (("--hall", "nowhere"), "unknown floor-plan 'nowhere': known: as-published, example-hall"),
        (("--hall", "as-publisht"), "unknown floor-plan 'as-publisht': did you mean as-published?"),
        (("--hall", "no.yaml"), "no floor-plan file no.yaml"),
        (("--prices", "2027"), "unknown prices '2027': did you mean 2026"),
        (("--catalog", "no/such/folder"), "--catalog: no such folder: no/such/folder"),
        (("--set", "accelerator.memory_bytes"), "write ROLE.KEY=VALUE"),
        (("--set", "acelerator.memory_bytes=1"), "did you mean accelerator"),
        (("--set", "accelerator.memory=1"), "unknown key memory: did you mean memory_bytes?"),
        (("--set", "accelerator.memory_bytes=lots"), "memory_bytes: got 'lots'"),
        (("--set", "accelerator.memory_bytes=-1"), "memory_bytes: got -1"),
        (
            ("--set", "accelerator.expanded_bytes=1e9"),
            "--set accelerator.expanded_bytes=1e9: expanded_bytes without expanded_bytes_per_s",
        ),
        (("--set", "accelerator.memory_bytes=.inf"), "memory_bytes: got inf"),
        (("--set", "accelerator.memory_bytes=.nan"), "memory_bytes: got nan"),
        (("--set", "accelerator.network_bytes_per_s=1e-300"), "0 or from 1e-30 to 1e30 in size"),
        (("--format", "xml"), "'xml' is not one of"),
        (("--gpu", "8"), "No such option"),
        (
            ("--batch", "9" * 20),
            "--batch 99,999,999,999,999,999,999 is out of range: give a number",
        ),
        (("--experts", "9" * 400), "--experts so large a number is out of range"),
        (("--experts", "-1"), "a layer has at least 1 expert, got -1"),
        (("--strategy", "3d"), "unknown strategy '3d': use one of 1d, 2d, summa, all"),
        (("--mode", "x"), "unknown mode 'x': use one of corrected, published-code"),
        (("--catalog", "two\nlines\u202e"), r"no such folder: two\nlines\u202e"),
        (("-o", "no/such/folder/out.json"), "cannot be written: No such file or directory"),
        (("-o", "/"), "cannot be written: it is a folder"),
        (("-o", ""), "it is empty: give a path, or leave the option out"),
        (
            ("--top-k", "2"),
            "--top-k 2: a token visits 1 to 1 experts (all there are): give --experts",
        ),
    ],
)
def test_wrong_options(arguments: tuple[str, str], message: str) -> None:
    error = refused(*without(COMPARE, arguments[0]), *arguments)
    assert message in error
    assert error.count("\n") == 1


def test_misspelt_command() -> None:
    assert "unknown command 'compar': did you mean compare?" in refused("compar")


def test_missing_option() -> None:
    assert "Missing option '--to'. Choose from: " in refused("export", "rail-only-paper")
    error = refused("collective", "--scenario", "hgx-h100", "--gpus", "64")
    assert "Missing option '--kind'. Choose from: all_gather, reduce_scatter" in error


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("accelerator.measured.corrections=/etc/passwd", "give the name of a table in the same"),
        ("accelerator.measured.corrections=../up.csv", "got '../up.csv'"),
        ("stack.tensor_visible=2", "less than or equal to 1"),
        ("stack.pipeline_visible=1.1", "less than or equal to 1"),
        (
            "iteration-model.calibration.errors.transferred.low=1.05",
            "from 1.05 to 1.18: 1, the time",
        ),
        ("iteration-model.calibration.contention=2", "less than or equal to 1"),
    ],
)
def test_wrong_rates_of_kernels_and_stacks(setting: str, message: str) -> None:
    error = refused(
        *(
            "search",
            "rail-only-paper",
            "--gpus",
            "64",
            "--accelerator",
            "h100-80gb",
            "--model",
            "llama-3.1-8b",
        ),
        *("--iteration-model", "calibrated", "--set", setting),
    )
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("shipped", "old", "new", "message"),
    [
        (
            "links/nvlink-4",
            "share: 0.057",
            "share: 1",
            "errors.0.share: got 1: input should be less",
        ),
        ("links/nvlink-4", "larger_error: 0.32", "larger_error: 1", "larger_error: got 1: input"),
        (
            "stacks/megatron-2025",
            "[cudnn, fa2]",
            "[]",
            "attention: got []: input should be a list of",
        ),
    ],
)
def test_wrong_links_and_stacks(
    tmp_path: Path, shipped: str, old: str, new: str, message: str
) -> None:
    # An error of 1 has no upper end: the time is divided by 1 less the error.
    own = tmp_path / "traffic" / f"{shipped}.yaml"
    own.parent.mkdir(parents=True)
    text = Path("traffic", f"{shipped}.yaml").read_text(encoding="utf-8")
    assert old in text
    own.write_text(text.replace(old, new), encoding="utf-8")
    assert message in refused(
        *(
            "collective",
            "--scenario",
            "hgx-h100",
            "--kind",
            "send",
            "--gpus",
            "8",
            "--accelerator",
            "h100-80gb",
        )
        if "links" in shipped
        else (*COMPARE, "--iteration-model", "calibrated", "--accelerator", "h100-80gb"),
        *("--catalog", str(tmp_path)),
    )


PRICES = """\
name: mine
title: My prices
source: a letter
date: "2026-01"
currency: USD
prices:
  - {part: switch_port, speed_gbps: 400, unit: USD/port, base: 700,
     date: "2026", source: a letter, confidence: low}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("USD/port", "EUR/port", "mine.yaml:1: switch_port at 400 Gb/s: unit must be 'USD/port'"),
        ("base: 700", "base: -1", "mine.yaml:7: prices.0.base: got -1"),
        ("base: 700", "base: 700, low: 900", "prices run low <= base <= high"),
        ("base:", "bass:", "mine.yaml:7: unknown key prices.0.bass: did you mean base?"),
        ("currency: USD", "", "mine.yaml:1: currency is missing"),
        ("currency: USD", "currency: &a [*a]", "anchors and aliases"),
        ("currency: USD", "currency: !!python/object:os.system x", "tags such as"),
        ("currency: USD", "currency: USD\ncurrency: EUR", "mine.yaml:6"),
        ("currency: USD", "currency: [", "mine.yaml:"),
        ("name: mine", "- name: mine", "mine.yaml:"),
    ],
)
def test_wrong_files_name_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(PRICES.replace(old, new), encoding="utf-8")
    assert message in refused(*COMPARE, "--prices", str(path))


def test_anchor_bomb_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    error = refused(*COMPARE, "--model", str(path))
    assert "anchors and aliases (& and *) are not allowed" in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00x", "not UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
        (b"# " + b"x" * (1 << 20), "larger than 1 MiB"),
        (b"", "expected a mapping"),
    ],
)
def test_hostile_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content)
    assert message in refused(*COMPARE, "--model", str(path))


def test_all_faults_of_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(PRICES.replace("base: 700", "bass: 700").replace('date: "2026-01"\n', ""))
    done = netplan("catalog", "check", str(path), "--role", "prices")
    assert done.returncode == 2
    assert "mine.yaml:1: date is missing" in done.stderr
    assert "mine.yaml:6: unknown key prices.0.bass" in done.stderr
    assert "mine.yaml:6: prices.0.base is missing" in done.stderr


def test_known_keys_stand_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(PRICES + "zzz: 1\n", encoding="utf-8")
    known = refused(*COMPARE, "--prices", str(path)).partition("known: ")[2].split(", ")
    assert "name" in known
    assert len(known) == len(set(known)), known


def test_an_old_file_survives_a_wrong_run(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("precious")
    refused(*without(COMPARE, "--gpus"), "--gpus", "7", "-o", str(path))
    assert path.read_text() == "precious"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_an_unwritable_folder_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.mkdir()
    refused(*COMPARE, "-o", str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_a_fabric_that_cannot_be_built_alone_is_an_error() -> None:
    error = refused(
        "compare", "rail-only-paper", "--gpus", "4096", "--radix", "8", "--fabric", "dragonfly"
    )
    assert "holds at most 110 GPUs at the rate of a port, got 4,096: raise the radix" in error


def edges(folder: Path, gpus: int) -> str:
    path = folder / "small.csv"
    rows = [f"gpu-{number},leaf-0,400" for number in range(gpus)]
    path.write_text("\n".join(["source,target,gbps", *rows]) + "\n", "utf-8")
    return str(path)


@pytest.mark.parametrize("gpus", ["4", "8"])
def test_a_graph_of_fewer_gpus_than_are_planned_says_what_helps(tmp_path: Path, gpus: str) -> None:
    path = edges(tmp_path, 4)
    error = refused("cost", "rail-only-paper", "--gpus", gpus, "--radix", "16", "--fabric", path)
    if gpus == "8":
        assert "the graph holds 4 GPUs, and clusters of 8 or more are planned" in error
        assert "--gpus 4" not in error
        assert netplan("draw", "rail-only-paper", "--graph", path).stdout.startswith(
            "<svg"
        )  # what it advises
    else:
        assert "4 GPUs are out of range: give 8 to" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("draw", "rail-only-paper"),
        ("export", "rail-only-paper", "--to", "edges"),
        ("loads", "rail-only-paper", "--matrix", "m.csv"),
    ],
)
@pytest.mark.parametrize(
    "given", [("--gpus", "8"), ("--fabric", "dragonfly"), ("--radix", "32")], ids=lambda one: one[0]
)
def test_two_networks_in_one_question_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], given: tuple[str, str]
) -> None:
    error = refused(*arguments, "--graph", edges(tmp_path, 8), *given)
    assert f"{given[0]} {given[1]} means nothing for --graph, which has its own" in error


@pytest.mark.parametrize(
    ("radix", "planes", "advice"),
    [
        ("1024", "8", "give at most 128, or leave planes out"),
        ("256", "8", "give at most 128, or take 4 planes or fewer"),
        ("1024", "600", "leave planes out"),
    ],
)
def test_planes_that_cannot_be_split_say_how_many_can(radix: str, planes: str, advice: str) -> None:
    asked = (
        "cost",
        "rail-only-paper",
        "--gpus",
        "64",
        "--radix",
        radix,
        "--fabric",
        "eight-planes",
    )
    error = refused(*asked, "--set", f"fabric.planes={planes}")
    assert error.rstrip(".\n").endswith(f"Gb/s; {advice}")
    assert "at most 0" not in error


@pytest.mark.parametrize("fabric", ["slim-fly", "hyperx", "eight-planes", "bcube", "palm-wafer"])
def test_a_fabric_that_cannot_be_built_is_named_once(fabric: str) -> None:
    sizes = ("--gpus", "40001", "--radix", "8", "--hb-size", "1")
    if fabric == "eight-planes":
        sizes = ("--gpus", "64", "--radix", "512", "--hb-size", "8")
    error = refused("cost", "rail-only-paper", *sizes, "--fabric", fabric)
    assert error.startswith(f"netplan: {fabric}: Cannot be built: ")
    assert error.count(fabric) == 1
    asked = ("compare", "rail-only-paper", *sizes, "--no-timing", "--format", "json")
    done = netplan(*asked, "--fabric", fabric, "--fabric", "fat-tree")
    assert f"Cannot be built: {fabric}" not in done.stdout
    assert "Cannot be built: " in done.stdout


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--model", "gpt-22b"), "--model gpt-22b"),
        (("--workload", "serving"), "--workload serving"),
        (("--seed", "3"), "--seed 3"),
    ],
)
def test_a_drawing_of_links_alone_takes_nothing_of_runs(given: tuple[str, ...], named: str) -> None:
    error = refused("draw", "--gpus", "64", "--radix", "16", "--hb-size", "8", *given)
    assert f"{named} means nothing for a drawing without --show loads" in error


def test_bounds_are_of_a_matrix() -> None:
    error = refused(
        "loads", "rail-only-paper", "--gpus", "64", "--radix", "16", "--hb-size", "8", "--bounds"
    )
    assert "--bounds is of --matrix" in error


def test_full_ports_say_where_there_is_one_alone() -> None:
    asked = (
        "cost",
        "rail-only-paper",
        "--gpus",
        "64",
        "--radix",
        "16",
        "--hb-size",
        "8",
        "--ports",
        "full",
    )
    done = netplan(*asked, "--fabric", "rail-only", "--fabric", "torus-3d", "--format", "json")
    notes = {row["fabric"]: row["notes"] for row in json.loads(done.stdout)["fabrics"]}
    said = "--ports full does not apply here: a GPU has one port, or one a plane."
    assert [said in notes[name] for name in ("rail-only", "torus-3d")] == [True, False]


@pytest.mark.parametrize("command", ["search", "loads", "simulate", "traffic", "draw", "cables"])
def test_full_ports_of_a_fabric_with_one_alone_are_refused(command: str) -> None:
    asked = ("--gpus", "64", "--radix", "16", "--hb-size", "8", "--fabric", "rail-only")
    error = refused(command, "rail-only-paper", *asked, "--ports", "full")
    assert "--ports full means nothing for rail-only" in error


@pytest.mark.parametrize("command", ["faults", "optimize"])
def test_full_ports_are_told_apart_by_every_question_about_several_fabrics(command: str) -> None:
    asked = ("--gpus", "64", "--model", "gpt-22b", "--hb-size", "8", "--fabric", "rail-only")
    done = netplan(command, "rail-only-paper", *asked, "--ports", "full", "--details")
    assert "--ports full does not apply here" in " ".join(done.stdout.split()), done.stderr


@pytest.mark.parametrize("command", ["loads", "simulate"])
def test_a_seed_is_of_hashed_paths_and_of_failures(command: str) -> None:
    asked = (
        command,
        "rail-only-paper",
        "--gpus",
        "64",
        "--radix",
        "16",
        "--hb-size",
        "8",
        "--model",
        "gpt-22b",
    )
    assert "--seed 3 means nothing for paths that are not hashed" in refused(*asked, "--seed", "3")
    for useful in (("--routing", "hashed"), ("--fail", "spine=1")):
        assert netplan(*asked, "--seed", "3", *useful).returncode == 0
