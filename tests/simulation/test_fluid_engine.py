"""Iterations whose messages share links: closed forms, a plain event loop, repeats, commands."""

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.questions.simulate import simulate
from netplan.records import replace
from netplan.simulation.engine import FluidEngine, Mark
from netplan.simulation.run import simulate_pipelines
from netplan.simulation.tasks import Burst, Message, Pass, Pipeline, delay
from tests.oracles.fluid import Sent, deliver


class Ended:
    """Keeps when it goes on."""

    def __init__(self, engine: FluidEngine) -> None:
        self.engine, self.at_s = engine, -1.0

    def mark(self) -> Mark:
        return ()

    def go_on(self) -> None:
        self.at_s = self.engine.now


class Starts(Ended):
    """Sends a message when it goes on, and keeps when that ends."""

    def __init__(self, engine: FluidEngine, message: Message) -> None:
        super().__init__(engine)
        self.message, self.end = message, Ended(engine)

    def go_on(self) -> None:
        self.engine.send(Burst((self.message,)), self.end)


def message(
    busy_s: dict[int, float], latency_s: float = 0.0, least_s: float = 0.0, weight: float = 1.0
) -> Message:
    carried_s = max(*busy_s.values(), least_s)
    seconds = carried_s + latency_s
    return Message(tuple(busy_s), seconds, tuple(busy_s.values()), carried_s, weight)


def ends(sent: list[tuple[float, Message]], links: int = 4) -> list[float]:
    engine = FluidEngine(links)
    actors = [Starts(engine, one) for _, one in sent]
    for (start_s, _), actor in zip(sent, actors, strict=True):
        engine.schedule(start_s, actor)
    while engine.step():
        pass
    return [actor.end.at_s for actor in actors]


def test_a_message_alone_takes_what_it_takes_alone() -> None:
    """2 s on its slowest link, and 0.5 s of latency."""
    assert ends([(1.0, message({0: 2.0, 1: 1.0}, 0.5))]) == [3.5]


def test_a_link_that_is_left_out_limits_the_rate() -> None:
    """Of two messages one has half of a link that is left out: it leaves 3/4 to the other.

    The first needs link 0 for 1 s and another one for 4 s: rate 1/4. The second has 3/4 of link 0,
    and ends after 2 / 0.75 s.
    """
    found = ends([(0.0, message({0: 1.0}, least_s=4.0)), (0.0, message({0: 2.0}))])
    assert found == pytest.approx([4.0, 2.0 / 0.75])


def test_pairs_have_equal_rates_and_jobs_their_weights() -> None:
    """20 and 10 MB over one link at 10 MB/s: both have half of it until the small one has gone.

    With weights 3 and 1 two messages of 10 MB have 3/4 and 1/4 of it: the first ends after 4/3 s,
    the other one has 2/3 of its bytes left for all of the link.
    """
    sizes = [(0.0, message({0: size / 10}, weight=1 / size)) for size in (20.0, 10.0)]
    assert ends(sizes) == pytest.approx([3.0, 2.0])
    jobs = [(0.0, message({0: 1.0}, weight=weight / 10.0)) for weight in (3.0, 1.0)]
    assert ends(jobs) == pytest.approx([4 / 3, 2.0])


def test_who_waits_for_a_burst_waits_for_its_last_message() -> None:
    engine = FluidEngine(2)
    last = Ended(engine)
    engine.send(Burst((message({0: 1.0}), message({0: 1.0}, 3.0), message({1: 0.5}))), last)
    while engine.step():
        pass
    assert last.at_s == pytest.approx(2.0 + 3.0)
    assert engine.tally.bookings == 3
    assert engine.tally.waited_s == pytest.approx({0: 2.0})  # both take 1 s longer


@st.composite
def sent_messages(draw: st.DrawFn) -> list[tuple[float, Message]]:
    amount = st.sampled_from([0.25, 0.5, 1.0, 2.0]) | st.floats(0.05, 3.0)
    sent = []
    for _ in range(draw(st.integers(1, 9))):
        links = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
        busy_s = {link: draw(amount) for link in links}
        times = draw(st.sampled_from([0.0, 0.0, 0.5, 1.7])), draw(st.sampled_from([0.0, 0.3]))
        least_s, weight = draw(st.sampled_from([0.0, 2.5])), draw(st.sampled_from([1.0, 3.0, 1e-9]))
        sent.append((times[0], message(busy_s, times[1], least_s, weight)))
    return sent


def plain_of(start_s: float, one: Message, after: tuple[int, ...] = ()) -> Sent:
    """The same of the oracle."""
    return Sent(
        1.0,
        start_s,
        after,
        list(zip(one.links, one.busy_s, strict=True)),
        weight=one.weight,
        limit=1 / one.carried_s if one.carried_s else inf,
        latency=one.seconds - one.carried_s,
    )


