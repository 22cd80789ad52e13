"""Maps of stages as values of a study's axis: names, texts and files, whose content counts."""

from pathlib import Path

import pytest

from netplan.errors import CatalogError, NetplanError
from netplan.studies.study import Study

STUDY = """
name: mine
title: Where stages stand
source: of a test
date: "2026-11"
ask: simulate
scenario: palm-paper
inputs: {gpus: 320, fabric: palm-wafer, accelerator: palm-wafer-core, batch: 40, fixed.tensor: 8}
axes:
  - input: placement
    values: [palm-rows, "tile-0; tile-1; tile-2", MAP, RANKS]
outputs: [sequences_per_s, microbatches]
"""
MAP = """
name: two
title: Two stages
source: of a test
date: "2026-11"
stages: [{gpus: tile-0}, {gpus: tile-1}]
"""


def test_an_axis_of_maps_and_files(tmp_path: Path) -> None:
    two, ranks, mine = (tmp_path / name for name in ("two.yaml", "ranks.txt", "mine.yaml"))
    two.write_text(MAP, encoding="utf-8")
    ranks.write_text("319-0", encoding="utf-8")
    mine.write_text(STUDY.replace("MAP", str(two)).replace("RANKS", str(ranks)), encoding="utf-8")
    loaded = Study.load(mine)
    rows = [loaded.evaluate(point) for point in loaded.points(range(4))]
    assert [row["microbatches"] for row in rows] == [20, 4, 2, 2], "a map has its own stages"
    assert len({row["sequences_per_s"] for row in rows}) == 4
    two.write_text(MAP.replace("tile-1", "tile-2"), encoding="utf-8")
    other_map = Study.load(mine)
    ranks.write_text("0-319", encoding="utf-8")
    hashes = {one.input_sha256 for one in (loaded, other_map, Study.load(mine))}
    assert len(hashes) == 3, "another content is another study"


def test_a_fault_in_a_map_has_file_and_line(tmp_path: Path) -> None:
    two, mine = tmp_path / "two.yaml", tmp_path / "mine.yaml"
    two.write_text(MAP.replace("gpus: tile-1", "gpus: tile-77"), encoding="utf-8")
    mine.write_text(STUDY.replace("MAP, RANKS", str(two)), encoding="utf-8")
    loaded = Study.load(mine)
    with pytest.raises(CatalogError, match=r"two\.yaml:6: there is no tile 77"):
        loaded.evaluate(*loaded.points([2]))
    mine.write_text(STUDY.replace("MAP, RANKS", "gone.yaml"), encoding="utf-8")
    with pytest.raises(NetplanError, match=r"no stage-map file gone\.yaml"):
        Study.load(mine)
