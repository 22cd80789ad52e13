"""Where the class of each question is: commands, tools, studies and papers of one's own name it."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from netplan.setup.question import Question

HOMES: Mapping[str, str] = {
    "compare": "questions.compare:Compare",
    "diff": "questions.diff:Diff",
    "cost": "questions.cost:Cost",
    "search": "questions.search:Search",
    "serving": "questions.serving:Serving",
    "optimize": "questions.optimize:Optimize",
    "map": "questions.map:Map",
    "traffic": "questions.traffic:Traffic",
    "collective": "questions.collective:Collective",
    "draw": "questions.draw:Draw",
    "loads": "questions.loads:Loads",
    "congestion": "questions.congestion:Congestion",
    "jobs": "questions.jobs:Jobs",
    "simulate": "questions.simulate:Simulate",
    "faults": "questions.faults:Faults",
    "grow": "questions.grow:Grow",
    "sites": "questions.sites:SeveralSites",
    "cables": "questions.cables:Cables",
    "export": "questions.export:Export",
    "offers": "procurement.offers:Offers",
    "calibrate": "questions.calibrate:Calibrate",
    "audit": "questions.audit:AuditFile",
    "study_status": "studies.sessions:StatusOfStudy",
    "study_show": "studies.sessions:ShowStudy",
    "verify": "published.verify:Verify",
    "catalog_list": "questions.shelves:ListRecords",
    "catalog_check": "questions.shelves:CheckRecords",
    "doctor": "cli.doctor:Doctor",
    "procurement": "procurement.report:Report",
    "rail-only-figures": "published.rail_only_figures:RailOnlyFigures",
}
"""Questions by name, with module and class; those in groups of commands have the names of tools."""


@cache
def question_class(name: str) -> type[Question[Any]]:
    """The class of a question, loaded when it is first asked.

    Examples
    --------
    >>> question_class("compare").command
    'compare'
    """
    home, _, kind = HOMES[name].partition(":")
    question: type[Question[Any]] = getattr(import_module(f"netplan.{home}"), kind)
    return question
