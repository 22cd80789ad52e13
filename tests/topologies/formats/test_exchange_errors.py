"""Files that are no fabric: one clear line, with the file and the line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netplan.errors import CatalogError
from netplan.files import read_bounded
from netplan.topologies.formats.edge_list import read_edge_list
from netplan.topologies.formats.graph_files import read_graph
from netplan.topologies.formats.graphml import read_graphml
from netplan.topologies.formats.infiniband import read_ibnetdiscover, read_topo
from netplan.topologies.graph import FabricGraph

Reader = Callable[[Path], FabricGraph]


def refused(reader: Reader, tmp_path: Path, text: str | bytes) -> str:
    """Error of a reader, less the file's name; it must be one short line."""
    path = tmp_path / "user.file"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(CatalogError) as caught:
        reader(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:")
    assert "\n" not in message
    assert len(message) < 300 + len(str(path))
    return message.removeprefix(f"{path}:")


HEADER = "source,target,gbps\n"
LINK = "gpu-0,leaf,400\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: the column source is missing"),
        ("source,target\n", "1: the column gbps is missing"),
        ("source,target,gbps,colour\n", "1: unknown column 'colour'"),
        (HEADER, "1: 0 GPUs and 0 links are no fabric"),
        (HEADER + LINK + "gpu-1,leaf,0\n", "3: link gpu-1 to leaf has no capacity: got 0 Gb/s"),
        (HEADER + "gpu-1,leaf,-4\n", "2: link gpu-1 to leaf has no capacity"),
        (HEADER + "gpu-1,leaf,inf\n", "2: link gpu-1 to leaf has no capacity"),
        (HEADER + "gpu-1,leaf,nan\n", "2: link gpu-1 to leaf has no capacity"),
        (HEADER + "gpu-1,leaf,fast\n", "2: gbps: got 'fast', give a number"),
        (HEADER + "gpu-1,leaf\n", "2: expected 3 fields"),
        (HEADER + "gpu-1,leaf,400,5\n", "2: expected 3 fields"),
        (HEADER + "gpu-1,gpu-1,400\n", "2: a link joins gpu-1 to itself"),
        (HEADER + LINK + "gpu-1,other,400\n", "3: the graph is not connected: no path from gpu-0"),
        (HEADER + "leaf,spine,400\n", "1: 0 GPUs and 1 links are no fabric"),
        (HEADER + "=1+1,leaf,400\n", "2: node name '=1+1' cannot be used"),
        (HEADER + "a b,leaf,400\n", "2: node name 'a b' cannot be used"),
        (HEADER + f"{'x' * 300},leaf,400\n", "2: node name 'xxxx"),
        (HEADER + '"gpu-0,leaf,400\n', "3: not CSV"),
        (b"source,target,gbps\ngpu-0,\xff,1\n", "2: not UTF-8 text"),
        (
            "source,source_port,target,target_port,gbps\ngpu-0,0,leaf,3,400\ngpu-1,0,leaf,3,400\n",
            "3: port 3 of leaf is in use by the link on line 2",
        ),
        ("source,source_port,target,gbps\ngpu-0,-1,leaf,400\n", "2: port: got '-1'"),
        ("source,source_port,target,gbps\ngpu-0,99999,leaf,400\n", "2: port 99999 is out of range"),
        ("source,target,gbps,length\ngpu-0,leaf,400,far\n", "2: unknown length 'far'"),
        ("source,source_kind,target,gbps\na,cpu,leaf,400\n", "2: unknown node kind 'cpu'"),
        (
            "source,source_kind,target,gbps\na,gpu,leaf,400\na,switch,leaf,400\n",
            "3: a is a switch here and a gpu on line 2",
        ),
    ],
)
def test_edge_lists(text: str | bytes, message: str, tmp_path: Path) -> None:
    assert refused(read_edge_list, tmp_path, text).startswith(message)


def graphml(body: str) -> str:
    return f'<?xml version="1.0"?>\n<graphml>\n<graph id="g">\n{body}\n</graph>\n</graphml>\n'


