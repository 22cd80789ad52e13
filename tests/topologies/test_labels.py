"""What a link group is called changes no answer."""

import json
import re
import subprocess
import sys

from netplan.topologies.specs import FABRICS
from tests.topologies import renamed


def test_every_family_answers_alike_under_other_labels() -> None:
    command = [sys.executable, "-m", "tests.topologies.renamed"]
    runs = [
        subprocess.Popen([*command, word], stdout=subprocess.PIPE, text=True)
        for word in ("plain", "renamed")
    ]
    plain, other = (json.loads(run.communicate()[0]) for run in runs)
    labels = {label: name for name, label in other["labels"].items()}
    assert {"hb", "host", "leaf-spine", "local", "ring 1 copper", "direct"} <= set(labels.values())
    pattern = re.compile("|".join(labels))

    def told(answer: object, *, renamed: bool) -> str:
        """An answer in the usual labels, without the seconds that it took."""
        text = json.dumps(answer, indent=1)
        text = pattern.sub(lambda label: labels[label[0]], text) if renamed else text
        text = re.sub('"seconds": [0-9.e-]+', "", text)
        return re.sub("(ring [0-9]) (copper|optical)", r"\1", text)  # media are said beside

    for asked, answer in plain["answers"].items():
        again = other["answers"][asked]
        assert told(answer, renamed=False) == told(again, renamed=True), asked


def test_every_family_is_asked() -> None:
    families = {FABRICS.load(name).family for name in renamed.FABRICS}
    assert families == {FABRICS.load(name).family for name in FABRICS.paths()}
