"""The questions as tools of an agent, asked through the protocol's own client."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

import netplan
from netplan.cli.main import COMMANDS
from netplan.cli.mcp import make_server
from netplan.cli.questions import QUESTION_COMMANDS
from netplan.cli.tools import MAX_JSON_BYTES, MAX_TEXT, answered, bounded, question_of, schema_of
from netplan.errors import InputError

mcp = pytest.importorskip("mcp")

SMALL = {"gpus": 512, "radix": 32}
RUN = {"gpus": 512, "hb_size": 8, "radix": 32, "model": "gpt-22b", "batch": 512}
ASKED: dict[str, dict[str, Any]] = {
    "compare": {
        "scenario": "rail-only-paper",
        **SMALL,
        "fabrics": ["rail-only", "rail-optimized"],
        "model": "gpt-22b",
    },
    "cost": {"scenario": "rail-only-paper", **SMALL, "fabrics": ["rail-only"], "prices": "2026"},
    "search": {
        "scenario": "rail-only-paper",
        "gpus": 512,
        "accelerator": "b200",
        "model": "gpt-22b",
        "batch": 512,
    },
    "serving": {
        "scenario": "serving-70b-h200",
        "gpus": 8,
        "model": "llama-3-70b",
        "prompt": 2048,
        "output": 256,
    },
    "optimize": {
        "scenario": "rail-only-paper",
        "radices": (64, 128),
        "gpus": 512,
        "fabrics": ["rail-only"],
        "model": "gpt-22b",
    },
    "optimize graphs": {
        "scenario": "rail-only-paper",
        "gpus": 64,
        "hb_sizes": [8],
        "radices": [16],
        "model": "gpt-22b",
        "batch": 64,
        "searched": "graphs",
        "tries": 1,
    },
    "draw": {"scenario": "rail-only-paper", "gpus": 64, "radix": 16, "hb_size": 8},
    "draw failed": {
        "scenario": "rail-only-paper",
        "gpus": 64,
        "radix": 16,
        "hb_size": 8,
        "fail": ["leaf=1"],
    },
    "export": {
        "scenario": "rail-only-paper",
        "fabric": "rail-only",
        "gpus": 64,
        "radix": 16,
        "hb_size": 8,
        "to": "slurm",
    },
    "map": {"scenario": "rail-only-paper", "model": "gpt-175b", "accelerator": "sn10", "tensor": 8},
    "traffic": {"scenario": "rail-only-paper", **RUN},
    "collective": {
        "scenario": "hgx-h100",
        "kind": "all_reduce",
        "gpus": 64,
        "message_bytes": "512MiB",
    },
    "loads": {"scenario": "rail-only-paper", **RUN},
    "grow": {"scenario": "rail-only-paper", "phases": [128, 512], "radix": 32},
    "verify": {"only": "Table 2"},
    "catalog_list": {"role": "prices"},
}


def in_the_client(asked: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Results of calls over the protocol, server and client in this process."""

    async def go() -> dict[str, Any]:
        async with mcp.Client(make_server()) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            assert list(tools) == list(QUESTION_COMMANDS)
            return {
                name: await client.call_tool(name.partition(" ")[0], given)
                for name, given in asked.items()
            }

    return anyio.run(go)


def test_a_dozen_questions_have_the_answers_of_python() -> None:
    found = in_the_client(ASKED)
    for name, result in found.items():
        assert not result.is_error, (name, result.content[0].text)
        assert len(result.content[0].text) > 50, name
    for name in ("compare", "cost", "loads"):
        ours = getattr(netplan, name)(**ASKED[name])
        assert found[name].structured_content == json.loads(ours.json())
        assert found[name].content[0].text == ours.text(100)
    assert "30 exact, 0 close" in found["verify"].content[0].text
    assert found["draw"].structured_content["svg"].startswith("<svg xmlns=")
    assert found["draw failed"].structured_content["groups"][1]["links_out"] > 0
    assert found["optimize graphs"].structured_content["graphs"]["search"]


