"""`python -m perf_tests.studies.rule_costs.child RULE FORM TRIAL`: print one observation."""

import json
import sys
from dataclasses import asdict
from typing import cast, get_args

from netpipe.grain_access.worker_start import let_grain_start_workers
from perf_tests.studies.rule_costs.catalogue import CATALOGUE
from perf_tests.studies.rule_costs.document import Form
from perf_tests.studies.rule_costs.examples import load_example


def main(rule: str, form: str, number: str) -> None:
    """Observe one form of a rule's example once and print the observation."""
    if form not in get_args(Form):
        raise SystemExit(f"the form must be one of {', '.join(get_args(Form))}; found {form}")
    let_grain_start_workers()
    trial = CATALOGUE[rule][int(number)]
    observation = trial.measure(load_example(rule, cast("Form", form)), trial.setting)
    print(json.dumps(asdict(observation)), flush=True)  # noqa: T201  # its parent reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
