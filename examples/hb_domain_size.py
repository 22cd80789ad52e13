"""How large must the HB domain be? The shipped study, and one of your own, in a notebook.

Open it as a notebook (cells begin with ``# %%``), or run it: ``python examples/hb_domain_size.py``.
"""

# %% The study of the rail-only paper's Fig. 9: two models, three clusters, domains of 1 to all.
import netplan

answer = netplan.study("hb-size-paper")
frame = answer.to_frame()
print(frame.head())

# %% Iteration time over the domain size, one column a cluster.
curves = frame[frame["model"] == "gpt-1t"].pivot_table(
    index="hb_size", columns="gpus", values="iteration_time_s"
)
print(curves.round(2))

# %% From which size on is a larger domain worth less than 1 %?
gain = 1 - curves / curves.shift(1)
enough = {gpus: int(column.index[(column < 0.01)][0]) for gpus, column in gain.items()}
print("a larger domain gains less than 1 % from", enough)

# %% What the paper prints, and the honest gap.
for value in answer.published:
    print(f"{value.name}: paper {value.published}, netplan {value.netplan:.1f} {value.unit}")

# %% Your own cluster and model, said once: the same study about them.
scenario = netplan.Scenario.load("hgx-b200").replace(gpus=16_384)
sizes = [8, 72, 256]
mine = netplan.study("hb-size-paper", scenario, vary={"hb_size": sizes}).to_frame()
print(mine.set_index("hb_size")[["iteration_time_s", "mfu", "plan"]])

# %% What rail-only costs for each: larger domains have more, smaller rails, and so fewer tiers.
for hb_size in sizes:
    fabric = scenario.replace(hb_size=hb_size).fabric("rail-only")
    bill = fabric.bill()
    network = bill.networks.base / 1e6
    gear = f"{bill.gear / 1e6:.0f} M USD" if bill.geared else "no price"
    print(f"HB {hb_size}: {fabric.tiers} tiers, {network:.0f} M USD; gear in the domains: {gear}")
