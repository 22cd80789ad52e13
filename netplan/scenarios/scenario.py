"""A scenario: cluster, workload and books, said once in a YAML file or by a shipped one's name.

Every question takes one, and its flags or keywords replace single values. An input is called by
the name of its field, wherever it lies: ``gpus``, ``tariff``, ``offload``; with the part in front
where somebody wants to be plain: ``cluster.gpus``. What a scenario says of other things than those
now asked for is left out: what is asked wins. Names in its file each stand for a catalog file, and
one that does not is a fault: a question would find that out, too, but the file knows the line.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar, cast

from msgspec import Struct, structs

from netplan.added import added
from netplan.catalog import SUFFIX, Catalog, Record, RecordT, shipped_root, unknown_name, user_roots
from netplan.documents import Document
from netplan.errors import CatalogError, InputError, NetplanError
from netplan.inputs.choices import AS_PUBLISHED, FOLDERS
from netplan.inputs.option import Option, read_option
from netplan.inputs.readers import UNDATED
from netplan.records import Fault, RecordError
from netplan.scenarios.described import Named, option_of
from netplan.scenarios.inner_parts import Software
from netplan.scenarios.parts import FABRICS, Books, Cluster, Serving, Training
from netplan.scenarios.post_training import PostTraining

if TYPE_CHECKING:
    from netplan.scenarios.planned_fabric import Fabric
    from netplan.topologies.fabric import Sizing
    from netplan.workloads.accelerators import Accelerator
    from netplan.workloads.models import Model

STACKS = {
    "training": ("stack", "traffic/stacks"),
    "serving": ("serving-stack", "traffic/serving-stacks"),
    "post-training": ("stack", "traffic/stacks"),
}
WORDS = frozenset({"none", "all", "accelerators", AS_PUBLISHED})
"""What fields say that is no name of a file."""
YAML = f"*{SUFFIX}"
OF_FILES = frozenset(
    {SUFFIX, ".yml", ".json", ".graphml", ".csv", ".topo", ".ibnetdiscover", ".py"}
)
"""Endings of files; other dots are parts of names."""


class NamingCatalog(Catalog[Any], frozen=True):
    """Scenarios, whose names of other catalog files are looked up with them."""

    def check_names(self, document: Document, roots: Sequence[Path] = ()) -> None:
        """Refuse names that no catalog has.

        Parameters
        ----------
        document
            The file as parsed.
        roots
            Folders of the user's own catalogs.

        Raises
        ------
        CatalogError
            If there are such: each with file, line and the nearest names.

        Examples
        --------
        >>> from netplan.documents import lineless
        >>> from netplan.scenarios.scenario import SCENARIOS
        >>> SCENARIOS.check_names(lineless(Path("mine.yaml"), {"cluster": {"fabric": "slim"}}))
        Traceback (most recent call last):
        netplan.errors.CatalogError: mine.yaml:1: unknown fabric 'slim': did you mean slim-fly?
        """
        faults = []
        folders = [str(root) for root in (*roots, shipped_root())]
        for location, role, folder, name in _named(document.data):
            files = (f"{root}/{folder}/{name}{SUFFIX}" for root in folders)
            if not any(map(os.path.isfile, files)) and not _is_made(role, name):
                known = {path.stem for root in folders for path in Path(root, folder).glob(YAML)}
                if _is_otherwise(folder, name, roots):
                    continue
                where = f"{document.path}:{document.line(location)}"
                faults.append(f"{where}: {unknown_name(role, name, sorted(known))}")
        if faults:
            raise CatalogError(*faults)


def _is_made(role: str, name: str) -> bool:
    """Whether a fabric of the name is made by a function, or added by another package."""
    if role != "fabric":
        return False
    # Only names without a file have to be looked for there.
    from netplan.topologies.own.functions import FUNCTIONS  # noqa: PLC0415

    return name in FUNCTIONS or name in added("netplan.fabrics")


def _is_otherwise(folder: str, name: str, roots: Sequence[Path]) -> bool:
    """Whether a shelf finds the name though no file is called so: by an alias, or a rate."""
    from netplan.costing import switches  # noqa: F401, PLC0415 - makes its shelf known
    from netplan.workloads import accelerators, models  # noqa: F401, PLC0415 - likewise

    for shelf in Catalog.all:
        if shelf.folder == folder:
            with suppress(NetplanError):
                shelf.find(name, roots)
                return True
    return False


def _named(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str, str]]:
    """Every name in a scenario's data: where it stands, its role and folder, and the name."""
    for part, fields in FOLDERS.items():
        values = data.get(part)
        if not isinstance(values, Mapping):
            continue
        kind = str(values.get("kind", "training"))
        both = {**fields, "stack": STACKS[kind]} if part == "workload" else fields
        for field, value in values.items():
            names = value if isinstance(value, list) else [value]
            for number, name in enumerate(names if field in both else ()):
                text = str(name)
                is_path = os.sep in text or f".{text.rpartition('.')[2].lower()}" in OF_FILES
                if name is None or name in WORDS or is_path:
                    continue
                place = (part, field, number) if isinstance(value, list) else (part, field)
                yield place, *both[field], text


