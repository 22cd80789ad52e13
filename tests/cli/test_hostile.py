"""Input that would hang, crash, fill the memory, steer a terminal or lose a file: one line each."""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from netplan.answers.compare_answer import Comparison
from netplan.questions.compare import Compare
from tests.cli.command import netplan, netplan_into, netplan_process, refused, variables

SMALL = ("--gpus", "64", "--radix", "8", "--hb-size", "8")
LOADS = ("loads", "rail-only-paper", *SMALL)
ESCAPES = "\x1b[2J\x9b31m\u202e"
MATRIX = {
    "gpus": np.array(64),
    "source": np.array([0, 1]),
    "destination": np.array([2, 3]),
    "flow_bytes": np.array([1.0, 2.0]),
    "kind": np.array([0, 0]),
}


def save(path: Path, **changed: np.ndarray | None) -> None:
    """Write a matrix with other arrays, or without some."""
    arrays = {name: array for name, array in (MATRIX | changed).items() if array is not None}
    np.savez_compressed(path, allow_pickle=True, **arrays)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gpus": np.array("abc")}, "array 'gpus' is of <U3"),
        ({"gpus": np.array([64, 64])}, "array 'gpus' is of int64 in 1 dimensions"),
        ({"gpus": np.array(64.5)}, "array 'gpus' holds a number that is not whole"),
        ({"source": np.array([0.5, 1])}, "array 'source' holds a number that is not whole"),
        ({"source": np.array([[0, 1]])}, "array 'source' is of int64 in 2 dimensions"),
        ({"source": np.array(["a", "b"])}, "array 'source' is of <U1"),
        ({"source": np.array([1j, 2])}, "array 'source' is of complex128"),
        ({"source": np.array([object(), 1], object)}, "array 'source' is of object"),
        ({"source": np.array([True, False])}, "array 'source' is of bool"),
        ({"flow_bytes": np.array(["1", "2"])}, "array 'flow_bytes' is of <U1"),
        ({"kind": None}, "array 'kind' is missing"),
        ({"members_0": np.array([[0, 1]])}, "array 'pair_0' is missing"),
        (
            {"members_0": np.array([[0, 1]]), "pair_0": np.array([1.0, 0.5])},
            "a kind code is out of range: use 0 to 18, got 0.5",
        ),
    ],
)
def test_archives_that_are_no_matrix(
    tmp_path: Path, changed: dict[str, np.ndarray | None], message: str
) -> None:
    save(tmp_path / "m.npz", **changed)
    error = refused(*LOADS, "--matrix", "m.npz", cwd=tmp_path)
    assert message in error
    assert error.count("\n") == 1


def test_damaged_archives(tmp_path: Path) -> None:
    save(tmp_path / "whole.npz")
    content = (tmp_path / "whole.npz").read_bytes()
    for at in range(0, len(content), 61):
        broken = bytearray(content)
        broken[at] ^= 0xFF
        (tmp_path / "m.npz").write_bytes(broken)
        done = netplan(*LOADS, "--matrix", "m.npz", cwd=tmp_path)
        assert done.returncode in (0, 2)
        assert done.stderr.count("\n") == done.returncode // 2