NODES = (
    '<node id="a"><data key="kind">gpu</data></node>\n'
    '<node id="s"><data key="kind">switch</data></node>\n'
)
BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n'
    '<graphml><graph id="&b;"/></graphml>'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: not GraphML: no element found"),
        ("<html></html>", "1: not GraphML: the file begins with <html>"),
        ("<graphml>\n<graph>\n", "3: not GraphML: no element found"),
        (BOMB, "2: a document type (<!DOCTYPE) is not allowed"),
        ('<?xml version="1.0" encoding="UTF78"?><graphml/>', "1: not GraphML: unknown encoding"),
        (BOMB.replace("lolz [", 'x SYSTEM "file:///etc/passwd" ['), "2: a document type"),
        (graphml('<node id="a"/>'), "4: node 'a' has no attribute kind"),
        (graphml(NODES + '<node id="a"><data key="kind">gpu</data></node>'), "6: node a stands on"),
        (graphml(NODES + '<edge source="a" target="s"/>'), "6: link a to s has no capacity"),
        (
            graphml(NODES + '<edge source="a" target="z"><data key="gbps">4</data></edge>'),
            "6: unknown node z",
        ),
        (
            graphml(NODES + '<edge source="a" target="s"><data key="gbps">x</data></edge>'),
            "6: the rate of an edge is not a number",
        ),
        (
            graphml(
                NODES + '<edge source="a" target="s"><data key="gbps">1</data>'
                '<data key="source_port">one</data></edge>'
            ),
            "6: source_port: got 'one', give a whole number",
        ),
        (
            graphml('<node id="a"><data key="kind">gpu</data><data key="tier">999</data></node>'),
            "4: tier: got 999",
        ),
        ("<graphml>" + "<graph>" * 100, "1: nested too deeply"),
    ],
)
def test_graphml(text: str, message: str, tmp_path: Path) -> None:
    assert refused(read_graphml, tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: 0 GPUs and 0 links are no fabric"),
        (" P1 -4x-100G-> HCA a P1\n", "1: expected a port"),
        ("MQM9700\n", "1: expected a switch: TYPE NAME"),
        ("MQM9700 s\n P1 -> HCA a P1\n", "2: link a to s has no capacity"),
        ("MQM9700 s\n P1 -4x-0G-> HCA a P1\n", "2: link a to s has no capacity"),
        ("MQM9700 s\n P1 4x100G HCA a P1\n", "2: expected a port"),
        ("MQM9700 s\n P1 -4x-50G-> HCA a P1\n\nMQM9700 s\n", "4: node s stands on line 1 already"),
        (
            "MQM9700 s\n P1 -4x-50G-> HCA a P1\n P1 -4x-50G-> HCA b P1\n",
            "3: port 0 of s is in use by the link on line 2",
        ),
        (
            "MQM9700 s\n P1 -4x-50G-> HCA a P1\nMQM9700 t\n P1 -4x-50G-> HCA b P1\n",
            "4: the graph is not connected: no path from a to b",
        ),
        ("MQM9700 s\n P0 -4x-50G-> HCA a P1\n", "2: port -1 is out of range"),
    ],
)
def test_topo_files(text: str, message: str, tmp_path: Path) -> None:
    assert refused(read_topo, tmp_path, text).startswith(message)


SWITCH = 'Switch 8 "S-0a"  # "s" base port 0 lid 1 lmc 0\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: 0 GPUs and 0 links are no fabric"),
        ("Switch eight\n", "1: expected a node"),
        ('[1] "S-0a"[1] # "s" lid 1 4xNDR\n', "1: expected a port"),
        (SWITCH + "[1] nothing\n", "2: expected a port"),
        (SWITCH + '[1] "H-0b"[1] # "a" lid 1 4xNDR\n', "2: unknown node H-0b"),
        (
            SWITCH + '[1] "H-0b"[1] # "a" lid 1\nCa 1 "H-0b" # "a"\n',
            "2: link a to s has no capacity",
        ),
        (SWITCH + '[1] "H-0b"[1] # "a" lid 1 4xABC\n', "2: unknown speed ABC"),
    ],
)
def test_ibnetdiscover_files(text: str, message: str, tmp_path: Path) -> None:
    assert refused(read_ibnetdiscover, tmp_path, text).startswith(message)


@pytest.mark.parametrize("reader", [read_edge_list, read_graphml, read_ibnetdiscover, read_topo])
def test_missing_and_oversized_files(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CatalogError, match="cannot be read: No such file"):
        reader(tmp_path / "nowhere")
    path = tmp_path / "large"
    path.write_bytes(b"x" * 100)
    monkeypatch.setattr(read_bounded, "__defaults__", (99, "split the fabric"))
    with pytest.raises(CatalogError, match="larger than"):
        reader(path)


@pytest.mark.parametrize("reader", [read_edge_list, read_graphml, read_ibnetdiscover, read_topo])
# No deadline: a busy machine is no fault of a reader.
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.sampled_from(
                [
                    *(
                        "source,target,gbps",
                        "gpu-0,a,1",
                        "gpu-0,b,9e999",
                        "é,½,²",
                        '"',
                        "\r\n",
                        "\n",
                    ),
                    *("<graphml>", "<graph>", '<node id="a">', '<data key="kind">gpu', "</data>"),
                    *("</node>", "</graph>", "</graphml>", "<edge/>", "<data/>", "<key/>", "\0"),
                    *('Switch 8 "S-0"', 'Ca 1 "H-1"', '[1] "S-0"[1] # "a" 4xNDR', "MQM s"),
                    *(" P1 -4x-1G-> HCA a P1", " P²"),
                ]
            ),
            max_size=12,
        ).map(lambda parts: "\n".join(parts).encode()),
    )
)
def test_no_content_gives_a_traceback(reader: Reader, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(content)
    try:
        graph = reader(path)
    except CatalogError:
        return
    assert graph.gpus


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    # Nobody writes into it: opening it would wait for ever.
    path = tmp_path / "fabric.graphml"
    os.mkfifo(path)
    with pytest.raises(CatalogError, match="no regular file: write what it gives into a file"):
        read_graph(path)