PartT = TypeVar("PartT", Cluster, Training, Serving, PostTraining, Software)

OF_FABRICS = frozenset({"gpus", "fabric", "radix", "oversubscription", "ports"})
"""Inputs that ask for a fabric of the catalogs, which a graph from a file is none of."""
PUBLISHED, ITS_CODE = "published-code", "4d"
"""The mode that repeats slips of published code, and the iteration model whose code that is."""


def consistent_cluster(cluster: Cluster, given: Collection[str], roots: Sequence[Path]) -> Cluster:
    """The cluster without what contradicts what is given.

    Parameters
    ----------
    cluster
        With the values that are given.
    given
        Names of the inputs that are given.
    roots
        Folders of the user's own catalogs.

    Returns
    -------
    Cluster
        Without a graph where a fabric is asked for, sizes of racks where a hall is given, and full
        ports where the fabric that is asked for has no use for them.

    Examples
    --------
    >>> consistent_cluster(Cluster(graph="mine.graphml"), {"gpus"}, ()).graph
    >>> consistent_cluster(Cluster(ports="full", fabric="rail-only"), {"fabric"}, ()).ports
    'shared'
    """
    changes: dict[str, Any] = {}
    if OF_FABRICS.intersection(given):
        changes["graph"] = None
    if "hall" in given:
        changes |= {"gpus_per_rack": None, "switches_per_rack": None}
    if "fabric" in given and cluster.ports == "full":
        # Only inputs that may contradict a scenario need fabrics and iteration models.
        from netplan.topologies import specs  # noqa: PLC0415

        spec = _readable(specs.FABRICS, cluster.fabric, roots)
        changes |= {"ports": "shared"} if spec and not spec.several_ports else {}
    if "accelerator" in given and not {"fabric", "fabrics", "graph"}.intersection(given):
        changes |= _as_sold(cluster, roots)
    return _where_not_given(cluster, given, changes)


def _as_sold(cluster: Cluster, roots: Sequence[Path]) -> dict[str, Any]:
    """What joins an accelerator whose own links make a torus; the usual fabrics behind one."""
    from netplan.workloads.accelerators import ACCELERATORS  # noqa: PLC0415 - seldom used

    chip = _readable(ACCELERATORS, cluster.accelerator, roots)
    torus = f"torus-{chip.torus_dimensions}d" if chip else ""
    if chip and chip.torus_dimensions in (2, 3):
        others = (name for name in FABRICS if name != torus)
        return {"fabric": torus, "fabrics": (torus, *others), "ports": "full"}
    if chip and cluster.ports == "full":  # of a scenario of such an accelerator
        usual = Cluster()
        return {"fabric": usual.fabric, "fabrics": usual.fabrics, "ports": usual.ports}
    return {}


def consistent_serving(serving: Serving, given: Collection[str]) -> Serving:
    """What is served: requests in flight in all or in a server, a level or none, as asked for.

    Parameters
    ----------
    serving
        With the values that are given.
    given
        Names of the inputs that are given.

    Returns
    -------
    Serving
        With one of the two, where one is given; a level that is given, or taken away, in place of
        the scenario's.

    Examples
    --------
    >>> consistent_serving(Serving(batch=8, concurrency=64), {"batch"}).concurrency
    """
    changes: dict[str, Any] = {"concurrency": None} if "batch" in given else {}
    changes |= {"batch": None} if "concurrency" in given else {}
    changes |= {"ttft_ms": None, "tpot_ms": None} if not serving.level else {}
    changes |= {"level": True} if {"ttft_ms", "tpot_ms"}.intersection(given) else {}
    return _where_not_given(serving, given, changes)