def test_arrays_that_nobody_needs_are_not_read(tmp_path: Path) -> None:
    save(tmp_path / "m.npz")
    with (
        zipfile.ZipFile(tmp_path / "m.npz", "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("unneeded.npy", "w", force_zip64=True) as file,
    ):
        header = {"descr": "|u1", "fortran_order": False, "shape": (1 << 33,)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(64):
            file.write(bytes(1 << 20))
    assert netplan(*LOADS, "--matrix", "m.npz", cwd=tmp_path).returncode == 0


def test_a_header_that_promises_too_much(tmp_path: Path) -> None:
    part = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (1 << 40,)}
    np.lib.format.write_array_header_1_0(part, header)
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("gpus.npy", part.getvalue())
    assert "cannot be read as a traffic matrix" in refused(
        *LOADS, "--matrix", "m.npz", cwd=tmp_path
    )


def test_a_spreadsheet_as_wide_as_it_can_be(tmp_path: Path) -> None:
    rows = "".join(f'<row r="{i}"><c r="ZZZ{i}"><v>1</v></c></row>' for i in range(1, 5000))
    with zipfile.ZipFile(tmp_path / "wide.xlsx", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr(
            "xl/workbook.xml",
            '<workbook xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
            '<sheets><sheet name="a" r:id="r1"/></sheets></workbook>',
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            '<Relationships><Relationship Id="r1" Target="worksheets/sheet1.xml"/></Relationships>',
        )
        book.writestr("xl/worksheets/sheet1.xml", f"<a><sheetData>{rows}</sheetData></a>")
    error = refused("audit", "wide.xlsx", cwd=tmp_path)
    assert "ZZZ1" in error


@pytest.mark.parametrize("name", ["m.npz", "m.csv", "m.xlsx"])
def test_files_without_an_end(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("/dev/zero")
    words = ("audit", name) if name.endswith("xlsx") else (*LOADS, "--matrix", name)
    assert name in refused(*words, cwd=tmp_path)


def test_a_matrix_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("netplan.traffic.matrix_files"), "CSV_LIMIT", 1 << 14)
    line = "0,1,5,data\n"
    (tmp_path / "m.csv").write_text("source,destination,bytes,kind\n" + line * (3 << 13))
    error = refused(*LOADS, "--matrix", "m.csv", cwd=tmp_path)
    assert "more than 16,384 flows" in error


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "rail-only-paper", *SMALL, "--set", f"accelerator.memory_bytes={'[' * 30_000}"),
        ("compare", "rail-only-paper", *SMALL, "--set", f"accelerator.memory_bytes={'{' * 30_000}"),
        ("study", "run", "hb-size", "--vary", f"gpus={'[' * 60_000}"),
        ("compare", "rail-only-paper", *SMALL, "--model", "a" * 5000),
        ("compare", "rail-only-paper", *SMALL, "--batch", "9" * 5000),
        ("faults", "rail-only-paper", *SMALL, "--gpus-per-rack", "1" * 30),
        ("catalog", "check", "a.yaml", "--role", "nosuch"),
        ("catalog", "check", "--role", "nosuch"),
        ("audit", "b" * 300),
        ("study", "show", "c" * 300),
        ("compare", "rail-only-paper", *SMALL, "-o", "d" * 300),
        ("compare", "rail-only-paper", *SMALL, "--catalog", "e" * 300),
        ("cost", "rail-only-paper", *SMALL, "--prices", "2026", "--prices", "rail-only-2023"),
        ("search", "rail-only-paper", *SMALL, "--fix", "tensor=8", "--fix", "tensor=4"),
        (
            "compare",
            "rail-only-paper",
            *SMALL,
            "--set",
            "accelerator.hb_size=8",
            "--set",
            "accelerator.hb_size=4",
        ),
        ("compare", "rail-only-paper", *SMALL, "--set", "fabric.name=x"),
        (
            "search",
            "rail-only-paper",
            *SMALL,
            "--mode",
            "published-code",
            "--iteration-model",
            "ptd-p",
        ),
        (
            "faults",
            "rail-only-paper",
            *SMALL,
            "--floor-plan",
            "example-hall",
            "--gpus-per-rack",
            "8",
        ),
        ("cost", "rail-only-paper", *SMALL, "--switch", ""),
        ("cost", "rail-only-paper", *SMALL, "--ocs", ""),
        ("cost", "rail-only-paper", *SMALL, "--floor-plan", ""),
        (*LOADS, "--matrix", "missing.csv"),
        ("compare", "rail-only-paper", "--gpus", "64", "--radix", "2"),
        ("traffic", "rail-only-paper", *SMALL, "--save", "a.csv", "--heat-map", "a.csv"),
        ("traffic", "rail-only-paper", *SMALL, "--save", "a.csv", "-o", "./a.csv"),
        (
            "report",
            "procurement",
            "rail-only-paper",
            "--prices",
            "2026",
            *SMALL,
            "--xlsx",
            "a.xlsx",
            "-o",
            "no/folder/x",
        ),
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_refused_in_one_short_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    error = refused(*words, cwd=tmp_path)
    assert error.count("\n") == 1
    assert len(error) < 2200
    assert "Errno" not in error
    assert list(tmp_path.iterdir()) == []


def test_of_hundreds_of_faults_twenty_are_named(tmp_path: Path) -> None:
    rows = "\n".join(f"  - {{part: p{i}, bass: 1}}" for i in range(100))
    text = f'name: m\ntitle: m\nsource: m\ndate: "2026"\ncurrency: USD\nprices:\n{rows}\n'
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    error = refused("compare", "rail-only-paper", *SMALL, "--prices", "m.yaml", cwd=tmp_path)
    assert error.count("\n") == 21
    assert error.endswith("faults more\n")


def test_files_do_not_steer_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "traffic/models").mkdir(parents=True)
    record = netplan("catalog", "show", "gpt-22b", columns=300).stdout
    title = 'title: "a\\e[2J\\x9b31m\\u202e"\n'
    lines = [title if line.startswith("title") else f"{line}\n" for line in record.splitlines()]
    (folder / "traffic/models/mine.yaml").write_text("".join(lines).replace("gpt-22b", "mine"))
    strange = tmp_path / f"x{ESCAPES}.csv"
    strange.write_text(f"design,gpus,nodes\nbig{ESCAPES},1000,128\n", encoding="utf-8")
    for words in (
        ("catalog", "list", "--catalog", "mine"),
        ("catalog", "list", "--catalog", "mine", "--format", "json"),
        ("catalog", "list", "--catalog", "mine", "--format", "csv"),
        ("catalog", "show", "mine", "--catalog", "mine"),
        ("catalog", "show", "mine", "--catalog", "mine", "--format", "json"),
        ("catalog", "check", strange.name),
        ("catalog", "check", strange.name, "--role", "model"),
        ("audit", strange.name),
        ("audit", strange.name, "--format", "json"),
        ("compare", "rail-only-paper", *SMALL, "--model", strange.name),
        ("compare", "rail-only-paper", *SMALL, "--model", f"{strange.name}.yaml"),
        (*LOADS, "--matrix", strange.name),
        ("study", "show", strange.name),
        ("compare", "rail-only-paper", *SMALL, "-o", f"no/{strange.name}"),
        ("compare", "rail-only-paper", *SMALL, "--format", ESCAPES),
    ):
        done = netplan(*words, cwd=tmp_path)
        assert not set(ESCAPES[:1] + "\x9b\u202e") & set(done.stdout + done.stderr), words


