"""What a program that calls the tools cannot do: read other files, block the server, go unheard."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from netplan.cli.calls import AT_ONCE, CallResult, Workers, call_result, readable_folders
from netplan.cli.mcp import MAX_MESSAGE_BYTES, make_server, refusal_of
from netplan.cli.questions import QUESTION_COMMANDS
from netplan.cli.tools import question_of
from netplan.errors import MAX_PIECE
from netplan.files import MAX_BYTES, Reach
from tests.cli.command import variables

mcp = pytest.importorskip("mcp")

CANARY = "qw7b3pdkhx4py8gpan0rlykei2iiaannkksum8nlmytbx0kjqevtavetwt4ul44ldqbwzb90xya2"
SHADOW = f"root:{CANARY}:20228:0:99999:7:::\ndaemon:*:20228:0:99999:7:::\n"
REFUSED = "may not be read here"
LONG: tuple[str, dict[str, Any]] = ("faults", {"scenario": "hgx-h100", "gpus": 131_072})
"""A call that takes some 20 s, so that the fastest machine is still at it when a test looks."""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder that a server works in, and a file elsewhere that it must not read."""
    here, shadow = tmp_path / "here", tmp_path / "elsewhere" / "shadow.yaml"
    for folder in (here, shadow.parent):
        folder.mkdir()
    shadow.write_text(SHADOW)
    monkeypatch.chdir(here)
    return here, shadow


def asked(calls: list[tuple[str, dict[str, Any]]], limit_s: float = 50.0) -> list[Any]:
    """Results of calls over the protocol."""

    async def go() -> list[Any]:
        async with mcp.Client(make_server(limit_s)) as client:
            return [await client.call_tool(tool, given) for tool, given in calls]

    return anyio.run(go)


def test_files_elsewhere_are_not_read_whatever_leads_to_them(folders: tuple[Path, Path]) -> None:
    here, shadow = folders
    (here / "link.yaml").symlink_to(shadow)
    (here / "link.csv").symlink_to(shadow)
    (here / "folder").symlink_to(shadow.parent)
    (here / ".hidden.yaml").write_text(SHADOW)
    (here / "mine.yaml").write_text(
        f"name: mine\ntitle: Mine\nsource: me\ndate: '2026'\nworkload: {{model: {shadow}}}\n"
    )
    os.mkfifo(here / "pipe.yaml")
    with (here / "large.csv").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    names = (str(shadow), "link.yaml", "folder/shadow.yaml", "../elsewhere/shadow.yaml")
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("compare", {"scenario": name}) for name in (*names, ".hidden.yaml", "/etc/passwd")),
        ("compare", {"model": "folder/shadow.yaml"}),
        ("compare", {"scenario": {"workload": {"model": str(shadow)}}}),
        ("compare", {"scenario": "mine.yaml"}),
        ("compare", {"catalog": str(shadow.parent)}),
        ("compare", {"catalog": "folder"}),
        ("compare", {"scenario": "nowhere/../../elsewhere/none.yaml"}),
        ("loads", {"gpus": 64, "matrix": "link.csv"}),
        ("faults", {"gpus": 64, "fail": ["@link.yaml"]}),
        ("study_show", {"store": "link.yaml"}),
        ("calibrate", {"steps": ["folder/*.yaml"]}),
        ("audit", {"file": "link.yaml"}),
    ]
    results = asked(calls)
    for (tool, given), result in zip(calls, results, strict=True):
        text = result.content[0].text
        assert result.is_error, (tool, given)
        assert REFUSED in text, (tool, given, text)
        assert CANARY[:20] not in text
    pipe, large = asked(
        [("compare", {"scenario": "pipe.yaml"}), ("loads", {"gpus": 64, "matrix": "large.csv"})]
    )
    assert "no regular file" in pipe.content[0].text
    assert f"larger than {MAX_BYTES >> 20} MiB" in large.content[0].text


