"""One contestant on one problem, in a process that does nothing else.

    python -m benchmarks.series.worker CONTESTANT PROBLEM.npz RESULT.npz OPTIONS

Prints what was measured as JSON on the last line; means and standard deviations go to the result file.
"""

import importlib
import json
import sys

import numpy as np

from benchmarks.harness.measure import peak_rss
from benchmarks.series.problem import load

RUNS = {
    "newton": ("ours", "run_newton"),
    "bbvi": ("ours", "run_bbvi"),
    "guide": ("numpyro_samplers", "run_guide"),
    "nuts": ("numpyro_samplers", "run_nuts"),
    "dynamax": ("smoothers", "run_dynamax"),
    "cuthbert": ("smoothers", "run_cuthbert"),
}
IMPORTS = {"dynamax": "dynamax.generalized_gaussian_ssm.inference", "cuthbert": "cuthbert.gaussian.taylor"}


def main(contestant: str, problem: str, out: str, options: str) -> None:
    """Run it; memory counts from after all imports."""
    module, name = RUNS[contestant]
    run = getattr(importlib.import_module(f"benchmarks.series.{module}"), name)
    if contestant in IMPORTS:
        importlib.import_module(IMPORTS[contestant])
    imported = peak_rss()
    result = run(load(problem), json.loads(options))
    result["rss"] = peak_rss() - imported
    np.savez(out, **{key: result.pop(key) for key in ("mean", "sd") if key in result})
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