def test_switches_say_their_radix() -> None:
    for command in ("compare", "cost"):
        words = (
            command,
            "rail-only-paper",
            "--gpus",
            "1024",
            "--accelerator",
            "h100-80gb",
            "--format",
            "json",
        )
        short = netplan(*words, "--switch", "qm9700")
        assert short.returncode == 0, short.stderr
        assert short.stdout == netplan(*words, "--switch", "qm9700", "--radix", "64").stdout
    assert "forwards no packets" in refused(
        "compare", "rail-only-paper", "--gpus", "64", "--switch", "palomar"
    )


def test_commas_set_fabrics_apart() -> None:
    words = ("compare", "rail-only-paper", *SMALL, "--no-timing")
    both = netplan(*words, "--fabric", "rail-only", "--fabric", "fat-tree")
    assert netplan(*words, "--fabric", "rail-only,fat-tree") == both
    fixed = netplan(
        "search",
        "rail-only-paper",
        *SMALL,
        "--model",
        "gpt-22b",
        "--fix",
        "fixed.tensor=8",
        "--format",
        "csv",
    )
    plain = netplan(
        "search",
        "rail-only-paper",
        *SMALL,
        "--model",
        "gpt-22b",
        "--fix",
        "tensor=8",
        "--format",
        "csv",
    )
    assert fixed == plain


EXPORT = (
    "export",
    "rail-only-paper",
    "--fabric",
    "rail-only",
    "--gpus",
    "65536",
    "--radix",
    "64",
    "--to",
    "graphml",
)


def test_sigterm_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "fabric.graphml").write_text("precious")
    process = subprocess.Popen(
        [sys.executable, "-m", "netplan", *EXPORT, "-o", "fabric.graphml"],
        cwd=tmp_path,
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
    )
    while process.poll() is None and len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["fabric.graphml"]
    assert (tmp_path / "fabric.graphml").read_text() == "precious"


