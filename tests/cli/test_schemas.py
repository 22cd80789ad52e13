"""Tables of answers: their columns, units and rows in their order, and numbers worked out by hand.

Every answer is asked for once and shown in all widths; what its sentences say is not held here.
"""

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

import pytest

from netplan.reports.answer import Answer
from netplan.reports.sections import data_tables
from tests.cli.layout import asked, check_layout, schema_of
from tests.oracles import fourd
from tests.oracles.fourd_inputs import MODELS, Model, Plan, Split, System

Numbers = Mapping[str, Mapping[str | int, Mapping[str, float]]]
H100 = System("H100", 989.4, 133.8, 3350.0, 80.0, 450.0, 50.0, domain=8)
HB_8, HB_64, GH200 = (
    System("GH200", 989.4, 133.8, 4000.0, 96.0, 450.0, 50.0, domain=size) for size in (8, 64, 256)
)


def gpt_1t_s(system: System, tensor: int, pipeline: int, data: int, inside: str) -> float:
    """An iteration of GPT-1T, batch 4,096, one sequence a microbatch, by the scalar oracle."""
    v1, v_p, v_d = map(int, inside.split("x"))
    plan = Plan(Split("1d", 1, tensor, 1, v1, 1), pipeline, data, v_p, v_d, 4096 // data)
    return fourd.evaluate(MODELS["GPT3-1T"], system, plan).times.iteration_s


GPT_22B = fourd.evaluate(
    Model("gpt-22b", sequence=2048, embedding=6144, heads=64, depth=48),
    HB_8,
    Plan(Split("1d", 1, 4, 1, 4, 1), 4, 4, 1, 2, 16),
).times
"""Of 64 GPUs: tensor, pipeline and data 4, two replicas in a domain, 16 microbatches."""


def clos(ports: int, radix: int, tiers: int) -> dict[str, float]:
    """A full Clos: half of a switch faces up, but on the last tier; two modules a link."""
    switches = (2 * tiers - 1) * ports / radix
    return {"switches": switches, "tiers": tiers, "links": tiers * ports,
            "modules": 2 * tiers * ports}  # fmt: skip


def paper_usd(switches: int, radix: int, modules: int, slow: int = 0) -> dict[str, float]:
    """Footnote 1 of the rail-only paper: a port of 400G 748, a module 374; one of 100G 99 [USD]."""
    return {"cost_base": 748 * switches * radix + 374 * modules + 99 * slow}


def power_w(gpus: int, switches: int, radix: int, modules: int) -> dict[str, float]:
    """SN5600: 940 W of 128 ports; 8 W a module of 400G, 24.9 W a card [W]."""
    return {"power_w": 940 / 128 * switches * radix + 8 * modules + 24.9 * gpus}


class Case(NamedTuple):
    """A question, the schema of its answer, numbers by table, row and quantity, notes by fabric."""

    words: str
    schema: list[tuple[str, str, str]]
    numbers: Numbers
    notes: Mapping[str, int] | None = None


COUNTS = "tiers | switches | spare ports | cables | copper | modules | ports | GB/s [B/s]"
NETWORK = f"Fabric | {COUNTS} | M USD [USD] | low-high | USD/GPU [currency] | saves | kW [W]"
POINT = NETWORK.replace(" | low-high", "")
PLAN = "iteration [s] | MFU | GPUs | memory [B] | TPxPPxDP | microbatches"
PARTS = "compute [s] | TP time [s] | PP time [s] | DP time [s] | bubble [s]"
TIMED, ATTENTION = f"Fabric | {PLAN} | {PARTS}", " | attention [s]"
INTERLEAVED = TIMED.replace("microbatches", "microbatches | stages") + ATTENTION
CLOS = "rail-optimized, rail-only, fat-tree"
PAPER = f"{CLOS}, dgx-superpod, dgx-1 *, dgx-2 *, dragonfly *, torus-2d *, torus-3d *"
HGX = "rail-only, rail-optimized, fat-tree, dgx-superpod *, dragonfly *, torus-2d *, torus-3d *"
BILL = "Item | Specification | order | unit | each [currency] | M USD [USD] | low-high"
YEARS = (
    "Fabric | price [USD] | energy [USD] | cooling [USD] | maint. [USD] | support [USD] |"
    " spares [USD] | total [USD] | low-high | undiscounted [USD]"
)
COST = (
    "Fabric | M USD [USD] | low-high | USD/GPU [currency] | kW [W] | cost/year [USD] |"
    " low-high/year | energy/year [USD] | cost over life [USD] | t CO2e/year [kg]"
)
DRIVERS = "Fabric | Part | of price | total at low [USD] | at high [USD] | swing [USD]"
FRONT = " | fabric | HB size [GPUs] | radix | oversub. | switches"
SERVED = (
    "servers | requests | TTFT [s] | TPOT [s] | tokens/s [1/s] | tokens/s/GPU [1/s] | memory [B]"
    " | binds | GPUs"
)
STAGES = "stages | computes [s] | communicates [s] | waits [s] | idle [s] | utilisation"
LINKS = "links | directions | unused | busiest [s] | waited for [s] | mean"
BUSIEST = "busiest | links | busy [s] | waited for [s] | utilisation"


def two(title: str, *rest: str) -> tuple[str, str, str]:
    """A table of the fabrics that are compared first."""
    return title, rest[0], rest[1] if len(rest) > 1 else "rail-optimized, rail-only"


# Five switches of 128 ports hold 128 / 2 hosts with three tiers: 5 N / 128 of them, 3 N links.
GPUS = 32_768
MAIN_CLOS = {**clos(GPUS, 128, 3), **paper_usd(1280, 128, 196_608),
             **power_w(GPUS, 1280, 128, 196_608), "cost_reduction": 0, "ports_per_gpu": 1,
             "gpu_bytes_per_s": 50e9}  # fmt: skip
MAIN_TIME = {"iteration_time_s": gpt_1t_s(GH200, 16, 8, 256, "16x2x8")}
MAIN: dict[str | int, dict[str, float]] = {
    "rail-optimized": MAIN_CLOS | MAIN_TIME,
    "fat-tree": MAIN_CLOS | MAIN_TIME,
    "dgx-superpod": MAIN_CLOS,
    "dgx-1": MAIN_CLOS,
    "dgx-2": MAIN_CLOS,
    "rail-only": {
        **clos(GPUS, 128, 1), **paper_usd(256, 128, 65_536), **power_w(GPUS, 256, 128, 65_536),
        **MAIN_TIME, "cost_reduction": 0.75,
    },
    # 16 groups of 64 switches with 32 hosts and 30 links to others each; hosts and links inside
    # groups (64 x 63 / 2) are copper, of 0.1 W.
    "dragonfly": {
        "tiers": 1, "switches": 16 * 64, "modules": 16 * 64 * 30,
        "copper_cables": GPUS + 16 * 64 * 63 // 2, **paper_usd(1024, 128, 30_720),
        "cost_reduction": 1 - paper_usd(1024, 128, 30_720)["cost_base"] / 196_083_712,
        "power_w": power_w(GPUS, 1024, 128, 30_720)["power_w"] + 0.1 * 65_024,
    },
    # Four ports of 100G with a module each, of 3.5 W.
    "torus-2d": {"switches": 0, "modules": 4 * GPUS, **paper_usd(0, 0, 0, slow=4 * GPUS),
                 "cost_reduction": 1 - 99 * 4 * GPUS / 196_083_712, "power_w": 3.5 * 4 * GPUS,
                 "ports_per_gpu": 4},
    "torus-3d": {"switches": 0, "modules": 6 * GPUS, "ports_per_gpu": 6},
}  # fmt: skip

# A box of 51.2 Tb/s, a module, fibre of 74.17 + 7.817 L, a card, a rack of 14, laying a cable.
BOX, MODULE, CARD, RACK, LAID = 85_000, 611.95, 1499, 10_200, 87
FIBRE = {metres: 74.17 + 7.817 * metres for metres in (15, 30, 50)}
MAIN_BILL = [
    *(1280 * BOX, 196_608 * MODULE, *(GPUS * usd for usd in FIBRE.values()), GPUS * CARD),
    *(ceil(1280 / 14) * RACK, 3 * GPUS * LAID),
]
RAILS_BILL = [
    *(256 * BOX, 65_536 * MODULE, GPUS * FIBRE[15], GPUS * CARD, ceil(256 / 14) * RACK),
    GPUS * LAID,
]
DISCOUNT = (1 - 1.085**-6) / 0.085


def years(bill: float, watts: float) -> dict[str, float]:
    """Six years at 8.5 %: energy at PUE 1.42, of which 0.42 x 35 / 50.5 cool; upkeep of 13 %."""
    energy = watts / 1e3 * 1.42 * 8760 * 0.0869 * DISCOUNT
    paid = {
        "energy_present_value": energy,
        "cooling_present_value": energy * 0.42 * 35 / 50.5 / 1.42,
    }
    shares = {"maintenance": 0.01, "support": 0.115, "spares": 0.005}
    paid |= {f"{part}_present_value": share * bill * DISCOUNT for part, share in shares.items()}
    return {"capital": bill, **paid, "present_value": bill + energy + 0.13 * bill * DISCOUNT}


def bought(bill: float, watts: float) -> dict[str, float]:
    """Annuity and energy of a year; 0.384 kg CO2e a kWh."""
    kwh = watts / 1e3 * 1.42 * 8760
    return {
        "cost_base": bill,
        "power_w": watts,
        "energy_per_year": kwh * 0.0869,
        "cost_per_year": bill / DISCOUNT + kwh * 0.0869,
        "carbon_kg_per_year": kwh * 0.384,
    }


# 48 switches with half of 2 x 1,024 links and 1,024 hosts on twin modules; 2 % of each to spare.
QM_ORDER = [ceil(1.02 * pieces) for pieces in (48, 3 * 1024 // 2, *[1024] * 4)]
QM_EACH = (50_000, 889, MODULE, FIBRE[15], FIBRE[30], CARD)
QM_BILL = [*(n * usd for n, usd in zip(QM_ORDER, QM_EACH, strict=True)), 3 * RACK, 2048 * LAID]

# An eighth of the layers' weights, 96 x 12 x 12,288^2, on each of seven stages: 2 B of weights and
# of gradients and 12 B of the optimizer's; 24 B move at its update at 64 GB/s. The fullest stage
# has 14 layers.
HELD = 14 * 12 * 12_288**2 / 8 / 1e9


def served(requests: int, output: int, ttft_s: float, tpot_s: float) -> float:
    """Tokens a second by Little's law: a request takes TTFT and then a TPOT a token."""
    return requests * output / (ttft_s + (output - 1) * tpot_s)


CASES = {
    "the paper's job": Case(
        "compare rail-only-paper --gpus 32768 --radix 128",
        [("", POINT, PAPER), ("", TIMED, PAPER)],
        {"fabrics": MAIN},
        {"rail-optimized": 1, "rail-only": 1, "fat-tree": 1, "dgx-superpod": 2, "dgx-1": 3,
         "dgx-2": 3, "dragonfly": 6, "torus-2d": 5, "torus-3d": 5},
    ),
    # 4,096 GPUs a rail, two tiers of them; three of all. A link has two modules or is copper.
    "the shipped servers": Case(
        "compare --gpus 32768 --radix 128",
        [("", NETWORK, HGX), ("", INTERLEAVED, HGX)],
        {"fabrics": {
            "rail-only": {"switches": 8 * 3 * 4096 / 128, "tiers": 2, "links": 2 * GPUS},
            "rail-optimized": {"switches": 1280, "tiers": 3, "links": 3 * GPUS},
            "fat-tree": {"switches": 1280, "tiers": 3, "links": 3 * GPUS},
            "dragonfly": {"switches": 1024, "tiers": 1},
            "torus-2d": {"links": 2 * GPUS}, "torus-3d": {"links": 3 * GPUS},
        }},
        {"rail-only": 7, "rail-optimized": 7, "fat-tree": 7, "dgx-superpod": 8, "dragonfly": 10,
         "torus-2d": 9, "torus-3d": 9},
    ),
    # A cube of 64 chips has 144 copper cables inside and a fibre from each of its 96 faces, with a
    # module on the chip alone; a plane of 16 chips has 4 lines of 4 each way: 24 and 2 x 4 ends.
    "chips that are joined directly": Case(
        "compare tpu-v7",
        [("", NETWORK, "torus-3d, torus-2d *, rail-optimized *, dragonfly *"),
         ("", TIMED + ATTENTION, "torus-3d, torus-2d *, rail-optimized *, dragonfly *")],
        {"fabrics": {
            "torus-3d": {"switches": 0, "modules": 9216 / 64 * 96,
                         "copper_ordered": 9216 / 64 * 144, "nic_ports": 6 * 9216},
            "rail-optimized": {"tiers": 3, "links": 3 * 9216, "modules": 6 * 9216},
        }},
    ),
    # Eight rails of 16, of which four share a switch of 64 ports; a Clos of four leaves and two
    # spines. H200 at 3.25 USD an hour.
    "what tokens cost": Case(
        "compare serving-r1-h200",
        [("", NETWORK, HGX.replace("superpod *", "superpod")),
         ("", ("Fabric | servers | requests | TTFT [s] | TPOT [s] | tokens/s [1/s] | tokens/s/GPU"
              " [1/s] | binds | GPUs | USD/M tokens [currency] | bill/M tokens [currency] |"
              " GPU hours/M tokens [currency]"), HGX.replace("superpod *", "superpod"))],
        {"fabrics": {
            "rail-only": {"switches": 8 * 16 / 64, "tiers": 1, "copper_ordered": 128},
            "rail-optimized": {"switches": 128 / 32 + 2, "tiers": 2, "links": 2 * 128},
            "fat-tree": {"switches": 128 / 32 + 2, "tiers": 2, "links": 2 * 128},
        }},
    ),
    # One server: its cards alone, or a box and eight copper cables beside them.
    "eight GPUs": Case(
        "compare --gpus 8",
        [("", NETWORK, HGX), ("", TIMED, HGX)],
        {"fabrics": {
            "rail-only": {"switches": 0, "cost_base": 8 * CARD, "power_w": 8 * 24.9},
            "fat-tree": {"switches": 1, "copper_ordered": 8, "power_w": 940 + 8 * (24.9 + 0.1)},
            "torus-2d": {"cost_base": 0, "power_w": 0},
        }},
    ),
    # 391 nodes of 8 fill 13 leaves of 32 and more spines; what a full Clos would need by its ports
    # alone is the least.
    "sizes that divide nothing": Case(
        "compare rail-only-paper --gpus 100000 --radix 64 --accelerator h100-80gb --prices 2026",
        [("", NETWORK, PAPER), ("", TIMED, PAPER)],
        {"fabrics": {
            "rail-optimized": {"tiers": 4, "switches_lower_bound": ceil(7 * 100_000 / 64),
                               **power_w(100_000, 11_456, 64, 802_112), "gpus_used": 32 * 43 * 72},
            "rail-only": {"tiers": 3, "switches_lower_bound": ceil(5 * 100_000 / 64),
                          **power_w(100_000, 8112, 64, 604_480)},
            "dragonfly": {"switches": 6750},
            # Two ports of 100G to a link: a module 99, fibre, a card's port, and laying it.
            "torus-2d": {"links": 200_000, "modules": 400_000, "power_w": 3.5 * 400_000},
        }},
    ),
    # 491,520 GB of DDR5 at 7.03 USD; eight rails of 128 on four leaves and two spines each.
    "expanded memory": Case(
        "compare rail-only-paper --gpus 1024 --radix 64 --accelerator h100-80gb --prices 2026"
        " --fabric rail-only --expanded-memory none --expanded-memory comet-480gb",
        [("", NETWORK.replace("Fabric", "Fabric | exp. memory").replace(
            "low-high", "low-high | memory [USD] | run, M USD [USD]"), "rail-only, rail-only"),
         ("", TIMED.replace("Fabric", "Fabric | exp. memory"), "rail-only, rail-only")],
        {"fabrics": {
            0: {"switches": 8 * 6, "modules": 4 * 1024, "memory_cost": 0,
                "iteration_time_s": gpt_1t_s(H100, 8, 64, 2, "8x1x1"),
                "cost_base": 48 * 50_000 + 4096 * MODULE + 1024 * (FIBRE[15] + FIBRE[30] + CARD)
                             + ceil(48 / 38) * RACK + 2048 * LAID},
            1: {"switches": 8 * 6, "memory_cost": 491_520 * 7.03, **power_w(1024, 48, 64, 4096)},
        }},
        {"rail-only": 2},
    ),
    # Error bars of 0.92 to 1.1 times the time.
    "times with error bars": Case(
        "compare rail-only-paper --gpus 1024 --radix 64 --accelerator h100-80gb --model llama-3-70b"
        " --iteration-model calibrated --batch 512 --fabric rail-only --fabric fat-tree"
        " --fabric torus-2d --rule fastest",
        [("", POINT, "rail-only, fat-tree, torus-2d *"),
         ("", INTERLEAVED, "rail-only, fat-tree, torus-2d *")],
        {"fabrics": {
            "rail-only": {**paper_usd(48, 64, 4096), **power_w(1024, 48, 64, 4096)},
            "fat-tree": {**paper_usd(48, 64, 4096), **power_w(1024, 48, 64, 4096)},
            "torus-2d": {**paper_usd(0, 64, 0, slow=4096), "power_w": 3.5 * 4096},
        }},
        {"rail-only": 3, "fat-tree": 3, "torus-2d": 7},
    ),
    "tables on all GPUs": Case(
        "compare rail-only-paper --model dlrm-793b --gpus 128 --radix 64 --hb-size 8",
        [("", POINT.replace("M USD", "k USD"), PAPER),
         ("", TIMED.replace("TPxPPxDP | microbatches", "exchange [s] | of it"), PAPER)],
        {"fabrics": {
            "rail-optimized": {**clos(128, 64, 2), **paper_usd(6, 64, 512),
                               **power_w(128, 6, 64, 512)},
            "rail-only": {**clos(128, 64, 1), **paper_usd(2, 64, 256), "cost_reduction": 0.6},
            "dgx-superpod": {"switches": 12, **paper_usd(12, 64, 768), **power_w(128, 12, 64, 768)},
            "dragonfly": {**paper_usd(4, 64, 0), "copper_cables": 128 + 8 * 4 * 3 // 2},
            "torus-2d": {**paper_usd(0, 0, 0, slow=512), "power_w": 3.5 * 512},
        }},
        {"rail-optimized": 2, "rail-only": 3, "fat-tree": 2, "dgx-superpod": 3, "dgx-1": 3,
         "dgx-2": 5, "dragonfly": 7, "torus-2d": 6, "torus-3d": 6},
    ),
    "a bill": Case(
        "cost rail-only-paper --gpus 32768 --radix 128 --prices 2026",
        [two("", COST), two("Total cost over 6 years, in M USD", YEARS),
         ("rail-optimized: what to order", BILL,
          ("Switch of 128 ports, Transceiver, multimode, 400G, Multimode fibre cable, 15 m, "
          "Multimode fibre cable, 30 m, Multimode fibre cable, 50 m, Network card port, 400G, "
          "Rack of 42 units, Installation of a cable, Total")),
         ("rail-optimized: inside HB domains, not in its price", BILL, (GEAR := (
             "Scale-up switches, HB domains of 256, Scale-up switches, tier 2, HB domains of 256, "
             "Copper backplanes, HB domains of 256, Optical hops, HB domains of 256, Total"))),
         ("rail-only: what to order", BILL,
          ("Switch of 128 ports, Transceiver, multimode, 400G, Multimode fibre cable, 15 m, "
          "Network card port, 400G, Rack of 42 units, Installation of a cable, Total")),
         ("rail-only: inside HB domains, not in its price", BILL, GEAR),
         ("What drives the price: one part at its low and high, in M USD", DRIVERS,
          ", ".join(["rail-optimized"] * 8 + ["rail-only"] * 6))],
        {"fabrics": {"rail-optimized": bought(sum(MAIN_BILL), MAIN_CLOS["power_w"]),
                     "rail-only": bought(sum(RAILS_BILL), MAIN["rail-only"]["power_w"])},
         "years": {"rail-optimized": years(sum(MAIN_BILL), MAIN_CLOS["power_w"]),
                   "rail-only": years(sum(RAILS_BILL), MAIN["rail-only"]["power_w"])},
         "items": {row: {"total_base": total} for row, total in enumerate(MAIN_BILL)},
         # What one part costs less at its low, and how far its high is from that.
         "drivers": {0: {"at_low": sum(MAIN_BILL) - 196_608 * (MODULE - 368.94),
                         "swing": 196_608 * (1156 - 368.94)},
                     1: {"at_low": sum(MAIN_BILL) - 1280 * 5000, "swing": 1280 * 120_000},
                     8: {"at_low": sum(RAILS_BILL) - 65_536 * (MODULE - 368.94)}}},
        {"rail-optimized": 3, "rail-only": 2},
    ),
    "a bill of one switch": Case(
        "cost rail-only-paper --gpus 1024 --radix 64 --accelerator h100-80gb --prices 2026"
        " --switch qm9700 --spares 2%",
        [two("", COST), two("Total cost over 6 years, in M USD", YEARS),
         *((f"{name}: what to order", BILL.replace("Specification | order", "Specification |"
            " part number | order | spares"), ("Switch qm9700, MMA4Z00-NS, twin-port OSFP 2 x 400G"
            " SR4, finned top, MMA4Z00-NS400, OSFP 400G SR4, flat top, Multimode fibre cable, 15 m,"
            " Multimode fibre cable, 30 m, ConnectX-7, 1 x 400G, Rack of 42 units, Installation of"
            " a cable, Total")) for name in ("rail-optimized", "rail-only")),
         ("What drives the price: one part at its low and high, in M USD", DRIVERS,
          ", ".join(["rail-optimized"] * 8 + ["rail-only"] * 8))],
        {"fabrics": {"rail-optimized": {"cost_base": sum(QM_BILL)},
                     "rail-only": {"cost_base": sum(QM_BILL), "cost_per_gpu": sum(QM_BILL) / 1024}},
         "items": {row: {"total_base": total} for row, total in enumerate(QM_BILL)}},
        {"rail-optimized": 3, "rail-only": 3},
    ),
    # Three tiers in the end, 512 + 512 + 256; a rail of 64 ends has its switch from the start.
    # Ports kept free: those of switches less two a link and one a host.
    "a network that grows": Case(
        "grow rail-only-paper --gpus 2048 --gpus 8192 --gpus 16384 --radix 64",
        [("", ("Phase | GPUs | year [years] | switches | new | free | moved | down/up |"
              " M USD [USD] | smallest [USD] | its switches"), "1, 2, 3, 1, 2, 3"),
         ("Free ports by tier", "Phase | GPUs | tier | switches | free",
          "1, 1, 1, 2, 2, 2, 3, 3, 3, 1, 2, 3"),
         ("Three ways to the last phase, in M USD",
          "Plan | orders [USD] | present value [USD] | low-high | left over [USD] | moved",
          ", ".join(["growing, all at once, not planned"] * 2)),
         ("rail-optimized: what to buy for each phase",
          "Item | unit | 2,048 GPUs | 8,192 GPUs | 16,384 GPUs | all",
          ("Switch of 64 ports, Transceiver, multimode, 400G, Multimode fibre cable, 15 m,"
          " Multimode fibre cable, 30 m, Multimode fibre cable, 50 m, Network card port, 400G, Rack"
          " of 42 units")),
         ("rail-only: what to buy for each phase",
          "Item | unit | 2,048 GPUs | 8,192 GPUs | 16,384 GPUs | all",
          ("Switch of 64 ports, Transceiver, multimode, 400G, Multimode fibre cable, 15 m, Network"
          " card port, 400G, Rack of 42 units"))],
        {"phases": {
            0: {"order_cost": paper_usd(310, 64, 2 * (2048 + 2 * 2100))["cost_base"],
                "own_switches": 3 * 2048 / 64,
                "ports_kept_free": 310 * 64 - 2048 - 4 * 2100},
            1: {"switches": 256 + 256 + 256, "ports_kept_free": 256 * 64 / 2},
            2: {"switches": 1280, "ports_kept_free": 0, "own_switches": 1280},
            3: {"switches": 256, "ports_kept_free": 256 * 64 - 2048, "own_switches": 2048 / 64},
            4: {"ports_kept_free": 256 * 64 - 8192, "order_cost": 374 * 2 * 6144},
            5: {"ports_kept_free": 0, "order_cost": 374 * 2 * 8192},
         },
         "ways": {0: {"orders_cost": (everything := 748 * 1280 * 64 + 374 * 6 * 16_384),
                      "cables_moved": 0}, 1: {"orders_cost": everything},
                  3: {"orders_cost": 748 * 256 * 64 + 374 * 2 * 16_384}}},
        {"rail-optimized": 3, "rail-only": 3},
    ),
    # Leaves of 102, 96 and 85 ports down; what a thin network takes longer is less than 0.5 %.
    "the front of money": Case(
        "optimize rail-only-paper --radix 64 --radix 128 --gpus 16384 --accelerator h100-80gb"
        " --hb-size 8 --budget 120e6 --survives-switch --prices 2026",
        [("", f"{FRONT} | M USD [USD] | low-high", "1, 2, 3"),
         ("", f" | {PLAN} | worst switch", "1, 2, 3")],
        {"front": {
            row: {"iteration_time_s": gpt_1t_s(H100, 8, 64, 32, "8x1x1"),
                  "worst_switch_share": 1 / 8, **power_w(16_384, switches, 128, modules),
                  "switches": switches, "oversubscription": ratio}
            for row, (switches, modules, ratio) in enumerate(
                ((208, 41_168, 4), (232, 43_808, 3), (272, 49_568, 2)))
        }},
    ),
    "the front of power": Case(
        "optimize rail-only-paper --radix 64 --radix 128 --gpus 32768 --for power --prices 2026",
        [("", f"{FRONT} | kW [W]", ", ".join(map(str, range(1, 14)))),
         ("", f" | {PLAN}", ", ".join(map(str, range(1, 14))))],
        {"front": {
            0: {"switches": 400, **power_w(GPUS, 400, 128, 82_592), "hb_size": 8,
                "iteration_time_s": gpt_1t_s(HB_8, 16, 128, 16, "8x1x1")},
            # Two tiers a rail of 4,096.
            3: {"switches": 768, **power_w(GPUS, 768, 128, 4 * GPUS), "oversubscription": 1,
                "iteration_time_s": gpt_1t_s(HB_8, 16, 64, 32, "8x1x1")},
            # 64 rails of 512: 16 leaves and 8 spines; 32,768 x 900 GB/s of ASICs in a rack, of
            # 3,600 GB/s and 800 W.
            11: {"switches": 64 * 24, "hb_size": 64,
                 "iteration_time_s": gpt_1t_s(HB_64, 16, 8, 256, "16x1x4")},
            12: {"switches": 512, "hb_size": 1024},
        }},
    ),
    # 262,144 and 491,520 GB; 128 ends a rail fill a switch.
    "the front of memories": Case(
        "optimize rail-only-paper --radix 64 --radix 128 --gpus 1024 --accelerator h100-80gb"
        " --hb-size 8 --prices 2026 --expanded-memory none --expanded-memory comet-480gb"
        " --expanded-memory cxl-256gb",
        [("", f"{FRONT} | M USD [USD] | low-high".replace("| HB", "| exp. memory | HB"), "1, 2, 3"),
         ("", f" | {PLAN}", "1, 2, 3")],
        {"front": {
            0: {"switches": 8, "iteration_time_s": gpt_1t_s(H100, 8, 64, 2, "8x1x1"),
                "cost_base": (bare := 8 * BOX + 2048 * MODULE + 1024 * (FIBRE[15] + CARD + LAID)
                              + RACK), **power_w(1024, 8, 128, 2048)},
            1: {"cost_base": bare + 262_144 * 7.03}, 2: {"cost_base": bare + 491_520 * 7.03},
        }},
    ),
    "what lies in which memory": Case(
        "search rail-only-paper --gpus 64 --accelerator b200 --model gpt-175b --top 1"
        " --set=accelerator.memory_bytes=30e9 --set=accelerator.expanded_bytes=96e9"
        " --set=accelerator.expanded_bytes_per_s=64e9 --explain memory",
        [("", "plan | " + PLAN.replace("TPxPPxDP", "TPxPPxDP | inside HB"), "1"),
         ("Memories of a GPU under plan 1", ("tier | capacity [B] | held [B] | left [B] |"
          " bandwidth [B/s] | latency [s]"), "local, expanded"),
         ("What lies in them, and what that costs an iteration", ("part | local [B] | expanded [B]"
          " | moved there [B] | costs [s]"),
          "weights, gradients, optimizer, activations, buffers, all parts")],
        {"memory_parts": {
            "weights": {"local_bytes": 2e9 * HELD, "expanded_bytes": 0},
            "optimizer": {"local_bytes": 0, "expanded_bytes": 12e9 * HELD,
                          "tier_moved_bytes": 24e9 * HELD},
            "buffers": {"spill_cost_s": 0}},
         "memory_tiers": {"local": {"held_bytes": 30e9, "left_bytes": 0},
                          "expanded": {"capacity_bytes": 96e9, "tier_bytes_per_s": 64e9}},
         "plans": {0: {"gpus_used": 56, "breakdown_s.update": 24e9 * HELD / 64e9,
                       "memory_bytes": 16e9 * HELD + 17.98e9}}},
    ),
    "servers": Case(
        "serving serving-70b-h200 --model llama-3-8b --accelerator h100-80gb --gpus 8 --prompt 512"
        " --output 64 --concurrency 32",
        [("", f"plan | {SERVED}", "1, 2, 3, 4"),
         ("The front: no plan is faster a token and gives more tokens a second",
          f"point | {SERVED}", "1")],
        # Weights of 8.03 G in two bytes over the GPUs of a copy of attention.
        {"plans": {3: {"tokens_per_s": served(32, 64, 0.08518, 0.007283), "gpus_used": 8,
                       "tokens_per_s_per_gpu": served(32, 64, 0.08518, 0.007283) / 8},
                   0: {"tokens_per_s": served(32, 64, 0.07912, 0.0048335)}}},
    ),
    "servers in two pools": Case(
        "serving serving-70b-h200 --model gpt-oss-20b --accelerator b200 --gpus 16 --prompt 1024"
        " --output 128 --precision fp4 --disaggregated --ttft-ms 400 --tpot-ms 10 --top 2",
        [("", f"plan | {SERVED}", "1, 2"),
         ("The front: no plan is faster a token and gives more tokens a second",
          f"point | {SERVED}", ", ".join(map(str, range(1, 19))))],
        # The pool for prompts is what limits: seven of nine GPUs make less than the others take.
        {"plans": {0: {"gpus_used": 7 + 9, "tokens_per_s_per_gpu": 123_174 / 16},
                   1: {"gpus_used": 8 + 2 * 4, "batch": 398}}},
    ),
    # The oracle has the plan with two stages' replicas in a domain; 2 x 64 directions.
    "an iteration event by event": Case(
        "simulate rail-only-paper --gpus 64 --radix 16 --hb-size 8 --model gpt-22b --batch 64"
        " --fix pipeline=4 --fix tensor=4 --fix microbatch=1 --fabric fat-tree --routing hashed"
        " --seed 3",
        [("Where the time of 4 stages goes", STAGES, "0, 1, 2, 3"),
         ("Links", LINKS, "hb, host, leaf-spine"),
         ("", BUSIEST, ("leaf-4:14 -> spine-2:10, leaf-5:16 -> spine-3:12, spine-1:6 -> leaf-2:12, "
                       "leaf-3:11 -> spine-1:7, spine-0:1 -> leaf-0:9"))],
        {"iteration": {0: {"analytic_time_s": GPT_22B.iteration_s}},
         "stages": {stage: {"compute_s": GPT_22B.comp_s} for stage in range(4)},
         "groups": {"hb": {"directions": 128}, "host": {"directions": 128, "waited_s": 0},
                    "leaf-spine": {"directions": 128}}},
    ),
    # PALM prints 8.437 samples a second; 40 links a tile of 4 x 4 each way, 16 borders.
    "a wafer as published": Case(
        "simulate rail-only-paper --mode published-code --gpus 320 --fabric palm-wafer"
        " --accelerator palm-wafer-core --model t-18b --fix tensor=8 --fix data=2"
        " --fix pipeline=20",
        [("Where the time of 20 stages goes", STAGES,
          "0-2, 3, 4-6, 7, 8-10, 11, 12-14, 15, 16, 17, 18, 19"),
         ("Links", LINKS, "ring 1 tile, ring 1 border, ring 2 tile, ring 2 border, memory"),
         ("", BUSIEST, ("gpu-4 -> row-0/tile-0/memory-0, gpu-7 -> row-0/tile-0/memory-1, gpu-8 ->"
          " row-0/tile-0/memory-2, gpu-11 -> row-0/tile-0/memory-3, gpu-20 ->"
          " row-0/tile-1/memory-0"))],
        {"iteration": {0: {"sequences_per_s": 8.437, "iteration_time_s": 21 * 51 / 8.437}},
         "groups": {"ring 1 tile": {"directions": 20 * 4 * 3 * 2},
                    "ring 2 tile": {"directions": 20 * 4 * 3 * 2},
                    "ring 1 border": {"directions": 4 * 4 * 4 * 2},
                    "ring 2 border": {"directions": 3 * 5 * 4 * 2},
                    "memory": {"directions": 20 * 4 * 2}}},
    ),
    "a transform": Case(
        "traffic rail-only-paper --model fft-1t --gpus 1024 --accelerator b200",
        [("", "kind | bytes [B] | of all bytes | pairs | of all pairs | bytes a pair [B]",
          "tensor")],
        # 2^40 points of 8 B, twice: 7/8 inside domains of 8, then 127/128 between them.
        {"kinds": {"tensor": {
            "total_bytes": (sent := 2 * 8 * 2**40 * (7 / 8 + 127 / 128)), "bytes_share": 1,
            "pairs": (pairs := 1024 * (7 + 127)), "pairs_share": pairs / (1024 * 1023),
            "pair_bytes": sent / pairs}},
         # 32 GPUs are four domains: 7/8 inside them, and 3/128 of each rail.
         "heat_map": {0: {"total_bytes": 2 * 8 * 2**40 / 32 * (7 / 8 + 3 / 128)},
                      1: {"total_bytes": 2 * 8 * 2**40 / 32 * 4 / 128}}},
    ),
}  # fmt: skip


QUICK = {
    *("a bill", "a bill of one switch", "tables on all GPUs", "a transform", "servers"),
    *("what lies in which memory", "times with error bars"),
}
"""Cases that stand in every run."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in CASES],
)
def test_tables_and_numbers(name: str) -> None:
    case = CASES[name]
    done, answer = asked(*case.words.split(), "--details")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == answer.text(80, details=True)
    assert schema_of(answer.sections()) == case.schema
    check_layout(answer)
    check_values(answer, case.numbers)
    notes = {row["fabric"]: len(row["notes"]) for row in answer.to_dict().get("fabrics", ())}
    assert case.notes in (None, notes)


def check_values(answer: Answer, numbers: Numbers) -> None:
    """Numbers of rows, by the row's first cell or its place."""
    tables = {table.name: table.records() for table in data_tables(answer.sections())}
    for name, rows in numbers.items():
        records = tables[name]
        for row, values in rows.items():
            record = records[row] if isinstance(row, int) else next(
                record for record in records if row == next(iter(record.values())))  # fmt: skip
            shown = {key: record[key] for key in values}
            assert shown == pytest.approx({**values}, rel=5e-3), (name, row)
