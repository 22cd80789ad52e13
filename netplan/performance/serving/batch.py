"""A server's batch under requests as they come: simulated step by step, exact, from a seed.

Requests are served in the order of their arrivals. A step first gives one token to every request
that decodes, out of a budget of so many tokens (``chunk``), then takes prompt tokens with what is
left; a request is admitted while a slot (room in the cache) is free, keeps it to its end, and has
its first token when the step ends that takes the last of its prompt. A step with n requests that
decode and m prompt tokens takes d(n) + c m. Of D copies of attention that share experts each has
requests, slots and a budget of its own: request i goes to copy i mod D, and all of them wait for
the slowest one of each step.

Steps in which nothing changes are not walked through: their ends are the running sum of equal
times, which numpy adds in the order of the loop, so that results are those of the loop to the last
digit. What is left out: preemption, caches that are recomputed, host processes that fall behind.

Little's law: the integral of requests in the system over time is the sum of their times in it.
"""

from collections import deque
from heapq import heappop, heappush

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.performance.serving.arrivals import RequestStream
from netplan.progress import share_done

SHORT = 24
"""Equal steps up to which a loop is faster than an array [1]."""
TOLD = 4096
"""Steps between two words on how far a simulation is [1]."""
PERCENTILES = (50, 95, 99)
"""What of a distribution is told besides its mean [%]."""


class BatchServer(Struct, frozen=True, eq=False):
    """How long the steps of a server take, and how many requests have room.

    Parameters
    ----------
    decode_s
        Time of a step with 0, 1, 2, ... requests of a copy that decode, d(n), rising; beyond the
        last one as of the last [s].
    prompt_token_s
        What each prompt token adds to a step, c [s].
    slots
        Requests of a copy at most [1].
    chunk
        Tokens of a step and copy at most, of prompts and decode together [1].
    copies
        Copies of attention that step together, D [1].
    tokens
        Tokens that a request gets of a step; more than 1 with speculation [1].
    """

    decode_s: Floats
    prompt_token_s: float
    slots: int
    chunk: int
    copies: int = 1
    tokens: float = 1.0

    @classmethod
    def linear(
        cls,
        step_s: float,
        request_s: float,
        prompt_token_s: float,
        *,
        slots: int,
        chunk: int,
        copies: int = 1,
    ) -> "BatchServer":
        """Steps of a + b n + c m.

        Parameters
        ----------
        step_s, request_s, prompt_token_s
            a, b and c [s].
        slots, chunk, copies
            As of the class [1].

        Returns
        -------
        BatchServer
            Its times at 0 to ``chunk`` requests, or as many as there are slots.

        Examples
        --------
        >>> BatchServer.linear(0.012, 2e-5, 1e-5, slots=2, chunk=8192).decode_s
        array([0.012  , 0.01202, 0.01204])
        """
        requests = np.arange(min(slots, chunk) + 1, dtype=np.float64)
        times_s: Floats = step_s + request_s * requests
        return cls(times_s, prompt_token_s, slots, chunk, copies)


class BatchOutcome(Struct, frozen=True, eq=False):
    """What became of every request, shape (requests,), in the order in which they are ready.

    Parameters
    ----------
    arrival_s, first_s, last_s
        When it came, had its first token, and its last [s].
    output
        Tokens of its answer [1].
    full_s
        How long somebody waited for a slot or for the next step's budget, of all copies in the mean
        [s].
    steps
        Steps that were run [1].
    """

    arrival_s: Floats
    first_s: Floats
    last_s: Floats
    output: Ints
    full_s: float
    steps: int

    @property
    def ttft_s(self) -> Floats:
        """Time to the first token [s]."""
        return self.first_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """Time of each token behind the first; 0 where there is none [s]."""
        return np.asarray((self.last_s - self.first_s) / np.maximum(self.output - 1, 1))

    @property
    def sojourn_s(self) -> Floats:
        """Time in the system [s]."""
        return self.last_s - self.arrival_s

    @property
    def span_s(self) -> float:
        """From the first arrival to the last token [s]."""
        return float(self.last_s.max() - self.arrival_s.min())

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all answers over the span [1/s]."""
        return float(self.output.sum() / self.span_s)

    @property
    def in_system(self) -> float:
        """Requests in the system, the mean over time: the integral of their number [1]."""
        when_s = np.concatenate([self.arrival_s, self.last_s])
        change = np.repeat([1, -1], len(self.arrival_s))
        order = np.argsort(when_s, kind="stable")
        present = np.cumsum(change[order])[:-1]
        return float((present * np.diff(when_s[order])).sum() / self.span_s)

    @property
    def little(self) -> float:
        """Requests in the system by Little's law: their rate times the mean time in it [1]."""
        return float(len(self.arrival_s) / self.span_s * self.sojourn_s.mean())


