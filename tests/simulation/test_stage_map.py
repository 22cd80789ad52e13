"""Maps of stages: what they say, what they refuse with file and line, and that order is all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan import simulate
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.simulation.stage_map import (
    MOST_STAGES,
    STAGE_MAPS,
    PlacedStage,
    map_files,
    read_map,
    stages_on_gpus,
)
from netplan.topologies.families.tiles import mesh_of, tile_order
from netplan.topologies.specs import FABRICS

WAFER = FABRICS.load("palm-wafer")
ON_WAFER = {"gpus": 320, "fabric": "palm-wafer", "accelerator": "palm-wafer-core", "model": "t-18b"}


def placed(text: str, *, tensor: int = 8, layers: int = 40) -> tuple[PlacedStage, ...]:
    written = read_map(text)
    assert written is not None
    return stages_on_gpus(written, WAFER, 320, tensor=tensor, layers=layers)


def file_of(path: Path, *stages: str) -> Path:
    head = "name: mine\ntitle: Mine\nsource: of a test\ndate: '2026-11'\nstages:\n"
    path.write_text(head + "".join(f"  - {stage}\n" for stage in stages), encoding="utf-8")
    return path


def test_a_file_and_a_text_say_the_same(tmp_path: Path) -> None:
    stages = "{gpus: tile-1-0, tensor: 4}", "{gpus: '40, gpu-42 45-43', layers: 7}", "{gpus: 63}"
    path = file_of(tmp_path / "mine.yaml", *stages)
    text = "tile-1-0 tensor=4; 40, gpu-42 45-43 layers=7; 63 "
    first, second, third = placed(text, tensor=1, layers=10)
    assert placed(str(path), tensor=1, layers=10) == (first, second, third)
    assert first.gpus[:8] == (16, 17, 18, 19, 23, 22, 21, 20), "second rows of a tile turn back"
    assert (len(first.gpus), first.data, first.gpus[16]) == (32, 8, 0)
    assert second == PlacedStage((40, 42, 45, 44, 43), 1, 7)
    assert [stage.layers for stage in (first, second, third)] == [1, 7, 2]
    assert (map_files(str(path)), map_files(text)) == ([path], [])


@pytest.mark.parametrize(
    ("stage", "line", "says"),
    [
        ("{gpus: tile-20}", 7, "there is no tile 20: palm-wafer has 0 to 19"),
        ("{gpus: 320}", 7, "there is no GPU 320: the fabric has 0 to 319"),
        ("{gpus: 0-999999999}", 7, "there is no GPU 999,999,999"),
        ("{gpus: 20 15}", 7, "GPU 15 is in stage 0, too"),
        ("{gpus: x}", 7, "'x' names no GPU"),
        ("{gpus: ' , '}", 7, "names no GPU"),
        ("{gpus: 16-18}", 7, "tensor degree 8 does not divide its 3 GPUs"),
        ("{gpus: tile-1, layers: 40}", 7, "the model has 40 layers, of which the map leaves 0"),
        ("{gpus: tile-1, tensor: 0}", 7, "tensor: got 0"),
        ("{gpus: tile-1, data: 2}", 7, "unknown key"),
        ("{tensor: 2}", 7, "gpus"),
    ],
)
def test_faults_have_file_and_line(tmp_path: Path, stage: str, line: int, says: str) -> None:
    path = file_of(tmp_path / "mine.yaml", "{gpus: tile-0}", stage)
    with pytest.raises(CatalogError, match="mine") as error:
        placed(str(path))
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert says in str(error.value)


def test_the_first_gpu_may_stand_alone(tmp_path: Path) -> None:
    path = file_of(tmp_path / "mine.yaml", "{gpus: 0, tensor: 1}", "{gpus: 1, tensor: 1}")
    assert [stage.gpus for stage in placed(str(path))] == [(0,), (1,)]
    with pytest.raises(InputError, match=r"stage 1 of the map: tensor stands twice"):
        read_map("0; 1 tensor=4 tensor=2")
    with pytest.raises(InputError, match=r"stage 0 of the map: unknown key =: known: tensor"):
        read_map("=cmd|x;")
    with pytest.raises(InputError, match=r"stage 0 of the map: names no GPU: write 5"):
        read_map("tensor=4;")


def test_hostile_texts_are_bounded() -> None:
    with pytest.raises(InputError, match=r"at most 10,000 of them"):
        read_map("0;" * (MOST_STAGES + 2))
    with pytest.raises(InputError, match=r"stage 0 of the map: gpus: got '0 0 0"):
        read_map("0 " * 60_000 + ";")
    for text in (
        *("0 tensor=4 tensor=2;", "0 gpus=7;", "=cmd|x;", "tensor=4;"),
        *(";", "0 tensor=-1;", "0 tensor=1e9;", "0 x=1;", "0;;1"),
    ):
        with pytest.raises(NetplanError, match=r"stage [01] of the map: "):
            placed(text)


@given(st.text(alphabet="0123456789-tilegpu,; =\n", max_size=40))
def test_any_text_is_a_map_or_one_line_of_error(text: str) -> None:
    try:
        stages = placed(text + ";", tensor=1, layers=100)
    except NetplanError as error:
        assert "\n" not in str(error)  # noqa: PT017 - what it says, if it says anything
    else:
        members = [gpu for stage in stages for gpu in stage.gpus]
        assert len({*members}) == len(members) <= 320
        assert sum(stage.layers for stage in stages) == 100


def test_every_shipped_map_fits_its_wafer() -> None:
    for name in STAGE_MAPS.paths():
        stages = placed(name, tensor=1)
        members = sorted(gpu for stage in stages for gpu in stage.gpus)
        if name.startswith("palm-"):
            assert members == list(range(320)), name
        else:
            assert [len(stage.gpus) for stage in stages] == [int(name[-2:])] * 2


def test_lines_are_rows_and_the_ring_closes() -> None:
    wide = FABRICS.load("palm-wafer", overrides={"fabric.sizes": "[4, 5]"})
    mesh = mesh_of(wide, 320)
    for row, stage in enumerate(placed("palm-lines")):
        assert [mesh.place(gpu) for gpu in stage.gpus] == [(column, row) for column in range(16)]
    whole = mesh_of(WAFER, 320)
    for name, last in (("ring-of-12", 1), ("line-of-13", 2)):
        for stage in placed(name, tensor=1):
            steps = [
                len(whole.path(here, there)) - 1
                for here, there in zip(stage.gpus, [*stage.gpus[1:], stage.gpus[0]], strict=True)
            ]
            assert steps == [1] * (len(steps) - 1) + [last]


def test_a_map_of_the_snake_is_the_snake() -> None:
    order = tile_order(WAFER, 320, "snake").reshape(20, 16).tolist()
    text = "; ".join(" ".join(map(str, stage)) for stage in order)
    fixed = {"tensor": 8, "data": 2, "pipeline": 20}
    by_order = simulate("palm-paper", fixed=fixed, **ON_WAFER)
    by_map = simulate("palm-paper", fixed={"tensor": 8}, placement=text, **ON_WAFER)
    assert by_map.found.sequences_per_s == by_order.found.sequences_per_s
    assert (by_map.plan, by_map.gpus_used) == (by_order.plan, 320)
    rows = simulate("palm-paper", fixed={"tensor": 8}, placement="palm-rows", **ON_WAFER)
    assert rows.found.sequences_per_s != by_order.found.sequences_per_s


def test_degrees_that_contradict_a_map_are_refused() -> None:
    with pytest.raises(InputError, match=r"--fix pipeline=4, and the map has 20 stages"):
        simulate("palm-paper", fixed={"pipeline": 4}, placement="palm-rows", **ON_WAFER)
    with pytest.raises(InputError, match=r"stages 0 and 1 have tensor x data degrees 8 x 2 and"):
        simulate("palm-paper", placement="tile-0; tile-1 tensor=4", **ON_WAFER)
    with pytest.raises(InputError, match=r"handover=source is for tiles, and palm-gpu has none"):
        simulate("palm-paper", overrides={"iteration-model.communication.handover": "source"})


def test_netplan_s_own_mode_takes_a_map_of_even_stages() -> None:
    asked = {"gpus": 32, "hb_size": 8, "model": "gpt-22b", "batch": 32}
    fixed = {"tensor": 8, "data": 2, "pipeline": 2, "microbatch": 1}
    straight = simulate("rail-only-paper", fixed=fixed, placement="0-15; 16-31", **asked)
    assert straight.found.iteration_time_s == pytest.approx(
        simulate("rail-only-paper", fixed=fixed, **asked).found.iteration_time_s
    )
    torn = simulate(
        "rail-only-paper", fixed=fixed, placement="0-3 8-11 16-23; 4-7 12-15 24-31", **asked
    )
    assert torn.found.iteration_time_s > straight.found.iteration_time_s
    with pytest.raises(InputError, match=r"tensor and layers of single stages are for"):
        simulate("rail-only-paper", fixed=fixed, placement="0-15 tensor=8; 16-31", **asked)
    with pytest.raises(InputError, match=r"the plan has 2 stages of 16 GPUs, the map stages of 32"):
        simulate("rail-only-paper", fixed=fixed, placement="0-31;", **asked)


def test_one_stage_without_its_end_is_told_of() -> None:
    with pytest.raises(InputError, match="is no file: a map of stages ends in ;, that of one, too"):
        read_map("tile-0-19 tensor=320")
    with pytest.raises(InputError, match="tensor: got -1: input should be greater than 0"):
        read_map("0-7 tensor=-1;")