@contextmanager
def interrupted() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: signal.raise_signal(signal.SIGINT))
        yield


@contextmanager
def disk_full() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("hindered", "code"), [(interrupted, 130), (disk_full, 2)])
def test_an_old_file_survives_whatever_ends_the_writing(
    tmp_path: Path, hindered: Callable[[], AbstractContextManager[None]], code: int
) -> None:
    path = tmp_path / "out.json"
    path.write_text("precious")
    with hindered():
        done = netplan(
            "compare", "rail-only-paper", *SMALL, "--format", "json", "-o", path.name, cwd=tmp_path
        )
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert path.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_chain_of_links_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "cannot be written" in refused(
        "compare", "rail-only-paper", *SMALL, "-o", "a", cwd=tmp_path
    )
    assert (tmp_path / "a").is_symlink()


def test_the_longest_name_of_a_file(tmp_path: Path) -> None:
    name = "n" * 250 + ".json"
    done = netplan(
        "compare",
        "rail-only-paper",
        *SMALL,
        "--no-timing",
        "-o",
        name,
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name).stat().st_size > 1000


def test_a_full_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Compare) -> Comparison:
        raise MemoryError

    monkeypatch.setattr(Compare, "ask", full)
    said = refused("compare", "rail-only-paper", *SMALL)
    assert said == "netplan: the memory is full: ask for less at once, or free some\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux' /dev/full")
