"""``netplan grow``: its table, cable plans of phases, and wrong input."""

from pathlib import Path

import pytest

from tests.cli.command import netplan, refused

SMALL = (
    "grow",
    "rail-only-paper",
    "--gpus",
    "64",
    "--gpus",
    "256",
    "--radix",
    "16",
    "--hb-size",
    "8",
)


def test_cable_plans_of_phases_hold_each_other(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: ../=x\ntitle: x\nsource: x\ndate: '2026'\nfamily: clos\n")
    folder = tmp_path / "plans"
    done = netplan(*SMALL, "--fabric", str(path), "--plans", str(folder))
    assert done.returncode == 0
    whole, new = (sorted(folder.glob(f"*-{name}.csv")) for name in ("all", "new"))
    assert len(whole) == len(new) == 2
    assert sorted(tmp_path.iterdir()) == [path, folder]  # no name leads elsewhere
    counts = [len(one.read_text().splitlines()) - 1 for one in (*whole, *new)]
    assert counts[0] + counts[3] == counts[1]  # what phase 2 lays beside phase 1
    found = netplan("cables", "rail-only-paper", "--compare", str(whole[1]), str(whole[0]))
    assert f"{counts[1]:,} cables planned, {counts[0]:,} built" in found.stdout
    # The leaves, spines and cores to come have not been seen, and no cable is in a wrong port.
    assert not {"wrong", "extra", "swapped"} & set(found.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpus", "64"), "give 2 to 12 phases"),
        (("--gpus", "256", "--gpus", "64"), "--gpus 256, 64"),
        (("--gpus", "64", "--gpus", "256", "--years-between", "-1"), "more than 0 years"),
        (("--gpus", "64", "--gpus", "256", "--maintenance", "200%"), "0% to 100%"),
        (("--gpus", "64", "--gpus", "256", "--plans", "/proc/none"), "give a folder"),
        (("--gpus", "20", "--gpus", "64", "--fabric", "rail-only"), "ends within an HB domain"),
    ],
)
def test_wrong_options(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(
        "grow", "rail-only-paper", "--radix", "16", "--hb-size", "8", *arguments
    )