def consistent_post_training(workload: PostTraining, given: Collection[str]) -> PostTraining:
    """What is trained by reinforcement, without what contradicts what is asked for.

    Parameters
    ----------
    workload
        With the values that are given.
    given
        Names of the inputs that are given.

    Returns
    -------
    PostTraining
        Without the split of another number of GPUs, and either with pools or with none.

    Examples
    --------
    >>> split = PostTraining(rollout_gpus=32, staleness=1.0, colocated=True)
    >>> apart = consistent_post_training(split, {"colocated"})
    >>> apart.rollout_gpus, apart.staleness
    (None, 0.0)
    >>> consistent_post_training(PostTraining(rollout_gpus=32), {"gpus"}).rollout_gpus
    """
    changes: dict[str, Any] = {"rollout_gpus": None} if "gpus" in given else {}
    if workload.colocated and "colocated" in given:
        changes |= {"rollout_gpus": None, "staleness": 0.0, "score_gpus": 0}
    elif {"rollout_gpus", "staleness"}.intersection(given):
        changes |= {"colocated": False}
    return _where_not_given(workload, given, changes)


def consistent_training(
    cluster: Cluster, training: Training, given: Collection[str], roots: Sequence[Path]
) -> tuple[Cluster, Training]:
    """What is trained, and the cluster, without what the iteration model asked for does not know.

    Parameters
    ----------
    cluster, training
        With the values that are given.
    given
        Names of the inputs that are given.
    roots
        Folders of the user's own catalogs.

    Returns
    -------
    Cluster, Training
        Without what calibrated iteration models alone time, where another is asked for; with the
        iteration model of the published code where its slips are asked for.

    Examples
    --------
    >>> fast = Training(precision="fp8", iteration_model="4d")
    >>> consistent_training(Cluster(), fast, {"iteration_model"}, ())[1].precision
    >>> slips = Training(mode="published-code")
    >>> consistent_training(Cluster(), slips, {"mode"}, ())[1].iteration_model
    '4d'
    """
    from netplan.performance.iteration_model import ITERATION_MODELS  # noqa: PLC0415 - as above
    from netplan.performance.setting import BUBBLE_SHARE  # noqa: PLC0415 - as above

    rules = _readable(ITERATION_MODELS, training.iteration_model, roots)
    if rules is None or not {"iteration_model", "mode"}.intersection(given):
        return cluster, training
    plain = (rules.compute.operations, rules.compute.kernels) == ("detailed", "roofline")
    changes: dict[str, Any] = {}
    if training.mode == PUBLISHED and not plain:
        changes |= {"mode": "corrected"} if "mode" not in given else {"iteration_model": ITS_CODE}
    if "iteration_model" in given and rules.calibration is None:
        changes |= {"precision": None, "stack": None, "tensor_overlap": True}
        usual = {"hybrid_stages": False, **dict.fromkeys(SOFTWARE)}
        software = _where_not_given(training.software, given, usual)
        training = structs.replace(training, software=software)
        changes |= {"recompute": None} if training.recompute == "half" else {}
        changes |= {"schedule": None} if training.schedule in BUBBLE_SHARE else {}
        if rules.communication.collectives != "measured":
            cluster = _where_not_given(cluster, given, {"network_kind": None})
    if rules.compute.operations != "detailed":
        changes["sequence_parallel"] = True
    return cluster, _where_not_given(training, given, changes)


def timed_as_known(
    scenario: "Scenario", given: Collection[str], roots: Sequence[Path]
) -> "Scenario":
    """The scenario with the iteration model that knows most of what it trains.

    Parameters
    ----------
    scenario
        With the values that are given.
    given
        Names of the inputs that are given.
    roots
        Folders of the user's own catalogs.

    Returns
    -------
    Scenario
        The same, but where it is timed as runs were, which nobody asked for: by kernels as they
        were measured if the model has layers that no such run had, or the accelerator no such run;
        as ``4d`` if its kernels, or those of the model, were not measured either.

    Examples
    --------
    >>> rack = Scenario.load("nvl72-gb200")
    >>> for model in ("deepseek-v3", "deepseek-v3.2"):
    ...     timed_as_known(rack.replace(model=model), {"model"}, ()).workload.iteration_model
    'calibrated'
    'measured'
    """
    training = scenario.workload
    if not isinstance(training, Training) or "iteration_model" in given:
        return scenario
    if training.iteration_model != USUAL_TIMES:
        return scenario
    if not (other := better_times(scenario, roots)):
        return scenario
    # What is asked for stays, so that it is refused where that model has no times for it.
    asked = {name: scenario.value(name) for name in {*given} & {*CALIBRATED, "recompute"}}
    return scenario.replace(iteration_model=other, **asked)


