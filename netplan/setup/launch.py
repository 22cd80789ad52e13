"""Launch commands of vLLM for a plan of servers: a script a kind of server, started on each host.

Every option stands in `traffic/serving-stacks/vllm-options.csv` with what it means, the version
whose documentation has it, and where. A server whose copies of attention fit into hosts starts some
of them on each; one copy over several hosts is started with their numbers; several copies of which
each needs more than a host are left to Ray. Prompts and decode apart are two scripts, whose servers
hand caches over by the NIXL connector.

Left out: where weights are, the proxy between both kinds of servers, drafts of speculation.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from shlex import quote

import numpy as np
from msgspec import Struct

from netplan.catalog import shipped_root
from netplan.errors import InputError
from netplan.files import write_texts
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.serving.plans import ServingPlans
from netplan.records import replace
from netplan.setup.served_plan import ServedPlan, ServedPool

Words = list[str]
ENGINE = "vllm"
RPC_PORT, SIDE_PORT, PORT = 13345, 5600, 8000
"""Ports of copies of attention, of caches that are handed over, of HTTP: vLLM's examples [1]."""
CHECKPOINT = re.compile(r"huggingface\.co, ([\w.-]+/[\w.-]+)")
"""Where a model's source names its checkpoint."""
BACKENDS: Mapping[str, Mapping[str, str]] = {
    "gather": dict.fromkeys(("serve", "prefill", "decode"), "allgather_reducescatter"),
    "deepep": {
        "serve": "deepep_high_throughput",
        "prefill": "deepep_high_throughput",
        "decode": "deepep_low_latency",
    },
}
"""What vLLM calls an exchange, by what a server does; of others it chooses itself."""
CACHES = {1.0: "fp8", 2.0: "auto"}
"""Numbers of a cache by their size [B]."""


@cache
def vllm_options() -> Mapping[str, Mapping[str, str]]:
    """Documented options of vLLM by name.

    Examples
    --------
    >>> vllm_options()["--max-num-seqs"]["value"]
    'whole'
    """
    path = shipped_root() / "traffic" / "serving-stacks" / "vllm-options.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {row["option"]: row for row in csv.DictReader(file)}