def test_bad_calls_are_told_in_one_line() -> None:
    bad: dict[str, dict[str, Any]] = {
        "compare": {"gpus": 512, "radix": 32, "fabrics": ["rial-only"]},
        "audit": {},
        "compare 3": {"gpu": 512, "radix": 32},
        "compare 5": {"scenario": {"cluster": {"gpu": 512}}},
        "compare 6": {"scenario": "nowhere/mine.yaml"},
        "compare 4": {"gpus": "many", "radix": 32},
        "frobnicate": {},
        "export": {"gpus": 64, "radix": 16, "to": None},
    }
    said = {name: one.content[0].text for name, one in in_the_client(bad).items() if one.is_error}
    assert list(said) == list(bad)
    assert all("\n" not in text for text in said.values())
    assert "did you mean rail-only" in said["compare"]
    assert said["audit"] == "audit needs file"
    assert said["compare 3"].startswith("unknown input of compare 'gpu': did you mean gpus")
    assert said["compare 5"] == "scenario: unknown key cluster.gpu: did you mean gpus?"
    assert "no scenario file nowhere/mine.yaml" in said["compare 6"]
    assert "no tool 'frobnicate'" in said["frobnicate"]
    assert said["export"] == "export needs to"


def test_a_scenario_is_a_name_a_file_or_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = {
        "cluster": {"gpus": 512, "radix": 32, "accelerator": "h100-80gb", "fabrics": ["fat-tree"]},
        "workload": {"kind": "training", "model": "llama-3-8b", "batch": 512},
        "books": {"prices": "2026"},
    }
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        json.dumps({"name": "mine", "title": "Mine", "source": "me", "date": "2026-11", **parts})
    )
    asked: dict[str, dict[str, Any]] = {
        "compare": {"scenario": parts},
        "compare 2": {"scenario": str(mine)},  # below the folder that the server works in
        "compare 3": {"scenario": "hgx-h100", "gpus": 512, "radix": 32, "fabric": "fat-tree"},
        "serving": {"scenario": {"workload": {"kind": "serving", "prompt": 2048}}, "gpus": 8},
    }
    found = {name: told.structured_content for name, told in in_the_client(asked).items()}
    assert [found[name]["inputs"]["scenario"] for name in asked] == [
        *("yours", "mine", "hgx-h100", "yours")
    ]
    inline, file, named = (found[name]["fabrics"] for name in [*asked][:3])
    assert inline == file
    assert inline[0]["cost"] == named[0]["cost"]
    assert found["serving"]["inputs"]["prompt"] == 2048


def test_half_a_sign_is_refused_as_every_other_wrong_text() -> None:
    with pytest.raises(InputError, match="files: half of a surrogate pair is no text"):
        answered("catalog_check", {"files": ["\ud800"]})


@pytest.mark.parametrize("tool", list(QUESTION_COMMANDS))
def test_schemas_say_every_input_once(tool: str) -> None:
    question = question_of(tool)
    made = schema_of(question)
    known = question.inputs_known()
    assert list(made["properties"]) == [given.name for given in known]
    assert ("scenario" in made["properties"]) == bool(question.reads)
    assert set(made["required"]) <= set(made["properties"])
    assert all(one["description"] for one in made["properties"].values())
    assert json.loads(json.dumps(made)) == made


def test_answers_are_bounded_and_say_what_they_leave_out() -> None:
    torus = {"gpus": 512, "fabric": "torus-3d", "radix": 64, "hb_size": 1}
    result = in_the_client({"draw": torus})["draw"]
    assert not result.is_error
    left_out = result.structured_content.pop("left_out_bytes")
    assert list(left_out) == ["svg"]
    assert left_out["svg"] > MAX_JSON_BYTES > 24_021  # of a comparison of nine fabrics
    assert result.structured_content["links"] == 3 * 512
    assert "left out: svg" in result.content[0].text


def test_long_texts_end_at_a_line_and_say_how_much_is_missing() -> None:
    text, data = bounded("one line\n" * 10_000, {"rows": list(range(20_000)), "count": 3})
    assert len(text) < MAX_TEXT + 200
    kept = text.count("one line")
    assert f"... {10_000 - kept:,} more lines" in text
    assert data["count"] == 3
    assert "rows" not in data
    assert bounded("short\n", {"count": 3}) == ("short\n", {"count": 3})


def test_every_command_that_answers_is_a_tool() -> None:
    asked = {question_of(tool).command.partition(" ")[0] for tool in QUESTION_COMMANDS}
    assert {*COMMANDS} - asked == {"report", "explore", "completion", "init", "mcp"}


@pytest.mark.slow
def test_the_command_is_a_server() -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415

    params = StdioServerParameters(
        command=sys.executable, args=["-m", "netplan", "mcp"], env=dict(os.environ)
    )

    async def go() -> Any:  # noqa: ANN401 - a result of the protocol
        async with mcp.Client(stdio_client(params)) as client:
            return await client.call_tool("compare", ASKED["compare"])

    with ThreadPoolExecutor(1) as alone:  # a browser of other tests may have a loop in this thread
        result = alone.submit(anyio.run, go).result()
    assert result.structured_content["verdict"]["fabric"] == "rail-only"
