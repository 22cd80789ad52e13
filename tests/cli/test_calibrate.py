"""``netplan calibrate``: its answer, files that every command takes, bad input in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import netplan as package
from netplan.calibration.steps import STEP_COLUMNS
from netplan.reports.sections import data_tables
from tests.cli.command import netplan, refused
from tests.cli.layout import asked, check_layout, schema_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "own-cluster"
OWN = ("calibrate", "--accelerator", "h100-80gb", "--gemm", "gemm.csv", "--collectives",
       "all_*.txt", "--steps", "steps.csv", "--name", "ours")  # fmt: skip
TRAFFIC = Path(__file__).parents[2] / "traffic"
KINDS = {"bf16 products": 24, "all_gather": 22, "all_reduce": 22, "iterations": 12}
"""What is measured, with its rows in the files of the example."""
Rows = list[dict[str, Any]]
STEPS = "model,gpus,batch,tensor,pipeline,precision,seconds\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog folder with the files of the example."""
    folder = tmp_path_factory.mktemp("own")
    done, answer = asked(*OWN, "--into", str(folder), "--details", cwd=EXAMPLES)
    assert done.returncode == 0, done.stderr
    check_layout(answer)
    assert [columns for _, columns, _ in schema_of(answer.sections())] == [
        "measured | rows | before | fitted | left out | most",
        "number | before | fitted | change | deviation | told",
        "row | measured [s] | predicted [s] | error | left out",
    ]
    check_errors(*(table.records() for table in data_tables(answer.sections())))
    return folder


def check_errors(groups: Rows, numbers: Rows, measurements: Rows) -> None:
    """Mean errors of the rows of each kind, worked out anew; numbers of before from their files."""
    rows = {name: [row for row in measurements if row["measured"] == name] for name in KINDS}
    assert [group["measured"] for group in groups] == [*KINDS]
    for group in groups:
        found = rows[group["measured"]]
        errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in found]
        assert len(found) == group["rows"] == KINDS[group["measured"]]
        assert group["error_after"] == pytest.approx(sum(errors) / len(errors))
        assert group["largest_error"] == pytest.approx(max(errors))
    h100 = yaml.safe_load((TRAFFIC / "accelerators" / "h100-80gb.yaml").read_text("utf-8"))
    link = yaml.safe_load((TRAFFIC / "links" / "nvlink-4.yaml").read_text("utf-8"))
    before = {(row["measured"], row["number"]): row["before"] for row in numbers}
    assert len(before) == len(numbers) == 26
    assert before["iterations", "training.gemm.bf16"] == h100["training"]["gemm"]["bf16"]
    large = link["all_gather"]["large"]
    assert before["all_gather", "large.efficiency"] == large["efficiency"]
    for row in numbers:
        assert row["change"] == pytest.approx(row["after"] / row["before"] - 1)


def test_the_fit_finds_what_the_example_was_made_of(folder: Path) -> None:
    accelerator, stack, link = (
        yaml.safe_load((folder / "traffic" / place / "ours.yaml").read_text("utf-8"))
        for place in ("accelerators", "stacks", "links")
    )
    # The runs are of 0.55, 0.58, 1.8 and 0.5, with 1 % of noise.
    assert accelerator["training"]["gemm"]["bf16"] == pytest.approx(0.55, rel=0.03)
    assert accelerator["training"]["gemm"]["fp8"] == pytest.approx(0.58, rel=0.03)
    assert stack["vector"] == pytest.approx(1.8, rel=0.15)
    assert stack["tensor_visible"] == pytest.approx(0.5, rel=0.05)
    assert link["all_gather"]["large"]["efficiency"] == pytest.approx(0.76, rel=0.02)
    # What was not measured stays, and says so.
    assert link["all_to_all"]["large"]["efficiency"] == 0.905
    assert "not measured: reduce_scatter, all_to_all" in link["notes"][0]
    assert accelerator["training"]["scored"] == {"ours": ["bf16", "fp8"]}
    # The bar is that of runs that were left out, at least as wide as nine of ten scatter by 3 %.
    assert accelerator["training"]["held_out"] == {
        "dense": {"runs": 12, "low": 0.953, "high": 1.05}
    }
    # Its products are its own; tables that nobody measured anew are those of the H100, by name.
    assert accelerator["tables"] == {"experts": "h100-80gb-experts"}
    # Nothing was fitted to software of a date: its numbers are not those of these runs.
    assert "dated" not in accelerator["training"]
    assert "dated" not in stack
    for record in (accelerator, stack, link):
        assert "sha256" in record["source"] + " ".join(record["notes"])
        assert any("rows: mean error" in note for note in record["notes"])