def better_times(scenario: "Scenario", roots: Sequence[Path]) -> str:
    """The iteration model that times what is trained where the usual one has no such runs.

    Empty where it has, and where nothing is trained.
    """
    training = scenario.workload
    if not isinstance(training, Training):
        return ""
    from netplan.workloads.accelerators import ACCELERATORS  # noqa: PLC0415 - as above
    from netplan.workloads.models import WORKLOADS, Model  # noqa: PLC0415 - as above

    model = _readable(WORKLOADS, training.model, roots)
    on = _readable(ACCELERATORS, scenario.cluster.accelerator, roots)
    if model is None or on is None:
        return ""
    known = isinstance(model, Model) and model.vocabulary and on.training is not None
    # Layers of dense models are those that runs without a date had, too.
    plain = known and not model.unlike and training.experts == 1
    if plain or (known and _dated(model, on, training, roots)):
        return ""
    measured = isinstance(model, Model) and model.mamba is None and on.measured is not None
    return "measured" if measured else "4d"


def _dated(model: "Model", on: "Accelerator", training: Training, roots: Sequence[Path]) -> bool:
    """Whether software of a date has all that a model has, on an accelerator."""
    from netplan.performance.stacks import STACKS, default_stack  # noqa: PLC0415 - as above

    if training.software.software_date == UNDATED or model.unknown:
        return False
    stack = STACKS.load(training.stack or default_stack(on), roots)
    return stack.dated is not None and bool(on.training and on.training.dated)


SOFTWARE = ("software_date", "dispatcher", "expert_overlap", "graphs", "fused_experts")
"""What training software is like: its date, and what is not as in presets of that date."""
CALIBRATED = (
    *("precision", "stack", *SOFTWARE, "hybrid_stages"),
    *("tensor_overlap", "network_kind", "schedule"),
)
"""Inputs that mean something under iteration model ``calibrated``, or in part there alone."""


USUAL_TIMES = "calibrated"
"""The iteration model of every scenario that asks for no other one."""


def _readable(shelf: Catalog[RecordT], name: str, roots: Sequence[Path]) -> RecordT | None:
    """A record; None of one that cannot be read, of which whoever reads it says what is wrong."""
    try:
        return shelf.load(name, roots)
    except NetplanError:
        return None


def _where_not_given(part: PartT, given: Collection[str], changes: dict[str, Any]) -> PartT:
    """The part with the changes to what is not given itself."""
    kept = {name: value for name, value in changes.items() if name not in given}
    return structs.replace(part, **kept) if kept else part


Part = Literal["cluster", "workload", "books"]
PARTS: tuple[Part, ...] = ("cluster", "workload", "books")
Kind = Literal["training", "serving", "post-training"]
"""What runs on a cluster."""
WORKLOADS: Mapping[Kind, type[Training] | type[Serving]] = {
    "training": Training,
    "serving": Serving,
    "post-training": PostTraining,
}
DEFAULT = "hgx-b200"
"""The scenario of every question that names none."""
UNNAMED = "yours"
"""What a scenario is called in headings that was made in Python, or inline, without a name."""


class InputPlace(NamedTuple):
    """Where an input lies in a scenario, what is known of it, and its value where nothing says it.

    Parameters
    ----------
    part
        The part of the scenario.
    path
        Names of the fields that lead to it inside the part.
    option
        How it is read, shown and asked for.
    default
        Its value in the scenario that every command starts from.
    """

    part: Part
    path: tuple[str, ...]
    option: Option
    default: Any


@cache
def all_places(workload: str = "training") -> dict[str, InputPlace]:
    """Every input of a scenario with such a workload, by name.

    Parameters
    ----------
    workload
        ``training``, ``serving`` or ``post-training``.

    Returns
    -------
    dict of str to InputPlace
        In the order of the parts, and in them as the structs have it.

    Examples
    --------
    >>> all_places()["tariff"].path, all_places("serving")["prompt"].part
    (('terms', 'tariff'), 'workload')
    """
    kinds: dict[Part, type[Struct]] = {
        "cluster": Cluster,
        "workload": WORKLOADS[cast("Kind", workload)],
        "books": Books,
    }
    return {
        path[-1]: InputPlace(part, path, option, default)
        for part, kind in kinds.items()
        for path, option, default in _fields(kind)
    }


