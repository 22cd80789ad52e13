"""``netplan serving --write``: commands that an independent list of vLLM's options reads."""

import argparse
import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import netplan
from netplan.answers.serving_answer import ServingAnswer
from netplan.errors import InputError
from netplan.records import replace

R1 = {"prompt": 1024, "output": 1024, "concurrency": 512, "top": 1}
WIDE = {"tensor": 1, "attention-data": 16, "expert": 16, "pipeline": 1}
LONG = {"tensor": 8, "attention-data": 1, "expert": 8, "pipeline": 2}
POOLS = {"concurrency": 64, "disaggregated": True, "top": 1}
WHOLE = (
    *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"),
    *("--data-parallel-size-local", "--data-parallel-start-rank", "--data-parallel-rpc-port"),
    *("--nnodes", "--node-rank", "--max-num-seqs", "--max-num-batched-tokens", "--max-model-len"),
)


def parser() -> argparse.ArgumentParser:
    """Options of ``vllm serve`` as its documentation lists them, written down here once more."""
    reads = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    reads.add_argument("model")
    for name in WHOLE:
        reads.add_argument(name, type=int)
    backends = ["allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency"]
    reads.add_argument("--all2all-backend", choices=backends)
    reads.add_argument("--kv-cache-dtype", choices=["auto", "fp8"])
    reads.add_argument("--gpu-memory-utilization", type=float)
    reads.add_argument("--kv-transfer-config", type=json.loads)
    reads.add_argument("--data-parallel-backend", choices=["mp", "ray"])
    for name in ("--port", "--master-addr", "--data-parallel-address"):
        reads.add_argument(name)
    reads.add_argument("--eplb-config", type=json.loads)
    for name in ("--enable-expert-parallel", "--enable-eplb", "--headless"):
        reads.add_argument(name, action="store_true")
    return reads


def commands(text: str) -> list[argparse.Namespace]:
    """Every command of a script, parsed."""
    joined = text.replace("\\\n", " ")
    lines = re.findall(r"exec (vllm serve [^\n]*?)(?: ;;)?$", joined, re.MULTILINE)
    words = [shlex.split(line) for line in lines]
    assert all(line[:2] == ["vllm", "serve"] for line in words)
    return [parser().parse_args(line[2:]) for line in words]


@cache
def asked(name: str) -> ServingAnswer:
    if name == "pools":
        return netplan.serving("serving-70b-h200", gpus=16, **POOLS)
    fixed = {"wide": WIDE, "long": LONG}[name]
    return netplan.serving("serving-r1-h200", gpus=16, fixed=fixed, **R1)


def test_copies_of_attention_start_on_every_host() -> None:
    answer = asked("wide")
    (text,) = answer.launch.scripts().values()
    first, second = commands(text)
    for command in (first, second):
        assert command.tensor_parallel_size == command.pipeline_parallel_size == 1
        assert (command.data_parallel_size, command.data_parallel_size_local) == (16, 8)
        assert command.enable_expert_parallel
        assert command.all2all_backend == "allgather_reducescatter"
        assert command.max_num_seqs == 32  # 512 requests over 16 copies
        assert command.max_model_len == 2048
    assert (first.headless, second.headless) == (False, True)
    assert (first.data_parallel_start_rank, second.data_parallel_start_rank) == (None, 8)


def test_stages_start_by_the_number_of_their_host() -> None:
    (text,) = asked("long").launch.scripts().values()
    ranks = commands(text)
    assert [(rank.nnodes, rank.node_rank, rank.headless) for rank in ranks] == [
        (2, 0, False),
        (2, 1, True),
    ]
    assert {(rank.tensor_parallel_size, rank.pipeline_parallel_size) for rank in ranks} == {(8, 2)}


def test_smaller_hosts_are_more_of_them() -> None:
    (text,) = replace(asked("wide").launch, host=4).scripts().values()
    starts = [rank.data_parallel_start_rank for rank in commands(text)]
    assert starts == [None, 4, 8, 12]


def test_pools_hand_their_caches_over() -> None:
    answer = asked("pools")
    assert answer.best.prefill is not None
    scripts = answer.launch.scripts()
    assert [*scripts] == ["vllm-prefill.sh", "vllm-decode.sh"]
    roles = ("kv_producer", "kv_consumer")
    degrees = (answer.best.prefill.tensor, answer.best.tensor)
    for text, role, tensor in zip(scripts.values(), roles, degrees, strict=True):
        command = commands(text)[0]
        assert command.kv_transfer_config["kv_connector"] == "NixlConnector"
        assert command.kv_transfer_config["kv_role"] == role
        assert command.tensor_parallel_size == tensor
        assert "VLLM_NIXL_SIDE_CHANNEL_PORT" in text
        alone = command.tensor_parallel_size * command.pipeline_parallel_size == 8
        assert ("CUDA_VISIBLE_DEVICES" in text) is not alone


def test_experts_by_load_have_their_copies() -> None:
    answer = netplan.serving(
        "serving-r1-h200", gpus=16, fixed=WIDE, **R1, expert_skew="gini:0.24",
        expert_placement="eplb", redundant_experts=32,
    )  # fmt: skip
    (text,) = answer.launch.scripts().values()
    for command in commands(text):
        assert command.enable_eplb
        assert command.eplb_config == {"num_redundant_experts": 32}


def test_requests_that_come_have_the_room_they_were_simulated_with(tmp_path: Path) -> None:
    """Not that of their mean, beyond which others would wait."""
    trace = tmp_path / "trace.csv"
    rows = "".join(f"{second},{1000 * (1 + second % 2)},100\n" for second in range(40))
    trace.write_text(f"arrival_s,prompt,output\n{rows}")
    answer = netplan.serving("serving-70b-h200", gpus=8, trace=trace)
    (text,) = answer.launch.scripts().values()
    (command,) = commands(text)
    assert command.max_model_len == 2100
    assert command.max_num_seqs == answer.to_dict()["load"]["batch"]["slots"]
    assert command.max_num_seqs > answer.best.batch


def test_files_are_written_once(tmp_path: Path) -> None:
    answer = asked("wide")
    (path,) = answer.write(tmp_path / "new")
    assert path.read_text(encoding="utf-8").startswith("#!/bin/sh\n# Starts a server of vLLM")
    with pytest.raises(InputError, match="already there"):
        answer.write(tmp_path / "new")
    assert answer.write(tmp_path / "new", force=True) == (path,)


def test_texts_of_files_stay_in_comments() -> None:
    launch = asked("wide").launch
    served = launch.case.served
    hostile = replace(served.model, name="x\nrm -rf /; $(touch y)")
    case = replace(launch.case, served=replace(served, model=hostile))
    (text,) = replace(launch, case=case, model="huggingface.co, a/b;rm").scripts().values()
    assert not re.search(r"^\s*rm ", text, re.MULTILINE)
    assert "MODEL=${MODEL:-a/b}" in text
    (text,) = replace(launch, model="a paper").scripts().values()
    assert "MODEL=${MODEL:?name or folder of the weights}" in text


def test_plans_that_vllm_cannot_run_are_not_written() -> None:
    launch = asked("wide").launch
    with pytest.raises(InputError, match="its expert degrees are 1 or"):
        replace(launch, plan=replace(launch.plan, expert=4, expert_tensor=4)).scripts()
