"""What a plan holds as training software keeps it, row by row: formula, symbols, bytes.

Each row of memory model ``stack`` (`netplan.performance.stack_memory`) with the formula that made
it and the value of every symbol in it, so that a reader can work it out again. Symbols that stand
beside each other are multiplied. Those of the layers are that module's; of the states of a GPU W,
We and Wt are weights of layers, of experts, and of the tables of embedding and head, D and De the
replicas that share them, x, y, G and O bytes of a weight, of one of the tables, of a gradient and
of the optimizer's states; of the activations F microbatches are in flight, L* layers of each kind
keep A* bytes each, and those that are computed again Ai, their input.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from msgspec import Struct

from netplan.catalog import shipped_rows
from netplan.performance import stack_memory
from netplan.performance.ladder import sizes_of
from netplan.performance.memory_verdict import FRAGMENTATION, OUTSIDE_BYTES, PlanMemory
from netplan.performance.plan import PlanTime
from netplan.performance.setting import Setting
from netplan.performance.stage_layers import Kind, attends, layer_kinds, mamba_sizes
from netplan.workloads.program import SHARDED_GRADIENTS, SHARDED_OPTIMIZER, SHARDED_WEIGHTS
from netplan.workloads.recomputation import NOTHING, Recomputation

KINDS: dict[str, str] = {
    "dense": "d",
    "experts": "e",
    "attention": "a",
    "ffn": "f",
    "mamba": "m",
    "again": "i",
}
"""Ends of the symbols of layers by kind."""


@cache
def meanings() -> dict[str, str]:
    """What symbols stand for, in the order in which they are listed.

    Returns
    -------
    dict of str to str
        Meanings by symbol.
    """
    return {row["symbol"]: row["meaning"] for row in shipped_rows("reports/memory-symbols.csv")}


class MemoryRow(Struct, frozen=True):
    """One part of what a GPU holds: its formula, and its bytes [B]."""

    part: str
    formula: str
    held_bytes: float


class KeptRow(Struct, frozen=True):
    """What one layer of a kind keeps of one microbatch for an operation [B]."""

    kind: str
    operation: str
    formula: str
    held_bytes: float


class SymbolRow(Struct, frozen=True):
    """A symbol of the formulas, with its value."""

    symbol: str
    value: float
    meaning: str


class MemoryRows(Struct, frozen=True):
    """All that explains the memory of a plan.

    Parameters
    ----------
    parts
        What the fullest stage holds, and what lies outside of the allocator.
    operations
        What one layer keeps of one microbatch, by kind and operation.
    symbols
        Values of what stands in their formulas.
    """

    parts: tuple[MemoryRow, ...]
    operations: tuple[KeptRow, ...]
    symbols: tuple[SymbolRow, ...]


def memory_rows(setting: Setting, timed: PlanTime) -> MemoryRows:
    """What a plan holds, with the formulas that say so.

    Parameters
    ----------
    setting
        Under which it was found, where stacks say what memory holds.
    timed
        The plan, its memory and its parts [B].

    Returns
    -------
    MemoryRows
        Rows with formulas, and the symbols in them.

    Raises
    ------
    TypeError
        If no stack says what memory holds.
    """
    plan, memory, kept = timed.plan, setting.training.stack_memory, timed.memory
    if memory is None or kept is None:
        raise TypeError("no stack says what memory holds")
    setting = plan.applied_to(setting)
    rung = setting.rungs[0]
    totals = np.array(plan.placement.totals)[:, None]
    run = np.array([plan.microbatches * 1.0]), np.array([plan.interleave * 1.0])
    sizes = sizes_of(setting, totals, plan.sharding, *run)
    formulas = _Formulas(memory, sizes, rung.recompute, rung.zero, kept, plan.offload_layers)
    symbols = formulas.symbols()
    parts = tuple(formulas.parts(symbols, timed.memory_parts_bytes))
    operations = tuple(
        KeptRow(kind, name, formulas.of(kind, name), held_bytes)  # type: ignore[arg-type]
        for kind, rows in kept.by_operation.items()
        for name, held_bytes in rows.items()
    )
    texts = " ".join([row.formula for row in parts] + [row.formula for row in operations])
    words = {*texts.replace("(", " ").replace(")", " ").split()}
    known = meanings().items()
    used = [SymbolRow(name, symbols[name], meaning) for name, meaning in known if name in words]
    return MemoryRows(parts, operations, tuple(used))


class _Formulas(Struct, frozen=True):
    """Formulas of one plan, and the values of their symbols."""

    memory: stack_memory.StackMemory
    sizes: stack_memory.PlanSizes
    recompute: Recomputation
    zero: int
    kept: PlanMemory
    offload_layers: int

    def of(self, kind: Kind, operation: str) -> str:
        """What a layer of a kind keeps for an operation."""
        if "sac-op" in self.recompute.modules:
            products = {"products": "2 T (hq + hk + f) + 2 E h", "attention": "2 T hq + 4 T n"}
            return products.get(operation, "2 E h")
        if kind == "mamba":
            return {
                "norm 1": "(2 + a) E h",
                "projected": "2 T (2 I + 2 u + H)",
                "convolution": "2 T (I + 2 u)",
                "gated norm": "(2 + a) T I",
                "states": f"4 T I S / {stack_memory.CHUNK_TOKENS}",
            }.get(operation, "2 E h")
        formulas = {"input": "2 E h", "dropout": "2 E h", **self._ffn(kind)}
        if attends(self.memory.model, kind):
            formulas |= self._attention
        return formulas[operation]

    @property
    def _norm(self) -> str:
        keeps = {"torch": "12 E h", "compiled": "4 E h"}
        return keeps.get(self.memory.stack.keeps or "", "(2 + a) E h")

    @property
    def _attention(self) -> dict[str, str]:
        memory, modules = self.memory, self.recompute.modules
        latent = memory.model.latent_attention is not None
        scores = " + 4 T n"
        if not memory.fused_attention:
            scores = f" + {5 if memory.dropout else 2} T s n"
            scores = "" if "core_attn" in modules else scores
        narrow = " + a T ho" if memory.input_bytes < 2 else ""  # noqa: PLR2004 - 16 bits
        gate = " + ho" if memory.model.gated_attention else ""
        freed = latent and "layernorm" in modules and not memory.torch
        qkv = f"2 T (hq + hk + hv{gate})"
        if latent:
            qkv = "0" if "mla_up_proj" in modules else "2 T n (2 (e + er) + ev)"
        return {
            "norm 1": "2 E h" if freed else self._norm,
            "latent": "4 E (rq + rk + er)",
            "qkv": qkv,
            "attention": f"2 T ho{scores}{narrow}",
        }

    def _ffn(self, kind: Kind) -> dict[str, str]:
        memory, modules = self.memory, self.recompute.modules
        if kind == "experts":
            norm = self._norm if memory.torch else "4 E h"
            norm = "2 E h" if "layernorm" in modules else norm
            return {
                "norm 2": "4 E h" if "moe" in modules else norm,
                "router": "12 E X",
                "permuted": "a N q",
                "experts": "2 N i g" if "moe_act" in modules else "N i (2 g + a)",
                "shared": "T j (2 g + a)",
            }
        inner = "4 T f g" if memory.stack.keeps == "torch" else "T f (2 g + a)"
        return {"norm 2": "4 E h" if "mlp" in modules else self._norm, "ffn": inner}

    def parts(self, symbols: dict[str, float], held: dict[str, float]) -> Iterator[MemoryRow]:
        """Rows of all parts, those that are nothing left out."""
        kept, zero = self.kept, self.zero
        there = [name for name in ("W", "We", "Wt") if symbols[name]]
        tables = " + y Wt" if "Wt" in there else ""
        dense = _sum([name for name in there if name != "We"])
        whole = _sum(there)
        shared = [f"{dense} / D"] if dense != "0" else []
        shares = _sum(shared + (["We / De"] if "We" in there else []))
        if zero >= SHARDED_WEIGHTS:
            layers = [f"{name} / {'De' if name == 'We' else 'D'}" for name in there if name != "Wt"]
            weights = f"x {_sum(layers)}{tables + ' / D' if tables else ''}"
        elif symbols["x"] == symbols["y"]:
            weights = f"x {whole}"
        else:
            weights = f"x {_sum([name for name in there if name != 'Wt'])}{tables}"
        yield MemoryRow("weights", weights, held["weights"])
        gradients = f"G {shares if zero >= SHARDED_GRADIENTS else whole}"
        yield MemoryRow("gradients", gradients, held["gradients"])
        optimizer = f"O {shares if zero >= SHARDED_OPTIMIZER else whole}"
        yield MemoryRow("optimizer", optimizer, held["optimizer"])
        held_layers = [f"L{end} A{end}" for end in KINDS.values() if symbols.get(f"L{end}")]
        first = " + 2 E h" if kept.stage == 0 else ""
        hosted = " - Ah" if self.offload_layers else ""
        activations = f"F ({' + '.join(held_layers)}{first}{hosted})"
        yield MemoryRow("activations", activations, kept.activations)
        name, formula = self._peak(symbols)
        yield MemoryRow(name, formula, kept.head_or_backward)
        if kept.gathered:
            of_layers = _sum([name for name in there if name != "Wt"])
            stage = self.memory.torch and np.all(np.asarray(self.sizes.stages) > 1)
            gathered = (
                f"(2 + G) {whole}"
                if stage
                else f"(6 + G) {of_layers} / L{' + 2 Wt' * bool(tables)}"
            )
            yield MemoryRow("gathered weights", gathered, kept.gathered)
        more = stack_memory.EXPERT_WORKSPACE_BYTES if self.memory.model.experts else 0.0
        fixed = f"{(kept.workspace - more) / 1e6:g} 10^6"
        fixed += f" + {more / 1e6:g} 10^6" if more else ""
        yield MemoryRow("workspaces", fixed, kept.workspace)
        fragments = (FRAGMENTATION - 1) * kept.peak_bytes
        yield MemoryRow(
            "fragments, and outside the allocator",
            f"{FRAGMENTATION - 1:.2g} M + {OUTSIDE_BYTES / 1e9:g} 10^9",
            fragments + kept.outside,
        )

    def _peak(self, symbols: dict[str, float]) -> tuple[str, str]:
        """What the loss or a layer's backward pass needs, whichever is more."""
        model, recompute, s = self.memory.model, self.recompute, symbols
        wide = 2 * s["T"] * s["h"]
        needs: list[tuple[float, str]] = []
        kinds = {*layer_kinds(model)[0]}
        if {"dense", "ffn"} & kinds or (model.experts and model.experts.every > 1):
            needs.append((wide + 2 * s["T"] * s["f"] * s["g"], "2 T h + 2 T f g"))
        if model.experts is not None:
            rows = 4 * s["N"] * s["q"] + 2 * s["N"] * s["i"] * s["g"]
            needs.append((rows, "4 N q + 2 N i g"))
        if model.mamba is not None:
            block = wide + 2 * s["T"] * (2 * s["I"] + 2 * s["u"] + s["H"])
            needs.append((block, "2 T h + 2 T (2 I + 2 u + H)"))
        backward, formula = max(needs)
        share = 0.5 if {"mlp", "moe"} & {*recompute.modules} else 0.0
        share = 1.0 if recompute.layers != "none" else share
        share += 2.0 if self.offload_layers else 0.0
        if share:
            formula += f" + {share:g} A" if share != 1 else " + A"
        if np.isclose(backward + share * s["A"], self.kept.head_or_backward, rtol=1e-9):
            return "a layer's backward pass", formula
        several = self.memory.torch and np.all(np.asarray(self.sizes.tensor) > 1)
        logit = "(K + 4 P)" if model.prediction_layers else "K"
        return "loss", f"{logit} T w + 4 E h" + (" + 4 T h" if several else "")

    def symbols(self) -> dict[str, float]:
        """Values of all symbols that the model has."""
        memory, model, kept = self.memory, self.memory.model, self.kept
        stage = memory.stage_of(
            self.sizes,
            stage=kept.stage,
            recompute=self.recompute,
            zero=self.zero,
            offload_layers=float(self.offload_layers),
        )
        gpu = stage.gpu
        t, tokens = float(gpu.tensor[0]), float(gpu.tokens[0])
        keys = max(model.key_heads / t, 1.0)
        if "sac-op" in self.recompute.modules:
            keys = model.key_heads / t
        symbols = {
            "T": tokens,
            "E": float(gpu.slice[0]),
            "s": float(model.sequence_length),
            "h": float(model.hidden_size),
            "n": model.heads / t,
            "hq": model.query_size / t,
            "hk": keys * model.head_elements,
            "hv": keys * model.value_elements,
            "ho": model.heads * model.value_elements / t,
            "f": model.inner_size / t,
            "g": 1.0 + model.gated_ffn,
            "w": model.vocabulary / t,
            "a": memory.input_bytes,
            "P": float(model.prediction_layers),
            "L": kept.layers,
            "F": kept.in_flight,
            "M": kept.peak_bytes,
            "D": float(gpu.dense_group[0]),
            "De": float(gpu.expert_group[0]),
            **dict(zip(("W", "We", "Wt"), stage.weights, strict=True)),
            **dict(zip(("x", "y", "G", "O", "K"), stage.bytes, strict=True)),
        }
        if latent := model.latent_attention:
            symbols |= {"rq": float(latent.query_rank or 0), "rk": float(latent.kv_rank)}
            symbols |= {"er": float(latent.rotary_head_size), "e": float(latent.head_size)}
            symbols |= {"ev": float(latent.value_head_size)}
            symbols["ho"] = symbols["n"] * latent.value_head_size
        if experts := model.experts:
            inner = (experts.ffn_size or model.inner_size) / float(gpu.expert_tensor[0])
            symbols |= {"X": float(experts.count), "N": stage.arrived, "i": inner}
            symbols |= {"q": float(experts.latent_size or model.hidden_size)}
            symbols |= {"j": experts.shared_ffn_size / t}
        if mamba := model.mamba:
            inner_size, state, heads = (float(size[0]) for size in mamba_sizes(mamba, gpu))
            symbols |= {"I": inner_size, "u": state, "H": heads, "S": float(mamba.state)}
        rows = kept.by_operation
        kept_bytes = {kind: sum(rows[kind].values()) for kind in rows}
        for kind, count in stage.whole.items():
            symbols |= {f"L{KINDS[kind]}": count, f"A{KINDS[kind]}": kept_bytes[kind]}
        symbols |= {"Li": stage.again, "Ai": 2 * symbols["E"] * symbols["h"]}
        alone = memory.by_operation(self.sizes, recompute=NOTHING)
        largest = max(
            (sum(alone[kind].values()) for kind, count in stage.layers.items() if count), default=0
        )
        return symbols | {"A": largest, "Ah": stage.offloaded_bytes}


def _sum(terms: list[str]) -> str:
    """A sum as a factor of a product: in brackets where it has several terms."""
    return f"({' + '.join(terms)})" if len(terms) > 1 else "".join(terms) or "0"