class Launch(Struct, frozen=True):
    """What is to be started.

    Parameters
    ----------
    plan, case
        The plan, and what it serves.
    host
        GPUs of a host, which one operating system has [1].
    model
        Where the model's file says that its weights are.
    exchange
        How tokens reach their experts.
    slots, longest
        Requests of a copy at most, and tokens of the longest one, where they come at a rate; None
        where the plan's requests in flight, all alike, say so [1].
    """

    plan: ServedPlan
    case: ServingCase
    host: int
    model: str
    exchange: str
    slots: int | None = None
    longest: int | None = None

    def write(self, folder: Path, *, force: bool = False) -> tuple[Path, ...]:
        """Write the scripts, each as a whole.

        Parameters
        ----------
        folder
            Where to; it is made if it is not there.
        force
            Whether to replace files.

        Returns
        -------
        tuple of Path
            What was written.

        Raises
        ------
        InputError
            If vLLM cannot run the plan, or a file is there already or cannot be written.
        """
        return write_texts(folder, self.scripts(), force=force, instead="DIR")

    def scripts(self) -> dict[str, str]:
        """Scripts by their names.

        Raises
        ------
        InputError
            If vLLM cannot run the plan.
        """
        plan = self.plan
        if plan.prefill is None or plan.decode is None:
            degrees = (plan.tensor, plan.pipeline, plan.expert, plan.attention_data)
            pool = ServedPool(*degrees, plan.expert_tensor, plan.replicas, plan.gpus_used)
            return {"vllm-serve.sh": self._script("serve", pool)}
        return {
            "vllm-prefill.sh": self._script("prefill", plan.prefill),
            "vllm-decode.sh": self._script("decode", plan.decode),
        }

    def _script(self, role: str, pool: ServedPool) -> str:
        """A script that starts one server, on whichever of its hosts it runs."""
        degrees = (pool.tensor, pool.attention_data, pool.expert, pool.pipeline, 1)
        plans = ServingPlans(*(np.array([degree]) for degree in degrees))
        vllm = replace(self.case, stack=replace(self.case.stack, engine=ENGINE)).runnable()
        if vllm is not None and not vllm.runs(plans).all():
            raise InputError(
                f"--write: vLLM cannot run {pool.shape}: its {vllm.broken(plans).rule_words}: leave"
                " --write out, or ask for a plan of --stack vllm"
            )
        if self.case.served.formats.cache_bytes not in CACHES:
            raise InputError("--write: vLLM documents caches of 8 and 16 bits: give --kv-precision")
        known = CHECKPOINT.search(self.model)
        weights = f"-{known[1]}" if known else "?name or folder of the weights"
        commands = [*self._commands(role, pool)]
        lines = ["#!/bin/sh", *(f"# {line}" for line in self._readme(role, pool, len(commands)))]
        lines += ["set -eu", f"MODEL=${{MODEL:{weights}}}", f"PORT=${{PORT:-{PORT}}}"]
        if role != "serve":
            lines += [
                f"export VLLM_NIXL_SIDE_CHANNEL_PORT=${{VLLM_NIXL_SIDE_CHANNEL_PORT:-{SIDE_PORT}}}",
                'export VLLM_NIXL_SIDE_CHANNEL_HOST="${HOST_ADDRESS:?address of this host}"',
            ]
        if self._by_ray(pool):
            lines.append("export VLLM_RAY_DP_PACK_STRATEGY=span")
        if len(commands) == 1:
            lines.append(_laid(commands[0], ""))
        else:
            lines += [
                "HEAD_ADDRESS=${HEAD_ADDRESS:?address of the host whose NODE_RANK is 0}",
                'case "${NODE_RANK:?which of the hosts this is, from 0}" in',
                *(f"{rank}) {_laid(words, '  ')} ;;" for rank, words in enumerate(commands)),
                f'*) echo "NODE_RANK is 0 to {len(commands) - 1}" >&2; exit 2 ;;',
                "esac",
            ]
        return "\n".join(lines) + "\n"

    def _by_ray(self, pool: ServedPool) -> bool:
        """Whether several copies of attention take more than one host each."""
        return pool.attention_data > 1 and pool.tensor * pool.pipeline > self.host

    def _commands(self, role: str, pool: ServedPool) -> Iterator[Words]:
        """The command of every host of a server, the first one's first."""
        words = ["vllm", "serve", "$MODEL", "--port", "$PORT", *self._options(role, pool)]
        copy, copies = pool.tensor * pool.pipeline, pool.attention_data
        hosts = ceil(copy * copies / self.host)
        if hosts == 1:
            yield words
        elif self._by_ray(pool):
            yield [*words, "--data-parallel-backend", "ray"]
        elif copies == 1:
            words += ["--nnodes", str(hosts), "--master-addr", "$HEAD_ADDRESS"]
            for rank in range(hosts):
                yield [*words, "--node-rank", str(rank), *(["--headless"] if rank else [])]
        else:
            local = self.host // copy
            words += ["--data-parallel-address", "$HEAD_ADDRESS"]
            words += ["--data-parallel-rpc-port", str(RPC_PORT)]
            for start in range(0, copies, local):
                here = ["--data-parallel-size-local", str(min(local, copies - start))]
                first = ["--headless", "--data-parallel-start-rank", str(start)] if start else []
                yield [*words, *here, *first]

    def _options(self, role: str, pool: ServedPool) -> Words:
        """Options of a server on whatever host: degrees, sizes, numbers."""
        case, stack = self.case, self.case.stack
        words = ["--tensor-parallel-size", str(pool.tensor)]
        words += ["--pipeline-parallel-size", str(pool.pipeline)]
        if pool.attention_data > 1:
            words += ["--data-parallel-size", str(pool.attention_data)]
        if pool.expert > 1:
            words.append("--enable-expert-parallel")
            if backend := BACKENDS.get(self.exchange, {}).get(role):
                words += ["--all2all-backend", backend]
            load = case.served.model.experts.load if case.served.model.experts else None
            if load is not None and load.placement == "eplb":
                words += ["--enable-eplb", "--eplb-config"]
                words.append(f'{{"num_redundant_experts":{load.redundant}}}')
        if role != "prefill":
            most = self.slots or ceil(self.plan.batch / pool.attention_data)
            words += ["--max-num-seqs", str(most)]
        words += ["--max-num-batched-tokens", str(int(stack.chunk_tokens))]
        words += ["--max-model-len", str(self.longest or int(case.requests.tokens))]
        words += ["--gpu-memory-utilization", f"{stack.memory_share:g}"]
        words += ["--kv-cache-dtype", CACHES[case.served.formats.cache_bytes]]
        if role != "serve":
            connector = {
                "kv_connector": "NixlConnector",
                "kv_role": "kv_producer" if role == "prefill" else "kv_consumer",
            }
            words += ["--kv-transfer-config", json.dumps(connector, separators=(",", ":"))]
        return words

    def _readme(self, role: str, pool: ServedPool, hosts: int) -> Iterator[str]:
        """What the script is, and what it leaves to whoever runs it."""
        case, plan = self.case, self.plan
        version = next(iter(vllm_options().values()))["version"]
        what = {"serve": "a server", "prefill": "a server for prompts", "decode": "a decode server"}
        yield f"Starts {what[role]} of vLLM for {_line(case.served.model.name)}; made by netplan."
        yield f"Options as the documentation of vLLM {version} has them; nothing of it was run."
        yield f"Servers of this kind: {pool.replicas}, each {pool.shape} on {hosts} host(s)."
        yield f"A host has {self.host} GPUs; give --host-gpus where it has fewer."
        fitting = self.host // (pool.tensor * pool.attention_data * pool.pipeline)
        if fitting > 1:
            yield f"{fitting} of them fit a host: CUDA_VISIBLE_DEVICES and PORT differ by each."
        yield (
            f"Predicted for all of them with {plan.concurrency} requests in flight: TTFT"
            f" {plan.ttft_s:.4g} s, TPOT {plan.tpot_s:.4g} s, {plan.tokens_per_s:,.0f} tokens/s,"
        )
        yield (
            f"with prompts of {case.requests.prompt} and answers of {case.requests.output} tokens,"
            f" stack {_line(case.stack.name)}."
        )
        if case.stack.engine != ENGINE or case.stack.name != ENGINE:
            yield f"The plan was timed for stack {_line(case.stack.name)}; the command is vLLM's."
        weights = case.served.formats.feed_forward.stored
        yield f"Timed with weights of {weights}; a server has those of its checkpoint: MODEL"
        yield "names one with such weights, or a folder. PORT is another port."
        yield "Requests of more tokens than --max-model-len, prompt and answer, are refused."
        if hosts > 1:
            yield "On every host of a server: NODE_RANK from 0, HEAD_ADDRESS that of the first."
        if self._by_ray(pool):
            yield "Copies of attention span hosts: start it once on a Ray cluster of these hosts."
        if role != "serve":
            yield "Caches go by NIXL: HOST_ADDRESS is that of this host; a proxy joins both kinds."
        if case.speculated is not None:
            yield "Drafts of speculation, which the plan has, are not in the command."


def _line(text: str) -> str:
    """A text of a file on one line of printable characters."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _laid(words: Sequence[str], indent: str) -> str:
    """A command over lines, an option each; variables of the script stay as they are."""
    known = vllm_options()
    parts = [f"exec {words[0]} {words[1]} {_quoted(words[2])}"]
    for word in words[3:]:
        if word.startswith("--"):
            if word not in known:
                raise InputError(f"--write: {word} is no documented option of vLLM")
            parts.append(f"\\\n{indent}  {word}")
        else:
            parts[-1] += f" {_quoted(word)}"
    return " ".join(parts)


def _quoted(word: str) -> str:
    """A word for the shell: one of the script's variables, or a text."""
    return f'"{word}"' if word in ("$MODEL", "$PORT", "$HEAD_ADDRESS") else quote(word)