@given(sent_messages())
@settings(max_examples=150, deadline=None)
def test_messages_end_as_in_a_plain_event_loop(sent: list[tuple[float, Message]]) -> None:
    plain = deliver([1.0] * 4, [plain_of(start_s, one) for start_s, one in sent])
    assert ends(sent) == pytest.approx(plain, rel=1e-8)


@given(sent_messages(), st.data())
@settings(max_examples=60, deadline=None)
def test_messages_of_a_burst_follow_each_other(
    sent: list[tuple[float, Message]], data: st.DataObject
) -> None:
    """Steps of a collective: a burst ends with the last of messages that wait for others."""
    after = tuple(
        tuple(data.draw(st.sets(st.integers(0, place - 1), max_size=2))) if place else ()
        for place in range(len(sent))
    )
    engine = FluidEngine(4)
    last = Ended(engine)
    engine.send(Burst(tuple(one for _, one in sent), after), last)
    while engine.step():
        pass
    plain = deliver(
        [1.0] * 4, [plain_of(0.0, one, waits) for (_, one), waits in zip(sent, after, strict=True)]
    )
    assert last.at_s == pytest.approx(max(plain), rel=1e-8)


def chains(microbatches: int) -> list[Pipeline]:
    """Two chains of three stages that hand on over one link."""
    forward = (Pass(delay(1.0)),) * 3
    backward = (Pass(delay(2.0)),) * 3
    hand = ((Burst((message({0: 0.8}, 0.1),)),),)
    return [
        Pipeline(3, microbatches, forward, backward, send_forward=hand * 2, send_backward=hand * 2)
        for _ in range(2)
    ]


def test_a_run_that_repeats_itself_is_counted_on() -> None:
    """Messages there and back share a link, so that they take longer than booked ones here."""
    chain = chains(60)[:1]
    whole = simulate_pipelines(chain, links=1, link_sharing="fluid", full=True)
    short = simulate_pipelines(chain, links=1, link_sharing="fluid")
    assert short.period is not None
    assert short.pipelines[0].simulated < 60
    assert short.iteration_time_s == pytest.approx(whole.iteration_time_s, rel=1e-9)
    assert whole.iteration_time_s > simulate_pipelines(chain, links=1).iteration_time_s
    assert short.tally.bookings == whole.tally.bookings == 4 * 60


def test_two_chains_on_one_link_take_longer_than_one() -> None:
    one, two = (
        simulate_pipelines(chains(20)[:count], links=1, link_sharing="fluid").iteration_time_s
        for count in (1, 2)
    )
    assert two > one


def test_nothing_shared_is_the_booked_time() -> None:
    """Every hop has a link of its own, there and back, and a pass takes longer than a message."""
    chain = replace(
        chains(24)[0],
        send_forward=tuple((Burst((message({hop: 0.8}, 0.1),)),) for hop in (0, 1)),
        send_backward=tuple((Burst((message({hop: 0.8}, 0.1),)),) for hop in (2, 3)),
    )
    booked, fluid = (
        simulate_pipelines([chain], links=4, link_sharing=how, full=True)
        for how in ("booked", "fluid")
    )
    assert not booked.tally.waited_s
    assert fluid.iteration_time_s == pytest.approx(booked.iteration_time_s, rel=1e-9)
    small = {"gpus": 64, "model": "gpt-22b", "batch": 64, "hb_size": 8, "contention": False}
    apart = [
        simulate("rail-only-paper", **small, sharing=sharing).found.iteration_time_s
        for sharing in ("booked", "fluid")
    ]
    assert apart[0] == apart[1]


def test_the_answer_says_what_sharing_costs() -> None:
    given = {"gpus": 128, "model": "gpt-22b", "batch": 128, "fabric": "fat-tree", "radix": 16}
    answer = simulate("hgx-h100", **given, routing="hashed", sharing="fluid")
    plain = answer.to_dict()
    assert plain["sharing"] == plain["inputs"]["sharing"] == "fluid"
    assert plain["times_s"] == [plain["iteration_time_s"]]
    assert plain["slowdown_p50"] == plain["times_s"][0] / plain["uncontended_time_s"] >= 1
    assert plain["time_high_s"] == pytest.approx(1.14 * plain["time_low_s"])
    assert "Without contention it is" in str(answer) or plain["slowdown_p50"] == 1
    booked = simulate("hgx-h100", **given, routing="hashed").to_dict()
    assert "sharing" not in booked
    assert "sharing" not in booked["inputs"]


def test_links_that_are_booked_have_no_classes() -> None:
    with pytest.raises(InputError, match="--check-classes means nothing for links that are booked"):
        simulate("hgx-h100", gpus=64, check_classes=True)


def test_the_published_mode_books() -> None:
    with pytest.raises(InputError, match="--sharing fluid means nothing for the published mode"):
        simulate("palm-paper", sharing="fluid")