def test_no_input_of_any_tool_opens_a_file_elsewhere(folders: tuple[Path, Path]) -> None:
    here, shadow = folders
    for ending in ("yaml", "csv", "npz", "graphml", "xlsx", "study"):
        (here / f"link.{ending}").symlink_to(shadow)
    script = f"""
import os, sys
seen = []
sys.addaudithook(lambda event, given: event in ("open", "sqlite3.connect")
    and isinstance(given[0], str) and "link." in given[0] and seen.append(given[0]))
from tests.cli.test_calls import with_every_input
from netplan.cli.calls import call_result, readable_folders
from netplan.files import Reach
from pathlib import Path
Reach.folders = tuple(map(Path, readable_folders()))
texts = [call_result(tool, given).text for tool, given in with_every_input()]
assert len(texts) > 300, len(texts)
assert not seen, seen
assert not any({CANARY[:20]!r} in text or "defect" in text for text in texts)
print(sum({REFUSED!r} in text for text in texts))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 150


def with_every_input() -> list[tuple[str, dict[str, Any]]]:
    """Calls of every tool, each with one input that leads to a file elsewhere by a link."""
    needed = {"to": "dot", "kind": "all_reduce", "message_bytes": "1MiB", "phases": [16]}
    calls = []
    for tool in QUESTION_COMMANDS:
        inputs = question_of(tool).inputs_known()
        least: dict[str, Any] = {given.name: needed.get(given.name) for given in inputs}
        least = {given.name: least[given.name] for given in inputs if given.needed}
        for given in inputs:
            option = given.option
            if option.kind not in ("text", "path"):
                continue
            for ending in ("yaml", "csv", "npz", "graphml") if option.kind == "path" else ("yaml",):
                name = f"{'@' * (given.name == 'fail')}link.{ending}"
                several = option.many or option.values > 1
                calls.append(
                    (tool, least | {given.name: [name] * option.values if several else name})
                )
    return calls


CONFINED = """
import os, sys, tempfile
from pathlib import Path
from netplan.cli.calls import confine, readable_folders
confine(readable_folders())
Path("mine.txt").read_bytes()
import colorsys, netplan.simulation.palm
with tempfile.TemporaryDirectory() as made:
    Path(made, "x").write_text("x")
    assert Path(made, "x").read_text() == "x"
for name in (sys.argv[1], "link.txt", "/etc/passwd", "/proc/self/environ"):
    try:
        open(name)
    except PermissionError as error:
        assert "not below the folders" in str(error), error
    else:
        raise SystemExit(f"{name} was opened")
for name in ("mine.txt", "new.txt", sys.argv[1], os.path.join(tempfile.gettempdir(), "x.txt")):
    try:
        open(name, "a")
    except PermissionError as error:
        assert "no file is written" in str(error), error
    else:
        raise SystemExit(f"{name} was written")
"""


def test_what_the_questions_should_miss_the_process_refuses(folders: tuple[Path, Path]) -> None:
    here, shadow = folders
    (here / "mine.txt").write_text("mine")
    (here / "link.txt").symlink_to(shadow)
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, str(shadow)],
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


BOUNDED = """import sys
from netplan.cli.calls import call_result, confine
from netplan.setup import footprint
confine([])
free = footprint.free_bytes()
assert 0 < free < float("inf"), "what is free cannot be read"
small = call_result("loads", {"scenario": "hgx-h100", "gpus": 64, "model": "gpt-22b"})
footprint.HARD_SHARE, footprint.LARGE_BYTES = 2e7 / free, 0.0
footprint.bound_memory()
large = call_result("loads", {"scenario": "hgx-h100", "gpus": 65_000, "model": "gpt-1t"})
footprint.HARD_SHARE = 0.5
footprint.bound_memory()
again = call_result("loads", {"scenario": "hgx-h100", "gpus": 64, "model": "gpt-22b"})
assert again == small and not small.wrong, (small, again)
assert large.wrong
print(large.text)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds what a process takes")
def test_a_call_that_takes_too_much_memory_ends_in_one_line_and_the_next_is_answered() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED],
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    [line] = done.stdout.splitlines()
    assert line.startswith("it takes more than ")
    assert "ask for less, such as fewer GPUs or fabrics" in line


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds what a process takes")
def test_large_calls_are_weighed_and_an_end_by_the_system_is_told() -> None:
    """The process is bounded at its first call; one that the system ends is not the server's."""
    weighed: dict[str, Any] = {"scenario": "rail-only-paper", "gpus": 1_048_576, "max_memory": 1e9}

    import resource  # noqa: PLC0415 - not on every system

    async def go() -> tuple[Any, tuple[int, int], Any]:
        async with mcp.Client(make_server()) as client:
            refused = await client.call_tool("loads", weighed)
            [worker] = children()
            limits = resource.prlimit(worker, resource.RLIMIT_DATA)
            results: list[Any] = []
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    results.append(await client.call_tool(*LONG))

                tasks.start_soon(call)
                await anyio.sleep(0.5)
                os.kill(worker, signal.SIGKILL)
            return refused, limits, results[0]

    refused, limits, ended = anyio.run(go)
    assert refused.content[0].text.startswith("loads of 1,048,576 GPUs: about ")
    assert "1 GB is allowed (--max-memory)" in refused.content[0].text
    assert 1e9 < limits[0] < 1e15  # far below all addresses
    assert ended.is_error
    assert ended.content[0].text.startswith("the process that worked on it was ended by the system")