def every_place() -> dict[str, InputPlace]:
    """Every input of a scenario, of any workload, by name; of two of a name that of training."""
    return all_places("post-training") | all_places("serving") | all_places("training")


def _fields(kind: type[Struct]) -> Iterator[tuple[tuple[str, ...], Option, Any]]:
    """Inputs of a struct and of the structs inside it."""
    for known in structs.fields(kind):
        option = option_of(known.type)
        if option is not None:
            yield (known.name,), option, known.default
        else:
            for path, inner, default in _fields(known.type):
                yield (known.name, *path), inner, default


class Scenario(Record, frozen=True, kw_only=True, repr_omit_defaults=True, metaclass=Named):
    """A cluster, what runs on it, and the books that it is counted with.

    Parameters
    ----------
    name, title, source, date
        What it is called, what it is, where its values are from and of when they are.
    aliases
        Other names that it is found by.
    evidence, derived, assumed
        Whether it can be bought, is announced or rumoured; which values follow from others, or
        are in no source.
    cluster, workload, books
        Its parts; the workload is training, serving or post-training.
    set
        Single values of catalog files that it replaces, such as ``accelerator.memory_bytes: 96e9``.

    Raises
    ------
    CatalogError
        If a file of one is malformed: every fault with its line.
    InputError
        If a part is none; its message, or that of the part, says what is allowed.

    Examples
    --------
    >>> Scenario(cluster=Cluster(gpus=1024), workload=Training(model="llama-3-70b")).batch
    256
    >>> scenario = Scenario.load("hgx-b200").replace(gpus="8Ki", fabric="rail-only")
    >>> scenario.cluster.gpus, scenario.batch, scenario.books.prices
    (8192, 2048, '2026')
    """

    name: str = ""
    title: str = ""
    source: str = ""
    date: str = ""
    cluster: Cluster = Cluster()
    workload: Training | Serving | PostTraining = Training()
    books: Books = Books()
    set: dict[str, str | int | float | bool] = {}  # noqa: RUF012 - every struct gets one of its own

    @classmethod
    def read(cls, data: object) -> Self:
        """Make the scenario from plain data.

        A workload that does not say its kind is training; a switch model has its own ports.

        Parameters
        ----------
        data
            What stands in a file.

        Returns
        -------
        Scenario
            The scenario.

        Raises
        ------
        RecordError
            If the data is no scenario: all its faults, each with its place and its reason.
        """
        if isinstance(data, Mapping) and isinstance(data.get("workload"), Mapping):
            data = {**data, "workload": {"kind": "training", **data["workload"]}}
        if isinstance(data, Mapping) and isinstance(data.get("cluster"), Mapping):
            ports: dict[str, None] = {"radix": None} if "switch" in data["cluster"] else {}
            data = {**data, "cluster": {**ports, **data["cluster"]}}
        return super().read(_from_texts(data))

    def __post_init__(self) -> None:
        """Refuse parts that are none."""
        for part, kinds in (
            ("cluster", (Cluster,)),
            ("workload", (Training, Serving)),
            ("books", (Books,)),
        ):
            if not isinstance(getattr(self, part), kinds):
                names = " or ".join(kind.__name__ for kind in kinds)
                raise InputError(f"{part}: give a {names}, got {getattr(self, part)!r:.60}")

    @classmethod
    def load(
        cls, name: "str | Path | Scenario | Mapping[str, Any]", catalog: str | Path | None = None
    ) -> "Scenario":
        """A scenario by its shipped name or by its file.

        Parameters
        ----------
        name
            A name of the catalog, a path with a dot or a slash, what stands in such a file as a
            mapping, or a scenario, which it returns.
        catalog
            Folder of the user's own catalogs, which goes first.

        Returns
        -------
        Scenario
            The scenario.

        Raises
        ------
        UnknownNameError
            If there is none of that name: the nearest are named.
        CatalogError
            If the file is malformed: every fault with its line.
        InputError
            If the mapping is none of a scenario: every fault.

        Examples
        --------
        >>> Scenario.load({"cluster": {"gpus": 1024, "accelerator": "h100-80gb"}}).cluster.gpus
        1024
        """
        if isinstance(name, Mapping):
            try:
                name = cls.read({**name})
            except RecordError as error:
                raise InputError(*(f"scenario: {fault.text}" for fault in error.faults)) from None
        if isinstance(name, Scenario):
            return name if name.name else name.changed(name=UNNAMED)
        scenario: Scenario = SCENARIOS.load(str(name), user_roots(catalog))
        return scenario if scenario.name else scenario.changed(name=Path(name).stem)

    @property
    def kind(self) -> Kind:
        """What runs on it."""
        return next(kind for kind, made in WORKLOADS.items() if type(self.workload) is made)

    @property
    def training(self) -> Training:
        """What is trained.

        Raises
        ------
        InputError
            If it serves.
        """
        if isinstance(self.workload, Training):
            return self.workload
        raise InputError(f"{self.name} serves: add --workload training to ask about training")

    @property
    def post_training(self) -> PostTraining:
        """What is trained by reinforcement.

        Raises
        ------
        InputError
            If it runs something else.
        """
        if isinstance(self.workload, PostTraining):
            return self.workload
        raise InputError(f"{self.name} runs {self.kind}: add --workload post-training")

    @property
    def serving(self) -> Serving:
        """What is served; that of ``Serving()`` with no word of it where the scenario trains."""
        return self.workload if isinstance(self.workload, Serving) else Serving()

    @property
    def batch(self) -> int | None:
        """Global batch of a training run, sequences [1]; None where the model's own is meant."""
        return self.training.batch_on(self.cluster.gpus)

    def value(self, name: str) -> Any:  # noqa: ANN401 - of any input
        """The value of an input by its name.

        Parameters
        ----------
        name
            Such as ``gpus`` or ``restart_minutes``.

        Returns
        -------
        Any
            As the input has it, in its unit.

        Raises
        ------
        UnknownNameError
            If there is no such input: the nearest are named.

        Examples
        --------
        >>> Scenario().value("gpus"), Scenario().value("recovery")
        (32768, 'llama3')
        >>> Scenario().value("workload")
        'training'
        """
        if name == "workload":
            return self.kind
        known = all_places(self.kind)
        place = known.get(name) or known.get(plain_name(name, self.kind))
        if place is None:
            raise unknown_name("input", name, list(known))
        value: Any = getattr(self, place.part)
        for step in place.path:
            value = getattr(value, step)
        return value

    def replace(self, **values: Any) -> "Scenario":  # noqa: ANN401 - inputs of any type
        """The scenario with other values of some inputs, read as the command line reads them.

        Parameters
        ----------
        values
            Inputs by name, such as ``gpus``; ``workload`` may be ``training``, ``serving`` or
            ``post-training``.

        Returns
        -------
        Scenario
            A new one.

        Raises
        ------
        InputError
            If there is no such input, or its value is not allowed.
        """
        return self.with_inputs(values)

    def with_inputs(
        self, values: Mapping[str, Any], catalog: str | Path | None = None
    ) -> "Scenario":
        """The scenario with other values of some inputs, by their names.

        Ports that are given leave a switch model out, and a model its ports; where the rate of
        the cards alone is given, switches keep their capacity. So does whatever else is given win
        over what the scenario says and contradicts it.

        Parameters
        ----------
        values
            Inputs by name; None stands for the default.
        catalog
            Folder of the user's own catalogs.

        Returns
        -------
        Scenario
            A new one; errors as of :meth:`replace`.
        """
        values = dict(values)
        scenario = self.with_workload(values.pop("workload")) if "workload" in values else self
        known = all_places(scenario.kind)
        parts: dict[str, Any] = {part: getattr(scenario, part) for part in PARTS}
        given = set()
        for name, value in values.items():
            plain = plain_name(name, scenario.kind)
            place = known.get(plain)
            if place is None:
                raise unknown_name("input", name, list(known))
            read = place.default if value is None else read_option(name, place.option, value)
            if read == () and place.default:
                raise InputError(f"{name}: got none: name one or more")
            parts[place.part] = _with(parts[place.part], place.path, read)
            given |= {plain} if value is not None else set()
        if given & {"radix", "switch", "nic_gbps"}:
            parts["cluster"] = _fitting(parts["cluster"], self.cluster, given, catalog)
        return (
            structs.replace(scenario, **_consistent(parts, given, catalog)) if values else scenario
        )

    @property
    def sizing(self) -> "Sizing":
        """What fabrics of its cluster are built for: GPUs, ports, HB domains and rates.

        Raises
        ------
        InputError
            If nothing says how many ports a switch has.
        CatalogError
            If there is no such accelerator.

        Examples
        --------
        >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=16, hb_size=4).sizing
        >>> sizing.domains, sizing.speed_gbps
        (16, 400.0)
        """
        from netplan.scenarios.planned_fabric import size_cluster  # noqa: PLC0415
        from netplan.scenarios.reading import CatalogReader, with_cards  # noqa: PLC0415

        return size_cluster(
            self.cluster, CatalogReader(overrides=with_cards(self.cluster, self._settings))
        )

    @property
    def _settings(self) -> dict[str, str]:
        """Values of catalog files that it replaces, as the command line has them."""
        return {key: str(value) for key, value in self.set.items()}

    def fabric(
        self, name: "str | Path | Callable[..., Any]" = "", catalog: str | Path | None = None
    ) -> "Fabric":
        """One fabric of its cluster: counts, levels, graph and bill.

        Parameters
        ----------
        name
            Name of the catalog, path to a file, or a function that makes a graph; the scenario's
            own ``fabric`` if empty.
        catalog
            Folder of the user's own catalogs.

        Returns
        -------
        Fabric
            The fabric, sized.

        Raises
        ------
        InputError
            If it cannot be built in this size; the message says what can.
        CatalogError
            If there is no such fabric.

        Examples
        --------
        >>> Scenario.load("hgx-b200").fabric("rail-only").switches
        768
        """
        # Whoever only reads or changes a scenario needs no fabric.
        from netplan.scenarios.planned_fabric import plan_fabric  # noqa: PLC0415

        if callable(name):
            from netplan.topologies.own.functions import register_fabric  # noqa: PLC0415

            name = register_fabric(name)
        return plan_fabric(
            str(name or self.cluster.fabric),
            self.cluster,
            self.books,
            overrides=self._settings,
            catalog=catalog,
        )

    def with_workload(self, workload: "str | Training | Serving | PostTraining") -> "Scenario":
        """The scenario with another workload, of one kind or as it is given.

        Parameters
        ----------
        workload
            ``training``, ``serving`` or ``post-training``, or a workload.

        Returns
        -------
        Scenario
            Itself if it has such a workload already.

        Raises
        ------
        InputError
            If there is no such kind.
        """
        if isinstance(workload, (Training, Serving)):
            return structs.replace(self, workload=workload)
        if workload not in WORKLOADS:
            raise InputError(f"unknown --workload {workload!r:.40}: use {', '.join(WORKLOADS)}")
        if workload == self.kind:
            return self
        return structs.replace(self, workload=WORKLOADS[cast("Kind", workload)]())


