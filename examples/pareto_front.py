"""Find the designs worth a second look: the Pareto front of price against speed.

Open it as a notebook (cells begin with ``# %%``), or run ``python examples/pareto_front.py``.
"""

# %% The cluster, and what it trains, said once.
import netplan

scenario = netplan.Scenario.load("hgx-h100").replace(gpus=4096)
radices = (64, 128)

# %% All fabrics, oversubscriptions and two switches for it: the front.
answer = netplan.optimize(scenario, radix=radices)
columns = ["fabric", "radix", "oversubscription", "cost_base", "iteration_time_s"]
front = answer.to_frame().reset_index()
print(front[[name for name in columns if name in front]])

# %% How the front was proven: every design counted, and searched unless a bound ruled it out.
print(answer.to_dict()["space"])

# %% What a tolerance of one failed switch costs: the same question with that constraint.
safe = netplan.optimize(scenario, radix=radices, survives_switch=True)
cheapest, cheapest_safe = (found.to_frame()["cost_base"].iloc[0] for found in (answer, safe))
print(f"cheapest design {cheapest:,.0f} USD, {cheapest_safe:,.0f} USD if it survives a switch")
