"""How large must the HB domain be? The shipped study, and one of your own, in a notebook.

Open it as a notebook (cells begin with ``# %%``), or run it: ``python examples/hb_domain_size.py``.
"""

# %% The study of the rail-only paper's Fig. 9: two models, three clusters, domains of 1 to all.
import netplan

answer = netplan.study("hb-size")
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

# %% Your own cluster: the same study with other values.
mine = netplan.study("hb-size", vary={"gpus": 131_072, "hb_size": [8, 64, 512]})
print(mine.to_frame()[["model", "hb_size", "iteration_time_s", "plan"]])