def test_every_question_takes_the_files(folder: Path) -> None:
    ours = ("--catalog", str(folder), "--accelerator", "ours")
    assert netplan("catalog", "check", "--catalog", str(folder)).returncode == 0
    served = ("--gpus", "8", "--model", "llama-3-8b", "--precision", "bf16", "--format", "json")
    best = json.loads(netplan("serving", "hgx-h100", *ours, *served).stdout)["plans"][0]
    assert set(best["kernel_source"].values()) == {"form"}
    plan = ("--gpus", "64", "--model", "llama-3-8b", "--batch", "128", "--format", "json")
    by_stack = ("--iteration-model", "calibrated", "--stack", "ours")
    done = netplan("search", "rail-only-paper", *ours, "--iteration-model", "measured", *plan)
    assert done.returncode == 0, done.stderr
    done = netplan("search", "rail-only-paper", *ours, *by_stack, *plan)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plans"][0]["error_basis"] == "calibrated"
    sent = ("--kind", "all_reduce", "--bytes", "512MiB", "--gpus", "8", "--format", "json")
    own, shipped = (
        json.loads(netplan("collective", "--scenario", "hgx-h100", *words, *sent).stdout)["time_s"]
        for words in (ours, ("--accelerator", "h100-80gb"))
    )
    assert own == pytest.approx(shipped * 0.729 / 0.66, rel=0.03)


def test_files_are_replaced_only_by_force(folder: Path) -> None:
    words = ("calibrate", "--accelerator", "h100-80gb", "--gemm", "gemm.csv", "--name", "ours")
    before = (folder / "traffic/accelerators/ours.yaml").read_bytes()
    error = refused(*words, "--into", str(folder), cwd=EXAMPLES)
    assert "already there: give another --name, or --force" in error
    assert (folder / "traffic/accelerators/ours.yaml").read_bytes() == before


def test_without_into_nothing_is_written(tmp_path: Path) -> None:
    gemm = str(EXAMPLES / "gemm.csv")
    done = netplan("calibrate", "--accelerator", "h100-80gb", "--gemm", gemm, cwd=tmp_path)
    assert done.stderr == "nothing is written: --into DIR writes 4 files\n"
    assert not list(tmp_path.iterdir())


def test_templates_are_tables_that_are_read(tmp_path: Path) -> None:
    asked = ("calibrate", "--accelerator", "h100-80gb")
    for kind in ("gemm", "steps"):
        done = netplan("calibrate", "--template", kind, cwd=tmp_path)
        assert done.returncode == 0
        (tmp_path / f"{kind}.csv").write_text(done.stdout, encoding="utf-8")
    assert netplan(*asked, "--gemm", "gemm.csv", cwd=tmp_path).returncode == 0
    # Steps are read, and too few.
    error = refused(*asked, "--steps", "steps.csv", cwd=tmp_path)
    assert "2 measurements, a fit takes 6 or more" in error
    done = netplan("calibrate", "--template", "gemm", "-o", "new.csv", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "wrote new.csv\n")
    assert (tmp_path / "new.csv").read_text("utf-8").startswith("dtype,m,n,k,time_s\n")
    header = (tmp_path / "steps.csv").read_text("utf-8").partition("\n")[0]
    assert header == ",".join(one.name for one in STEP_COLUMNS)