def test_the_topmost_folder_of_a_disk_is_no_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert "/" not in readable_folders()
    assert all(Path(folder, "..").resolve() != Path("/") for folder in readable_folders())
    monkeypatch.setattr(Reach, "folders", tuple(map(Path, readable_folders())))
    assert REFUSED in call_result("compare", {"scenario": "etc/passwd"}).text


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        (SHADOW, "yaml"),
        (f"{CANARY}: 1\n{CANARY}: 2\n", "yaml"),
        (f"a: !{CANARY} x\n", "yaml"),
        (f"name: x\n{CANARY}: {CANARY}\ncluster: {{{CANARY}: {CANARY}, gpus: {CANARY}}}\n", "yaml"),
        (f"{CANARY},{CANARY}\n", "csv"),
        (f"source,destination,bytes,kind\n{CANARY},1,2,tensor\n", "csv"),
        (f"source,destination,bytes,kind\n0,1,{CANARY},tensor\n", "csv"),
        (f"source,destination,bytes,kind\n0,1,2,{CANARY}\n", "csv"),
    ],
)
def test_errors_repeat_little_of_a_file(
    content: str, ending: str, folders: tuple[Path, Path]
) -> None:
    path = folders[0] / f"mine.{ending}"
    path.write_text(content)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("compare", {"scenario": path.name}),
        ("compare", {"model": f"./{path.name}"}),
        ("loads", {"gpus": 64, "matrix": path.name}),
        ("catalog_check", {"files": [path.name], "role": "model"}),
    ]
    for tool, given in calls if ending == "yaml" else calls[2:3]:
        text, data, wrong = call_result(tool, given)
        assert wrong or not data or data["faults"]
        assert CANARY[: MAX_PIECE + 20] not in f"{text}{data}", (tool, text)
    if content == SHADOW:
        text = call_result("compare", {"model": f"./{path.name}"}).text
        assert text.startswith("mine.yaml:1: none of its 2 keys is known: it takes name, title")
        assert "daemon" not in text


def test_a_call_that_takes_too_long_is_refused_and_the_next_one_answered() -> None:
    began = time.monotonic()
    (late,) = asked([LONG], limit_s=1.0)
    assert late.is_error
    assert late.content[0].text.startswith("no answer within 1 s: ask for less")
    assert time.monotonic() - began < 6

    async def go() -> list[str]:
        workers, texts = Workers(1.0), []
        texts.append((await workers.ask(*LONG)).text)
        workers.limit_s = 50.0  # the next one starts a process anew
        texts.append((await workers.ask("audit", {})).text)
        await workers.close()
        return texts

    late_text, next_text = anyio.run(go)
    assert late_text == late.content[0].text
    assert next_text == "audit needs file"