@pytest.mark.parametrize("words", [(), ("study",), ("compare", "--help")])
def test_help_on_a_full_disk_is_one_line(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        assert netplan_into(full, *words) == (2, "netplan: stdout: No space left on device\n")


def test_a_terminal_without_our_signs() -> None:
    done = netplan_process(
        "compare", "rail-only-paper", *SMALL, "--no-timing", PYTHONIOENCODING="latin-1"
    )
    assert done.returncode == 0, done.stderr
    assert "\n-----" in done.stdout  # in place of a rule


def test_one_hb_domain_that_holds_all_gpus() -> None:
    words = (
        *("faults", "rail-only-paper", "--gpus", "256", "--radix", "32", "--years", "5"),
        *("--model", "gpt-22b", "--batch", "256"),
    )
    json.loads(netplan(*words, "--format", "json").stdout, parse_constant=pytest.fail)
    assert "inf" not in netplan(*words).stdout.replace("information", "").split()


@pytest.mark.parametrize(
    "command",
    [
        ("cables", "rail-only-paper", "--fabric", "rail-only"),
        ("export", "rail-only-paper", "--fabric", "rail-only", "--to", "edges"),
    ],
)
def test_readers_who_leave(command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as pipe:  # noqa: PTH123 - no path
        assert netplan_into(pipe, *command, "--gpus", "16384", "--radix", "64") == (0, "")


def matrix_with_header(path: Path, header: bytes) -> None:
    """A matrix in an archive, of which one array says other things of itself."""
    save(path)
    with zipfile.ZipFile(path) as archive:
        arrays = {name: archive.read(name) for name in archive.namelist()}
    length = int.from_bytes(arrays["source.npy"][8:10], "little")
    arrays["source.npy"] = arrays["source.npy"][:10] + header.ljust(length)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in arrays.items():
            archive.writestr(name, content)


def test_numbers_of_a_matrix_that_no_total_can_hold_are_refused(tmp_path: Path) -> None:
    csv, npz = tmp_path / "m.csv", tmp_path / "m.npz"
    for row, message in (
        ("0,1,1e308,tensor", "flow 0 carries 1e+308 bytes: give an amount from 0 to 1e+30"),
        ("inf,1,1,tensor", "m.csv:2: source is 'inf': give the whole number of a GPU"),
        ("0,1e400,1,tensor", "m.csv:2: destination is '1e400': give the whole number of a GPU"),
    ):
        csv.write_text(f"source,destination,bytes,kind\n{row}\n")
        for form in ("table", "json"):
            assert message in refused(*LOADS, "--matrix", str(csv), "--format", form)
    for changed, message in (
        ({"flow_bytes": np.array([1e308, 1e308])}, "give an amount from 0 to 1e+30"),
        ({"gpus": np.array(np.inf)}, "array 'gpus' holds a number that is not whole"),
        ({"source": np.array([np.inf, 1])}, "array 'source' holds a number that is not whole"),
        (
            {"members_0": np.array([[0, 1]]), "pair_0": np.array([1e308, 0])},
            "a pair of a group carries 1e+308 bytes: give from 0 to 1e+30",
        ),
    ):
        save(npz, **changed)
        assert message in refused(*LOADS, "--matrix", str(npz))


def test_a_damaged_header_of_an_archive_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    for header in (b"{'descr': '<i8', 'shape': (((2,), }", b"{'descr'", b"x" * 60):
        matrix_with_header(path, header)
        said = refused(*LOADS, "--matrix", str(path))
        assert "cannot be read as a traffic matrix" in said
        assert said.count("\n") == 1
        assert len(said) < 400


@pytest.mark.parametrize("place", ["nGpus 8", "1024"])
def test_numbers_of_thousands_of_digits_are_refused(place: str, tmp_path: Path) -> None:
    text = (
        "# Collective test starting: all_gather_perf\n# nThread 1 nGpus 8\n"
        "# size count type redop root time algbw busbw #wrong\n"
        "1024 1 float sum -1 1.0 1.0 1.0 0\n"
    )
    path = tmp_path / "measured.txt"
    word = place.rpartition(" ")[0]
    path.write_text(text.replace(place, f"{word} {'9' * 4300}".strip()))
    said = refused("calibrate", "--accelerator", "h100-80gb", "--collectives", str(path))
    assert f"{path.name}:4: " in said
    assert len(said) < 400


def test_a_full_folder_of_temporary_files_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xlsxwriter.exceptions import FileCreateError  # noqa: PLC0415

    from netplan.questions import cables  # noqa: PLC0415

    def full(*_: object) -> None:
        raise FileCreateError(OSError(27, "File too large"))

    monkeypatch.setattr(cables, "_write_sheet", full)
    said = refused("cables", "rail-only-paper", *SMALL, "-o", str(tmp_path / "p.xlsx"))
    assert "the spreadsheet cannot be made: File too large: free room in" in said
    assert not [*tmp_path.iterdir()]


def test_refusals_print_nothing_of_what_they_refuse(tmp_path: Path) -> None:
    tpu = ("export", "tpu-v7", "--gpus", "128", "--hb-size", "8", "--to", "slurm-yaml")
    assert "has no switches" in refused(*tpu)
    assert "--template prints CSV" in refused("calibrate", "--template", "gemm", "--format", "json")
    nic = ("collective", "four-d-paper", "--gpus", "128", "--kind", "all_reduce", "--nic")
    for rate in ("nan", "inf"):
        assert f"--nic {rate} is out of range" in refused(*nic, rate)
    assert "unknown scenario" in refused("compare", "\udcff", cwd=tmp_path)


def test_a_degree_beside_fixed_ones_is_one_of_them() -> None:
    fixed = ("map", "four-d-paper", "--fix", "tensor=8")
    done = netplan(*fixed, "--pipeline", "96", "--format", "json")
    assert done.returncode == 0, done.stderr
    both = netplan(
        "map", "four-d-paper", "--fix", "tensor=8", "--fix", "pipeline=96", "--format", "json"
    )
    assert json.loads(done.stdout)["inputs"]["fixed"] == json.loads(both.stdout)["inputs"]["fixed"]


def test_the_template_of_products_is_one_that_a_fit_takes(tmp_path: Path) -> None:
    rows = netplan("calibrate", "--template", "gemm").stdout
    (tmp_path / "gemm.csv").write_text(rows)
    done = netplan("calibrate", "--accelerator", "h100-80gb", "--gemm", "gemm.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_bounds_of_a_small_fabric_take_seconds(tmp_path: Path) -> None:
    words = (*LOADS, "--fabric", "fat-tree", "--bounds", "--matrix", "m.csv")
    began = time.process_time()
    flows = [f"{a},{b},1e9,expert" for a in range(64) for b in range(64) if a != b]
    (tmp_path / "m.csv").write_text("\n".join(["source,destination,bytes,kind", *flows]))
    done = netplan(*words, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert time.process_time() - began < 10  # by the simplex method 14 s