def test_no_file_names_one_that_could_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "traffic").mkdir()
    (tmp_path / "traffic" / "links").write_text("a file where a folder belongs")
    error = refused(*OWN, "--into", str(tmp_path), cwd=EXAMPLES)
    assert "links/ours.yaml: cannot be written" in error
    assert not (tmp_path / "traffic" / "accelerators" / "ours.yaml").exists()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("llama-3-8b,8,128,3,1,bf16,1", "3, which do not divide 8 GPUs"),
        ("llama-3-8b,8,100,1,1,bf16,1", "a batch of 100 is no multiple of 8 replicas"),
        ("llama-3-8b,8,128,1,1,fp4,1", "h100-80gb computes no fp4"),
        ("llama-3-8b,64,128,1,64,bf16,1", "32 layers on 64 stages"),
        ("llama-9,8,128,1,1,bf16,1", "unknown model 'llama-9': did you mean"),
        (
            "mixtral-8x7b,8,128,1,1,bf16,1",
            "has experts, which fits know under software of a date alone",
        ),
        ("llama-3-8b,8,128,1,1,int1,1", "precision: got 'int1', give bf16"),
        ("llama-3-8b,8,128,1,1,bf16,14370", "times what the files say: is it of this accelerator"),
        ("llama-3-8b,8,128,1,1,bf16,0", "seconds: got '0', give a number above 0"),
    ],
)
def test_runs_that_are_none_are_one_line(row: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text(STEPS + f"{row}\n" * 6, encoding="utf-8")
    words = ("calibrate", "--accelerator", "h100-80gb", "--steps", "steps.csv")
    error = refused(*words, cwd=tmp_path)
    assert said in error
    assert error.count("\n") == 1


def test_the_accelerator_has_to_be_said() -> None:
    assert "on which GPU was measured?" in refused("calibrate", "--gemm", "gemm.csv", cwd=EXAMPLES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to fit: give --gemm, --collectives or --steps"),
        (("--gemm", "none.csv"), "--gemm none.csv: no such file"),
        (("--gemm", "gemm.csv", "--gemm", "gemm.csv"), "a file is given twice"),
        (("--gemm", ""), "'--gemm': it is empty: give a path, or leave the option out"),
        (("--gemm", "gemm.csv", "--into", ""), "'--into': it is empty"),
        (("--gemm", "gemm.csv", "--name", "../up"), "begin with a letter"),
        (("--gemm", "all_gather.txt"), "all_gather.txt:18: unknown column"),
        (("--collectives", "gemm.csv"), "no output of nccl-tests"),
        (("--collectives", "all_gather.txt", "--set", "accelerator.hb_size=4"), "HB domain of 4"),
        (("--gemm", "gemm.csv", "--into", "gemm.csv"), "gemm.csv"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(words: tuple[str, ...], said: str) -> None:
    error = refused("calibrate", "--accelerator", "h100-80gb", *words, cwd=EXAMPLES)
    assert said in error
    assert error.count("\n") == 1


def test_an_accelerator_without_runs_gets_its_first(tmp_path: Path) -> None:
    rows = "".join(f"llama-3-8b,{8 * n},128,1,1,bf16,{20 / n}\n" for n in (1, 2, 4, 8)) * 2
    (tmp_path / "steps.csv").write_text(STEPS + rows, encoding="utf-8")
    found = package.calibrate(
        accelerator="b200", stack="fsdp-eager", steps=(tmp_path / "steps.csv",)
    )
    assert found.numbers[0].number == "training.gemm.bf16"
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert found.plot("fit-iterations").data[1].name == "before"
    (own, *_) = found.write(tmp_path)
    assert own == tmp_path / "traffic/accelerators/b200-own.yaml"


def test_runs_of_something_else_are_not_to_plan_with() -> None:
    """The example's runs are of H100s; a slower chip's peak cannot take as long."""
    said = "no error bar holds that, so do not plan with these files"
    for accelerator, far in (("tpu-v5p", True), ("h100-80gb", False)):
        done = netplan(
            "calibrate", "--accelerator", accelerator, "--steps", "steps.csv", cwd=EXAMPLES
        )
        assert (said in " ".join(done.stdout.split())) == far
