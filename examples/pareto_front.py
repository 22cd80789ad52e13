"""Find the designs worth a second look: the Pareto front of price against speed.

Open it as a notebook (cells begin with ``# %%``), or run ``python examples/pareto_front.py``.
"""

# %% All fabrics, radices and oversubscriptions for 4,096 GPUs in domains of 8 or 16: the front.
import netplan

question = {"gpus": 4096, "accelerator": "h100-80gb", "model": "gpt-175b", "batch": 2048}
answer = netplan.optimize("rail-only-paper", **question, hb_sizes=[8, 16], radices=(64, 128))
columns = ["fabric", "radix", "oversubscription", "cost_base", "iteration_time_s"]
front = answer.to_frame().reset_index()
print(front[[name for name in columns if name in front]])

# %% How the front was proven: every design counted, and searched unless a bound ruled it out.
print(answer.to_dict()["space"])

# %% What a tolerance of one failed switch costs: the same question with that constraint.
safe = netplan.optimize(
    "rail-only-paper", **question, hb_sizes=[8, 16], survives_switch=True, radices=(64, 128)
)
cheapest = [found.to_frame()["cost_base"].iloc[0] for found in (answer, safe)]
print(f"cheapest design {cheapest[0]:,.0f} USD, {cheapest[1]:,.0f} USD if it survives a switch")
