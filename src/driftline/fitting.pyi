# What `fit` returns by what it is given; of an array or a frame only its shape tells.
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from driftline.models.model import Model
from driftline.results.panel import Panel
from driftline.results.posterior import Posterior

@overload
def fit(
    model: Model,
    x: Mapping[Any, Any],
    *,
    times: Any = None,
    time_unit: Any = None,
    method: Literal["newton", "bbvi", "mean-field", "exact"] = "newton",
    structure: Literal["chains", "block"] | None = None,
    seed: int = 0,
    progress: Any = None,
    parameters: Literal["integrate", "maximise"] = "integrate",
    shared: bool = True,
    **options: Any,
) -> Panel: ...
@overload
def fit(
    model: Model,
    x: Sequence[float | None],
    *,
    times: Any = None,
    time_unit: Any = None,
    method: Literal["newton", "bbvi", "mean-field", "exact"] = "newton",
    structure: Literal["chains", "block"] | None = None,
    seed: int = 0,
    progress: Any = None,
    parameters: Literal["integrate", "maximise"] = "integrate",
    shared: bool = True,
    **options: Any,
) -> Posterior: ...
@overload
def fit(
    model: Model,
    x: Any,
    *,
    times: Any = None,
    time_unit: Any = None,
    method: Literal["newton", "bbvi", "mean-field", "exact"] = "newton",
    structure: Literal["chains", "block"] | None = None,
    seed: int = 0,
    progress: Any = None,
    parameters: Literal["integrate", "maximise"] = "integrate",
    shared: bool = True,
    **options: Any,
) -> Any: ...