class TimeSpread(Struct, frozen=True):
    """A time of many requests: its mean, and what so many per cent of them stay below [s].

    Examples
    --------
    >>> TimeSpread.of(np.array([1.0, 2.0, 3.0]))
    TimeSpread(mean=2.0, p50=2.0, p95=2.9, p99=2.98)
    """

    mean: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, times_s: Floats) -> "TimeSpread":
        """That of some times."""
        return cls(float(times_s.mean()), *np.percentile(times_s, PERCENTILES).tolist())


def simulate_batch(stream: RequestStream, server: BatchServer) -> BatchOutcome:
    """Simulate a server to the last token of its last request (rules of this module).

    Parameters
    ----------
    stream
        Requests in the order of their arrivals.
    server
        Times and room.

    Returns
    -------
    BatchOutcome
        First and last token of each request.

    Raises
    ------
    InputError
        If nothing can be served: no slot, or no token in a step.

    Examples
    --------
    Two requests of a 100-token prompt and 3 tokens: the second comes while the first decodes, and
    its prompt makes the step longer that both share.

    >>> stream = RequestStream.of(np.array([0.0, 0.15]), prompt=100, output=3)
    >>> server = BatchServer.linear(0.01, 0.0, 0.001, slots=8, chunk=512)
    >>> outcome = simulate_batch(stream, server)
    >>> outcome.ttft_s.round(6), outcome.tpot_s.round(6)
    (array([0.11, 0.11]), array([0.01, 0.01]))
    """
    if server.slots < 1 or server.chunk < 1 or server.copies < 1:
        raise InputError(
            f"a batch of {server.slots:,} slots, {server.chunk:,} tokens a step and"
            f" {server.copies:,} copies serves nothing: each is 1 at least"
        )
    run = _BatchRun(stream, server)
    tell = share_done("requests simulated")
    while run.ended < run.requests:
        for _ in range(TOLD):
            run.advance()
            if run.ended == run.requests:
                break
        tell(run.ended, run.requests)
    return BatchOutcome(
        arrival_s=stream.arrival_s,
        first_s=np.array(run.first),
        last_s=np.array(run.last),
        output=stream.output,
        full_s=run.full / server.copies,
        steps=run.steps,
    )


