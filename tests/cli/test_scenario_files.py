"""Scenario files with something wrong: file, line, what is allowed, the nearest that is."""

from pathlib import Path

import pytest

from netplan.catalog import check_file
from netplan.inputs.choices import FOLDERS
from netplan.questions.shelves import all_shelves
from netplan.scenarios.scenario import SCENARIOS, STACKS, WORKLOADS, Scenario, all_places
from tests.cli.command import netplan, refused

WHOLE = """\
name: mine
cluster:
  gpus: 64
  accelerator: h100-80gb
  radix: 64
  fabrics: [rail-only, fat-tree]
workload:
  kind: training
  model: gpt-22b
  batch: 64
books:
  prices: "2026"
  terms:
    pue: 1.2
"""


def changed(before: str, after: str) -> str:
    assert before in WHOLE
    return WHOLE.replace(before, after)


FAULTS = [
    ("gpus: 64", "gpsu: 64", 3, "unknown key cluster.gpsu: did you mean gpus?"),
    ("gpus: 64", "gpus: 0", 3, "cluster.gpus: got 0: input should be greater than or equal to 1"),
    ("gpus: 64", "gpus: many", 3, "cluster.gpus: got 'many': input should be a valid integer"),
    ("fabrics: [rail-only, fat-tree]", "fabrics: []", 6, "cluster.fabrics: got []: input should"),
    ("name: mine", "set: {cluster.gpus: 8}", 1, "set.cluster.gpus: write it under cluster"),
    ("radix: 64", "books: {}", 5, "unknown key cluster.books: did you mean books?"),
    ("radix: 64", "model: gpt-22b", 5, "unknown key cluster.model: did you mean workload.model?"),
    ("model: gpt", "modle: gpt", 9, "unknown key workload.modle: did you mean mod"),
    (
        "kind: training",
        "kind: servin",
        8,
        (
            "workload.kind: got 'servin': input should be 'training' or 'serving' or "
            "'post-training': did you mean serv"
        ),
    ),
    (
        "kind: training",
        "kind: 3",
        8,
        "workload.kind: got 3: input should be 'training' or 'serving'",
    ),
    ("batch: 64", "ttft_ms: 64", 10, "unknown key workload.ttft_ms: it is one of kind serving"),
    ("batch: 64", "batch: abc", 7, "batch: 'abc' is not a whole number"),
    ("pue: 1.2", "peu: 1.2", 14, "unknown key books.terms.peu: did you mean pue?"),
    ("pue: 1.2", "pue: high", 14, "books.terms.pue: got 'high': input should be a valid number"),
    (
        "  terms:\n    pue: 1.2",
        "  pue: 1.2",
        13,
        "unknown key books.pue: did you mean books.terms.pue?",
    ),
    ('"2026"', "2026", 12, "books.prices: got 2026: input should be a valid string"),
    ('"2026"', '"2027"', 12, "unknown prices '2027': did you mean 2026?"),
    ("h100-80gb", "h100", 4, "unknown accelerator 'h100': did you mean h100-80gb or "),
    ("model: gpt-22b", "model: gtp-22b", 9, "unknown model 'gtp-22b': did you mean gpt-22b"),
    ("fat-tree]", "fattree]", 6, "unknown fabric 'fattree': did you mean fat-tree"),
    ("gpus: 64", "gpus: 64\n  gpus: 65", 4, "key gpus stands twice"),
    ("gpus: 64", "gpus: &all 64", 3, "anchors and aliases (& and *) are not allowed"),
    ("gpus: 64", "gpus: !mine 64", 3, "tags such as !mine are not allowed"),
    ("[rail-only, fat-tree]", "rail-only", 6, "cluster.fabrics: got 'rail-only'"),
    ("books:\n", "books: [\n", 13, "did not find expected ',' or ']'"),
]