def plain_name(name: str, workload: str = "") -> str:
    """Name of an input as its field has it: its flag, or a name with its part, is the same.

    Parameters
    ----------
    name
        An input by its field, its flag, or with the part of the scenario that it is in.
    workload
        ``training``, ``serving`` or ``post-training``, whose inputs are known; of any if empty.

    Returns
    -------
    str
        The name of the field; what was given, if there is no such input.

    Examples
    --------
    >>> plain_name("cluster.gpus"), plain_name("gpus"), plain_name("workload.memory.offload")
    ('gpus', 'gpus', 'offload')
    >>> plain_name("nic"), plain_name("hb-size"), plain_name("cluster.nic"), plain_name("colour")
    ('nic_gbps', 'hb_size', 'nic_gbps', 'colour')
    """
    if not workload:
        names = (plain_name(name, kind) for kind in WORKLOADS)
        return next((plain for plain in names if plain != name), name)
    part, dot, rest = name.partition(".")
    known = all_places(workload)
    if not dot or part not in PARTS:
        spelt = name.replace("-", "_")
        return spelt if spelt in known else _fields_by_flag(workload).get(spelt, name)
    first, _, last = rest.rpartition(".")
    field = plain_name(last, workload)
    place = known.get(field)
    if place is None or place.part != part or (first and first != ".".join(place.path[:-1])):
        return name
    return field