def test_the_clock_of_a_call_starts_at_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are taken for 0.7 s, a call works for 0.7 s: each within 1 s, but not together."""

    async def answer(_: Workers, tool: str, __: object) -> CallResult:
        await anyio.sleep(0.7)
        return CallResult(tool, None, wrong=False)

    async def go(held_s: float) -> CallResult:
        workers = Workers(1.0)
        results: list[CallResult] = []

        async def hold() -> None:
            async with workers._turns:
                await anyio.sleep(held_s)

        async def ask() -> None:
            results.append(await workers.ask("audit", {}))

        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(hold)
            await anyio.lowlevel.checkpoint()
            workers._asked += AT_ONCE  # as calls that hold them have counted
            group.start_soon(ask)
        assert workers._turns.value == AT_ONCE
        assert workers._asked == AT_ONCE
        return results[0]

    monkeypatch.setattr(Workers, "_answer", answer)
    assert anyio.run(go, 0.7) == CallResult("audit", None, wrong=False)
    late = anyio.run(go, 3.0)
    assert late.wrong
    assert late.text.startswith(f"not begun within 1 s: {AT_ONCE} calls were before it")


def test_a_cancelled_call_ends_its_process() -> None:
    async def go() -> tuple[list[int], list[int], Any]:
        async with mcp.Client(make_server()) as client:
            with anyio.move_on_after(1.5):
                await client.call_tool(*LONG)
            working = children()
            for _ in range(40):
                if not children():
                    break
                await anyio.sleep(0.05)
            return working, children(), await client.call_tool("audit", {})

    _, after, answer = anyio.run(go)
    assert not after
    assert answer.content[0].text == "audit needs file"
    assert not children()  # once the server has ended


def children() -> list[int]:
    """Processes of this one that answer calls."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(place.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            words = place.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"netplan.cli.calls" in words:
            found.append(int(place.name))
    return found


REQUEST: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "ping"}


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"not json", -32700, None),
        (b"\xff\xfe{}", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"id": ' + b"9" * 5_000 + b"}", -32700, None),
        (b" " * (MAX_MESSAGE_BYTES + 1), -32700, None),
        (b"[]", -32600, None),
        (b"42", -32600, None),
        (json.dumps([REQUEST]).encode(), -32600, None),
        (b'{"id": 7, "method": "ping"}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7}', -32600, 7),
        (json.dumps(REQUEST | {"params": [1]}).encode(), -32600, 7),
        (json.dumps(REQUEST | {"id": None}).encode(), -32600, None),
        (json.dumps(REQUEST | {"id": 1.5}).encode(), -32600, None),
        (json.dumps(REQUEST | {"id": {}}).encode(), -32600, None),
        (json.dumps(REQUEST | {"id": True}).encode(), -32600, None),
        (json.dumps(REQUEST | {"params": {"x": "\ud800"}}).encode(), -32602, 7),
        (json.dumps(REQUEST | {"id": "\ud800"}).encode(), -32602, None),
    ],
)
def test_what_is_no_message_gets_the_error_of_the_protocol(
    line: bytes, code: int, number: int | None
) -> None:
    refusal = refusal_of(line)
    assert refusal is not None
    assert (refusal.error.code, refusal.id) == (code, number)
    sent = json.loads(refusal.model_dump_json(by_alias=True, exclude_unset=True))
    assert sent["id"] == number
    assert len(sent["error"]["message"]) < 100


def test_messages_are_let_through() -> None:
    for message in (REQUEST, REQUEST | {"id": "a"}, {"jsonrpc": "2.0", "method": "x"}):
        assert refusal_of(json.dumps(message).encode()) is None


def test_the_server_answers_every_line_at_once_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello |= {"clientInfo": {"name": "test", "version": "1"}}
    lines = [
        json.dumps(REQUEST | {"id": 0, "method": "initialize", "params": hello}),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        *("not json", "[]", "", "x" * (MAX_MESSAGE_BYTES + 5), json.dumps(REQUEST)),
        json.dumps(REQUEST | {"id": 8, "params": {"x": "\ud800"}}),
    ]
    wanted: list[tuple[int | None, int | None]] = [(0, None), (None, -32700), (None, -32600)]
    wanted += [(None, -32700), (7, None), (8, -32602)]
    with subprocess.Popen(
        [sys.executable, "-m", "netplan", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=variables(80, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n".join([*lines, ""]).encode())
        server.stdin.flush()
        said = [json.loads(server.stdout.readline()) for _ in wanted]
        got = {(one["id"], one.get("error", {}).get("code")) for one in said}
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 130
    assert got == set(wanted)