class _BatchRun:
    """A simulation under way; lists and plain numbers, which a loop reads faster than arrays."""

    def __init__(self, stream: RequestStream, server: BatchServer) -> None:
        self.requests, self.copies = len(stream.arrival_s), server.copies
        self.times, self.left = stream.arrival_s.tolist(), stream.prompt.tolist()
        # Steps behind the one that gives the first token.
        self.more = np.ceil((stream.output - 1) / server.tokens).astype(np.int64).tolist()
        self.times_s: list[float] = server.decode_s.tolist()
        self.token_s = server.prompt_token_s
        self.slots, self.chunk = server.slots, server.chunk
        self.first, self.last = [0.0] * self.requests, [0.0] * self.requests
        self.now, self.steps, self.ended, self.full = 0.0, 0, 0, 0.0
        self.next = 0  # the next one to come
        self.queues: list[deque[int]] = [deque() for _ in range(self.copies)]
        self.begun: list[int] = [-1] * self.copies  # whose prompt is taken in parts
        self.decoding = [0] * self.copies
        self.sizes = [self.copies] + [0] * min(server.slots, self.requests)  # copies by decoding
        self.most = 0  # the largest of them
        self.waiting: dict[int, None] = {}  # copies with prompts, in the order of their arrival
        self.blocked: set[int] = set()  # copies with prompts and no room
        self.ends: list[tuple[int, int]] = []  # steps that give last tokens, to whom

    def advance(self) -> None:
        """One step, or as many as are alike."""
        if not (self.ends or self.waiting):
            self.now = max(self.now, self.times[self.next])
        while self.next < self.requests and self.times[self.next] <= self.now:
            copy = self.next % self.copies
            self.queues[copy].append(self.next)
            if copy not in self.blocked:
                self.waiting[copy] = None
            self.next += 1
        began = self.now
        if self.waiting:
            self._take_prompts()
        else:
            self._decode()
        if self.waiting or self.blocked:
            self.full += (self.now - began) * (len(self.waiting) + len(self.blocked))
        while self.ends and self.ends[0][0] == self.steps:
            self._end(heappop(self.ends)[1])

    def _end(self, request: int) -> None:
        """The last token of a request, whose slot is free."""
        self.last[request] = self.now
        self.ended += 1
        copy = request % self.copies
        self._resize(copy, -1)
        if copy in self.blocked:
            self.blocked.remove(copy)
            self.waiting[copy] = None

    def _resize(self, copy: int, change: int) -> None:
        """So many more of a copy's requests decode."""
        held = self.decoding[copy]
        self.sizes[held] -= 1
        held += change
        self.sizes[held] += 1
        self.decoding[copy] = held
        self.most = max(self.most, held)
        while not self.sizes[self.most]:
            self.most -= 1

    def _take_prompts(self) -> None:
        """A step with prompts of some copies."""
        longest = self._decode_s(self.most) if self.ends else 0.0
        prompts_ended: list[int] = []
        for copy in list(self.waiting):
            tokens = self._fill(copy, prompts_ended)
            step = self._decode_s(self.decoding[copy]) + self.token_s * tokens
            longest = max(longest, step)
        self.now += longest
        self.steps += 1
        for request in prompts_ended:
            self.first[request] = self.now
            if self.more[request]:
                heappush(self.ends, (self.steps + self.more[request], request))
                self._resize(request % self.copies, 1)
            else:
                self.last[request] = self.now
                self.ended += 1
                copy = request % self.copies
                if copy in self.blocked:
                    self.blocked.remove(copy)
                    self.waiting[copy] = None

    def _decode_s(self, requests: int) -> float:
        """A step of so many requests of a copy [s]."""
        return self.times_s[min(requests, len(self.times_s) - 1)]

    def _fill(self, copy: int, prompts_ended: list[int]) -> int:
        """Prompt tokens of a copy in this step; who is done with them."""
        queue, held = self.queues[copy], self.decoding[copy]
        budget, tokens, request = self.chunk - held, 0, self.begun[copy]
        while budget > 0:
            if request < 0:
                if not queue or held >= self.slots:
                    break
                request = queue.popleft()
            taken = min(budget, self.left[request])
            self.left[request] -= taken
            budget -= taken
            tokens += taken
            if not self.left[request]:
                prompts_ended.append(request)
                held, request = held + 1, -1
        self.begun[copy] = request
        if request < 0:
            if not queue:
                del self.waiting[copy]
            elif held >= self.slots or self.decoding[copy] >= self.chunk:
                del self.waiting[copy]
                self.blocked.add(copy)
        return tokens

    def _decode(self) -> None:
        """Steps without prompts until one ends somebody, or somebody comes."""
        step, count = self._decode_s(self.most), self.ends[0][0] - self.steps
        comes = self.times[self.next] if self.next < self.requests else np.inf
        if count <= SHORT:
            now = self.now
            for number in range(1, count + 1):
                now += step
                if now >= comes:
                    count = number
                    break
            self.now = now
        else:
            if comes < np.inf and step > 0:
                count = min(count, int((comes - self.now) / step) + 2)
            ends = np.full(count + 1, step)
            ends[0] = self.now
            ends = np.add.accumulate(ends)
            count = min(count, int(np.searchsorted(ends[1:], comes)) + 1)
            self.now = float(ends[count])
        self.steps += count