@cache
def _fields_by_flag(workload: str) -> dict[str, str]:
    """Inputs by the words of their flags, as Python would spell them, and by names of before."""
    known = all_places(workload)
    flags = {alias: field for field, place in known.items() for alias in place.option.aliases}
    flags |= {
        place.option.flag_of(field).strip("-").replace("-", "_"): field
        for field, place in known.items()
    }
    return {flag: field for flag, field in flags.items() if flag not in known}


NUMBERS = frozenset({"whole", "real", "ratio", "quotient", "percent"})
"""Kinds of inputs that a file may write as the command line does: 16k, 3:1, 99%."""


def _from_texts(data: object) -> object:
    """Data of a scenario with fields by their names, and numbers in place of texts that mean them.

    Raises
    ------
    RecordError
        If a value of a part stands among those of catalog files.
    """
    if not isinstance(data, Mapping):
        return data
    workload, faults = data.get("workload"), list[Fault]()
    named = str(workload.get("kind")) if isinstance(workload, Mapping) else ""
    kind = named if named in WORKLOADS else "training"
    parts: dict[str, Any] = {}
    for part in PARTS:
        if isinstance(data.get(part), Mapping):
            # A group of inputs may be called as the flag of one of them: memory.
            groups = {place.path[0] for place in all_places(kind).values() if place.path[1:]}
            fields = {
                key: key if key in groups else plain_name(f"{part}.{key}", kind)
                for key in data[part]
            }
            known = {key: name if name in all_places(kind) else key for key, name in fields.items()}
            twice = len({*known.values()}) < len(known)
            parts[part] = {key if twice else known[key]: data[part][key] for key in known}
    for name, place in all_places(kind).items():
        value = parts.get(place.part)
        for step in place.path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if isinstance(value, str) and place.option.kind in NUMBERS:
            with suppress(InputError):  # a text that is no number is told with all other faults
                number = read_option(name, place.option, value)
                parts[place.part] = _set_in(parts[place.part], place.path, number)
    replaced = data.get("set")
    for key in replaced if isinstance(replaced, Mapping) else ():
        if (where := str(key).partition(".")[0]) in PARTS:
            faults.append(Fault(("set", key), f"set.{key}: write it under {where}"))
    if faults:
        raise RecordError(faults)
    return {**data, **parts}


