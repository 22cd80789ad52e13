"""Points of studies, computed once for all tests and processes of a run.

A point is found again by all that it depends on: what the study asks, the scenario, the inputs of
the point, and the files that they name. Points of studies on files of a test are never kept.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path

import msgspec
import pytest

import netplan
from netplan.reports.quantities import Scalar
from netplan.studies.answer import StudyAnswer
from netplan.studies.points import Point, _plain_outputs
from netplan.studies.questions import files_sha256, question_inputs, questions_of
from netplan.studies.store import computed_part
from netplan.studies.study import Study

ELSEWHERE = {"name", "axes", "conditions", "inputs"}
"""Keys of a study whose share in a point the point itself has."""

computed = Study.evaluate


def key_of(study: Study, point: Point) -> str:
    """Hash of all that a point depends on; empty where it may be files of a test."""
    what = {
        key: part for key, part in computed_part(study.definition).items() if key not in ELSEWHERE
    }
    text = json.dumps([what, msgspec.to_builtins(study.base), point.inputs], sort_keys=True)
    own = study.catalog or os.environ.get("NETPLAN_CATALOG")
    if own or ".yaml" in text or any("/" in str(value) for value in point.inputs.values()):
        return ""
    named = {name: {value} for name, value in point.inputs.items()}
    files = (
        files_sha256(question_inputs(ask, study.base), inputs, None)
        for ask, inputs in questions_of(study.spec, named, study.base.kind)
    )
    return hashlib.sha256("\n".join((text, *files)).encode()).hexdigest()


def evaluate(study: Study, point: Point) -> dict[str, Scalar]:
    """The outputs of a point, as whichever test needed them first computed them."""
    folder = os.environ.get("POINTS_OF_TESTS")  # none before the first test
    if not folder or not (key := key_of(study, point)):
        return computed(study, point)
    path = Path(folder, f"{key}.json")
    if not path.exists():
        outputs = _plain_outputs(computed(study, point))
        if any(isinstance(value, float) and not isfinite(value) for value in outputs.values()):
            return outputs  # JSON has no such number
        written = path.with_suffix(f".{os.getpid()}")
        written.write_bytes(msgspec.json.encode(outputs))
        written.replace(path)
    kept: dict[str, Scalar] = msgspec.json.decode(path.read_bytes())
    return kept


def kept_study(name: str) -> StudyAnswer:
    """A shipped study whose points are computed once for all tests."""
    with kept_points():
        return netplan.study(name)


@contextmanager
def kept_points() -> Iterator[None]:
    """Let studies of this process take what was computed before, and keep what they compute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Study, "evaluate", evaluate)
        yield