@pytest.mark.parametrize(("before", "after", "line", "message"), FAULTS)
def test_a_fault_is_told_with_its_line(
    before: str, after: str, line: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(changed(before, after), encoding="utf-8")
    for words in (("compare", "mine.yaml"), ("cost", "mine.yaml"), ("diff", "mine.yaml", "--b")):
        command = (*words, "radix=32") if words[-1] == "--b" else words
        error = refused(*command, cwd=tmp_path)
        assert error.startswith(f"netplan: mine.yaml:{line}: "), error
        assert message in error
        assert error.count("\n") == 1
    done = netplan("catalog", "check", "mine.yaml", "--role", "scenario", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"mine.yaml:{line}: ")
    assert message in done.stderr
    assert done.stdout == "0 of 1 files are sound.\n"


def test_a_file_writes_numbers_as_flags_do(tmp_path: Path) -> None:
    text = changed("gpus: 64", "gpus: 16k\n  oversubscription: 2:1").replace(
        "pue: 1.2", 'pue: "1.2"'
    )
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    scenario = Scenario.load(str(tmp_path / "mine.yaml"))
    assert (scenario.cluster.gpus, scenario.cluster.oversubscription) == (16_000, 2.0)
    assert scenario.books.terms.pue == 1.2
    (tmp_path / "mine.yaml").write_text(changed("radix: 64", "nic: 800"), encoding="utf-8")
    assert Scenario.load(str(tmp_path / "mine.yaml")).cluster.nic_gbps == 800


def test_a_flag_and_set_of_one_input_contradict_each_other() -> None:
    error = refused("cost", "--gpus", "128", "--set", "cluster.gpus=8")
    assert error == "netplan: --set cluster.gpus=8 and --gpus are one input: give it once\n"


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    text = changed("gpus: 64", "gpsu: 64").replace("pue: 1.2", "pue: high")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    done = netplan("catalog", "check", "mine.yaml", "--role", "scenario", cwd=tmp_path)
    assert [row.partition(": ")[0] for row in done.stderr.splitlines()] == [
        "mine.yaml:3",
        "mine.yaml:14",
    ]
    names = changed("h100-80gb", "h100").replace("gpt-22b", "gtp-22b")
    (tmp_path / "mine.yaml").write_text(names, encoding="utf-8")
    done = netplan("catalog", "check", "mine.yaml", "--role", "scenario", cwd=tmp_path)
    assert len(done.stderr.splitlines()) == 2


def test_the_whole_file_is_sound_and_may_leave_its_name_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    for text in (WHOLE, changed("name: mine\n", "")):
        path.write_text(text, encoding="utf-8")
        done = netplan("catalog", "check", "mine.yaml", "--role", "scenario", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert netplan("cost", "mine.yaml", cwd=tmp_path).stdout.startswith("mine: ")
    path.write_text(changed("name: mine", "name: yours"), encoding="utf-8")
    done = netplan("catalog", "check", "mine.yaml", "--role", "scenario", cwd=tmp_path)
    assert "the name is 'yours', but the file is called 'mine'" in done.stderr


def test_words_that_are_no_names_and_paths_are_left_alone(tmp_path: Path) -> None:
    text = changed("radix: 64", "radix: 64\n  expanded_memory: none\n  networks: [accelerators]")
    text = text.replace("[rail-only, fat-tree]", "[all]").replace("gpt-22b", "./none.yaml")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    # That file is missed where somebody asks about it.
    assert check_file(SCENARIOS, tmp_path / "mine.yaml") is None
    assert "no model file ./none.yaml" in refused("search", "mine.yaml", cwd=tmp_path)


def test_names_of_one_s_own_catalog_are_known(tmp_path: Path) -> None:
    folder = tmp_path / "costing" / "prices"
    folder.mkdir(parents=True)
    shipped = Path(__file__).parents[2] / "costing/prices/2026.yaml"
    own = (
        shipped.read_text("utf-8")
        .replace("name: 2026", "name: ours")
        .replace('name: "2026"', "name: ours")
    )
    (folder / "ours.yaml").write_text(own, encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(changed('"2026"', "ours"), encoding="utf-8")
    words = ("cost", "mine.yaml", "--catalog", str(tmp_path))
    assert netplan(*words, cwd=tmp_path).returncode == 0
    assert "mine.yaml:12: unknown prices 'ours'" in refused("cost", "mine.yaml", cwd=tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hgxb200", "unknown scenario 'hgxb200': did you mean hgx-b200 or hgx-h100?"),
        ("nvl72", "unknown scenario 'nvl72': did you mean nvl72-gb200 or nvl72-gb300 or vr-nvl72?"),
        ("rail-only", "unknown scenario 'rail-only': did you mean rail-only-paper?"),
        ("mine.yaml", "no scenario file mine.yaml"),
        ("./mine", "no scenario file ./mine"),
    ],
)
def test_a_word_is_a_name_and_a_path_a_file(name: str, message: str, tmp_path: Path) -> None:
    assert message in refused("compare", name, cwd=tmp_path)


def test_names_are_looked_up_on_the_shelves_that_questions_read() -> None:
    folders = {(shelf.role, shelf.folder) for shelf in all_shelves().values()}
    named = {value for fields in FOLDERS.values() for value in fields.values()}
    assert named | {*STACKS.values()} <= folders
    for part, fields in FOLDERS.items():
        for field in fields:
            places_of = [all_places(kind).get(field) for kind in WORKLOADS]
            assert part in {place.part for place in places_of if place is not None}


def test_a_shelf_lists_and_shows_scenarios() -> None:
    listed = netplan("catalog", "list", "scenario", "--format", "csv").stdout.splitlines()
    assert len(listed) == 1 + len(SCENARIOS.paths())
    shown = netplan("catalog", "show", "hgx-b200", columns=200)
    assert shown.stdout.startswith("name: hgx-b200\n")
    assert shown.stderr.startswith("scenario: ")
    assert '"gpus": 32768' in netplan("catalog", "show", "hgx-b200", "--format", "json").stdout
