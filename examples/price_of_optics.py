"""Find the price of optics at which the ranking of fabrics turns.

Open it as a notebook (cells begin with ``# %%``), or run ``python examples/price_of_optics.py``.
"""

# %% The shipped study: five fabrics at 25 prices of a 400G transceiver.
import netplan

PRICE = "prices.prices.transceiver@400.base"
frame = netplan.study("price-flip").to_frame()
million_usd = frame.pivot_table(index=PRICE, columns="fabric", values="capital.base") / 1e6
print(million_usd.round(0))

# %% The cheapest fabric at each price.
cheapest = million_usd.idxmin(axis=1)
print(cheapest)

# %% Where it changes, to a few dollars: the same study over a finer range, those two fabrics only.
before = cheapest.shift(1).fillna(cheapest)
for price in cheapest.index[cheapest != before]:
    low = cheapest.index[cheapest.index < price][-1]
    pair = [before[price], cheapest[price]]
    fine = [low + (price - low) * step / 50 for step in range(51)]
    closer = netplan.study("price-flip", vary={PRICE: fine, "fabric": pair}).to_frame()
    best = closer.pivot_table(index=PRICE, columns="fabric", values="capital.base").idxmin(axis=1)
    turn = best.index[best == pair[1]][0]
    print(f"{pair[0]} is cheapest below {turn:,.0f} USD a transceiver, {pair[1]} above")

# %% A cluster of your own, said once: how much of its network's price the optics are.
scenario = netplan.Scenario.load("hgx-b200").replace(gpus=16_384)
for name in ("rail-only", "rail-optimized", "dragonfly"):
    bill = scenario.fabric(name).bill()
    share = bill.cost_of("transceivers").base / bill.total.base
    print(f"{name}: {bill.total.base / 1e6:.1f} M USD, {share:.0%} of it transceivers")