def _set_in(mapping: Mapping[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    """A mapping with another value at the end of a path of keys."""
    first, *rest = path
    return {**mapping, first: _set_in(mapping[first], tuple(rest), value) if rest else value}


def _fitting(
    cluster: Cluster, before: Cluster, given: Collection[str], catalog: str | Path | None
) -> Cluster:
    """The cluster without what was said of other switches and cards than those now given."""
    if "radix" in given and "switch" not in given:
        cluster = structs.replace(cluster, switch=None)
    if "switch" in given and "radix" not in given:
        cluster = structs.replace(cluster, radix=None)
    if (
        "nic_gbps" in given
        and not {"radix", "switch"}.intersection(given)
        and cluster.radix is not None
    ):
        # Only this needs the catalogs.
        from netplan.scenarios.reading import same_capacity  # noqa: PLC0415

        cluster = structs.replace(cluster, radix=same_capacity(cluster, before, catalog))
    return cluster


def _consistent(
    parts: dict[str, Any], given: AbstractSet[str], catalog: str | Path | None
) -> dict[str, Any]:
    """The parts without what contradicts what is given."""
    cluster, workload = parts["cluster"], parts["workload"]
    if not given:
        return parts
    roots = user_roots(catalog)
    cluster = consistent_cluster(cluster, given, roots)
    if isinstance(workload, PostTraining):
        workload = consistent_post_training(workload, given)
    if isinstance(workload, Serving):
        workload = consistent_serving(workload, given)
    elif given & {"iteration_model", "mode"}:
        cluster, workload = consistent_training(cluster, workload, given, roots)
    return {**parts, "cluster": cluster, "workload": workload}


def _with(struct: Struct, path: tuple[str, ...], value: object) -> Struct:
    """A struct with another value at the end of a path of fields."""
    first, *rest = path
    if rest:
        value = _with(getattr(struct, first), tuple(rest), value)
    try:
        return structs.replace(struct, **{first: value})
    except ValueError as error:  # as records have it; one line for whoever gave the value
        raise InputError(str(error)) from None


SCENARIOS = NamingCatalog("scenario", "topologies/scenarios", Scenario)
