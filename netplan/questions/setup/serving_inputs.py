"""What serving asks for: requests, service level, number formats, software; read from catalogs."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.serving.cases import (
    Drafts,
    Software,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.goal import Goal
from netplan.performance.serving.kernel_times import KernelSource
from netplan.performance.serving.outcomes import Requests, ServingCase
from netplan.performance.serving.serving_stack import (
    DATAFLOW_SERVING_STACK,
    DEFAULT_SERVING_STACK,
    SERVING_STACKS,
)
from netplan.performance.serving.speculation import Scheme, check_window
from netplan.questions.question import AnswerT_co, Question, optional, shared
from netplan.questions.setup.inputs import CatalogReader
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.measured_links import Links
from netplan.workloads.models import MODELS, Model
from netplan.workloads.serving_precision import serving_precision

MILLI = 1e-3


class Asked(Struct, frozen=True):
    """What a question about serving asks for besides the cluster."""

    precision: str
    stack: str | None
    batch: int | None
    fixed: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ServingQuestion(Question[AnswerT_co]):
    """Inputs of all questions about serving that training does not have."""

    prompt: int = shared("Tokens of a prompt.", "whole", unit="tokens", low=1)
    output: int = shared("Tokens of an answer.", "whole", unit="tokens", low=1)
    concurrency: int | None = optional(
        "Requests in flight in the whole cluster.",
        "whole",
        low=1,
        otherwise="1 to 8 a server, then four a doubling, to what its memory holds",
    )
    ttft_ms: float | None = optional(
        "Time to first token at most.", "real", unit="ms", low=1e-3, high=1e9
    )
    tpot_ms: float | None = optional(
        "Time per token at most.", "real", unit="ms", low=1e-3, high=1e9
    )
    kv_precision: str | None = optional(
        "Numbers of the KV cache: bf16, fp8, fp4 or int4.",
        metavar="NAME",
        otherwise="fp8 with weights of fp8 or fp4, else bf16",
    )
    kernels: KernelSource | None = optional(
        "How kernels are timed.",
        "choice",
        choices=("measured", "roofline"),
        otherwise="measured; a roofline for dataflow chips",
    )
    disaggregated: bool = optional("Prompts have servers of their own.", "flag", default=False)
    draft: str | None = optional("Model that drafts tokens for speculation.", metavar="NAME")
    window: int | None = optional(
        "Tokens, or levels of a tree, that are drafted a step.", "whole", low=1, high=1000
    )
    acceptance: float | None = optional(
        "Share of drafted tokens that the model accepts, 0 to 1.", "real", low=0, high=1
    )
    speculation: Scheme | None = optional(
        "What is drafted.", "choice", choices=("sequence", "tree"), otherwise="sequence"
    )

    def goal(self, asked: Asked) -> Goal:
        """Requests in flight, and the service level."""
        return Goal(
            concurrency=self.concurrency,
            batch=asked.batch,
            ttft_s=None if self.ttft_ms is None else self.ttft_ms * MILLI,
            tpot_s=None if self.tpot_ms is None else self.tpot_ms * MILLI,
        )

    def case_on(
        self,
        reader: CatalogReader,
        chip: Accelerator,
        model: Model,
        levels: tuple[Level, ...],
        asked: Asked,
    ) -> ServingCase:
        """What is served on levels.

        Raises
        ------
        InputError
            If a request is longer than the model's context, or inputs contradict each other.
        """
        requests = Requests(self.prompt, self.output)
        if model.context_length is not None and requests.tokens > model.context_length:
            raise InputError(
                f"--prompt {self.prompt:,} and --output {self.output:,} are {requests.tokens:,}"
                f" tokens, and the context of {model.name} has {model.context_length:,}: give fewer"
            )
        fused = chip.execution == "fused"
        usual = DATAFLOW_SERVING_STACK if fused else DEFAULT_SERVING_STACK
        stack = reader.load(SERVING_STACKS, asked.stack or usual)
        formats = formats_of(chip, model, asked.precision, self.kv_precision)
        links = Links.of(chip, reader.load)
        software = Software(stack, self.kernels, links, self._drafts(reader, chip, asked))
        return serving_case(chip, model, levels, requests, formats, software)

    def _drafts(self, reader: CatalogReader, chip: Accelerator, asked: Asked) -> Drafts | None:
        """The model that drafts, if one is named."""
        beside = {
            "--window": self.window,
            "--acceptance": self.acceptance,
            "--speculation": self.speculation,
        }
        given = [flag for flag, value in beside.items() if value is not None]
        if self.draft is None:
            if given:
                raise InputError(f"{given[0]} needs a model that drafts: give --draft, too")
            return None
        if self.window is None or self.acceptance is None:
            missing = "--window" if self.window is None else "--acceptance"
            raise InputError(f"--draft {self.draft} needs {missing}: give it, too")
        scheme = self.speculation or "sequence"
        check_window(self.window, scheme)
        model = served_model(reader, self.draft)
        formats = formats_of(chip, model, asked.precision, self.kv_precision)
        return Drafts(model, formats, self.window, self.acceptance, scheme)


def served_model(reader: CatalogReader, name: str) -> Model:
    """The transformer that is served."""
    return reader.load(MODELS, name)


def served_levels(
    chip: Accelerator, gpus: int, hb_size: int | None, network: tuple[Level, ...]
) -> tuple[Level, ...]:
    """Levels that servers lie on: one HB domain where the cluster is no more, else the fabric's."""
    members = hb_size or chip.hb_size
    if gpus <= members or not network:
        return domain_levels(chip.changed(hb_size=members), gpus)
    return network


def serving_notes(chip: Accelerator, model: Model, case: ServingCase, precision: str) -> list[str]:
    """What to know of the numbers."""
    notes = []
    if note := serving_precision(chip, precision).note:
        notes.append(note)
    if case.served.kernels.source == "measured" and not case.served.kernels.fitted:
        notes.append(
            f"No kernels of {chip.name} were measured: medians of other GPUs stand in, and error"
            " bars are wider."
        )
    if case.served.kernels.source == "roofline":
        notes.append(
            "Kernels take the longer of FLOPs at the peak and bytes at the memory's bandwidth, and"
            " collectives rings at the links' rates: nothing of it was measured."
        )
    if model.prediction_layers:
        notes.append(
            f"Layers of {model.name} that predict further tokens are not loaded: give --draft for"
            " speculation."
        )
    left = [one for one in model.left_out if one]
    if left:
        notes.append(f"Left out of {model.name}: {', '.join(left)}.")
    return notes
