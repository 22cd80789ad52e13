"""A heat map as a drawing: what is dark, what is said, and its scale."""

import re

from netplan.reports.heat_drawing import heat_drawing
from netplan.reports.html import html_page
from netplan.reports.quantities import quantity
from netplan.reports.sections import Heat

CELLS = ((8e12, 2e9, 0.0), (0.0, 8e12, 2e9), (5e6, 0.0, 8e12))
HEAT = Heat(
    "heat",
    "Who <sends>",
    quantity("total_bytes"),
    ("a<b>", "b", "c"),
    CELLS,
    ticks=("0", "8", "16"),
    axis="first GPU",
    said=("Most to itself.",),
)


def depths(drawn: str) -> dict[str, float]:
    found = re.findall(r'class="cell" style="--depth:([\d.]+)"><title>(.*?)</title>', drawn)
    return {said: float(depth) for depth, said in found}


def test_more_is_darker_and_nothing_is_no_cell() -> None:
    drawn = str(heat_drawing(HEAT))
    found = depths(drawn)
    assert len(found) == sum(cell > 0 for row in CELLS for cell in row)
    assert found["c to c: 8 TB"] == found["a&lt;b&gt; to a&lt;b&gt;: 8 TB"] == 1.0
    # By the logarithm: 2 GB lie 2.6 of 6.2 decades above 5 MB.
    least = found["c to a&lt;b&gt;: 5 MB"]
    along = (found["b to c: 2 GB"] - least) / (1 - least)
    assert 0.41 < along < 0.43
    assert least > 0.15


def test_the_scale_has_numbers_and_the_name_says_it_all() -> None:
    drawn = str(heat_drawing(HEAT))
    texts = re.findall(r"<text[^>]*>(.*?)</text>", drawn)
    assert {"nothing", "5 MB", "8 TB", "sends", "receives: first GPU", "16"} <= set(texts)
    assert 'aria-label="Who &lt;sends&gt;. Most to itself."' in drawn
    assert "<b>" not in drawn


def test_one_amount_alone_and_none_are_drawn() -> None:
    one = Heat("heat", "Even", quantity("total_bytes"), ("a",), ((3e9,),))
    assert list(depths(str(heat_drawing(one))).values()) == [1.0]
    none = Heat("heat", "Idle", quantity("total_bytes"), ("a",), ((0.0,),))
    assert depths(str(heat_drawing(none))) == {}
    assert "<details>" not in html_page([none])


def test_groups_of_cells_have_borders() -> None:
    grouped = Heat("heat", "", quantity("total_bytes"), tuple("abcd"), ((1.0,) * 4,) * 4, group=2)
    assert str(heat_drawing(grouped)).count('class="border"') == 2
    assert str(heat_drawing(HEAT)).count('class="border"') == 0
