"""What a fit of many series returns."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from driftline.families import GaussMarkov
from driftline.families.padding import cut
from driftline.infer.side_by_side import variances
from driftline.models.model import Model
from driftline.models.parameters import with_values
from driftline.models.several_series import Series
from driftline.results.intervals import central
from driftline.results.learnt_number import LearntNumber
from driftline.results.panel_file import save
from driftline.results.posterior import Posterior


@dataclasses.dataclass(frozen=True, repr=False)
class Panel:
    """The posteriors of many series; `panel[name]` is the one of a single series.

    Attributes:
        model: The model; learnt numbers that the series share have their posterior means. None if it was
            loaded from a file and had functions of the user's.
        series: The series themselves.
        q: The fitted families, with a leading axis for the series, filled up to a common length.
        elbos: ELBO of every series.
        converged_each: Whether the fit of each series converged.
        iterations_each: Steps that each took.
        parameters: Learnt numbers: by place if the series share them, else by name and place.
        shared: Whether they do.
        message: One sentence on how the fit ended.
        mean: Means, one column for each series and NaN after its end, (T, N).
        sd: Standard deviations, likewise.
        quantiles: As of a `Posterior`, with axes for scores, steps and series; None for normal marginals.
    """

    model: Model | None
    series: list[Series]
    q: GaussMarkov
    elbos: np.ndarray
    converged_each: np.ndarray
    iterations_each: np.ndarray
    parameters: dict[Any, Any]
    shared: bool
    message: str
    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray | None

    @classmethod
    def assembled(
        cls,
        *,
        model: Model | None,
        series: list[Series],
        q: Any,
        elbos: Any,
        converged: Any,
        iterations: Any,
        parameters: dict[Any, Any],
        shared: bool,
        message: str,
        quantiles: np.ndarray | None,
    ) -> "Panel":
        """A panel of fits that are filled up to a common length, cut back; see the attributes."""
        lengths = np.array([len(one.values) for one in series])
        longest = int(lengths.max())
        inside = np.arange(longest)[:, None] < lengths
        with jax.enable_x64(True):
            sd = np.sqrt(np.asarray(variances(q)))
        mean, sd = (np.asarray(part).T[:longest] for part in (q.mean, sd))
        return cls(
            model=model,
            series=series,
            q=jax.tree.map(np.asarray, q),
            elbos=np.asarray(elbos),
            converged_each=np.asarray(converged),
            iterations_each=np.asarray(iterations),
            parameters=parameters,
            shared=shared,
            message=message,
            mean=np.where(inside, mean, np.nan),
            sd=np.where(inside, sd, np.nan),
            quantiles=None if quantiles is None else quantiles[:, :longest],
        )

    @property
    def names(self) -> list[Any]:
        """Names of the series: the columns of a frame, the keys of a dict, or numbers from 0."""
        return [series.name for series in self.series]

    @property
    def elbo(self) -> float:
        """The sum of the series' ELBOs."""
        return float(self.elbos.sum())

    @property
    def converged(self) -> bool:
        """Whether all fits converged."""
        return bool(self.converged_each.all())

    @property
    def iterations(self) -> int:
        """Most steps that a series took."""
        return int(self.iterations_each.max())

    def __len__(self) -> int:
        return len(self.series)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.names)

    def __getitem__(self, name: Any) -> Posterior:
        names = self.names
        if name not in names:
            raise KeyError(f"no series {name!r} in the panel; it has {names[:5]}{' …' * (len(names) > 5)}")
        place = names.index(name)
        series, num_steps = self.series[place], len(self.series[place].values)
        own = self.parameters if self.shared else self.parameters.get(name, {})
        converged = bool(self.converged_each[place])

        def own_leaf(leaf: np.ndarray) -> np.ndarray:
            return leaf[place]

        with jax.enable_x64(True):
            q = cut(jax.tree.map(own_leaf, self.q), num_steps)
        return Posterior(
            q=q,
            model=self._model_of(own),
            values=series.values,
            times=series.times,
            time_unit=series.unit,
            method="newton",
            elbo=float(self.elbos[place]),
            elbo_error=0.0,
            converged=converged,
            iterations=int(self.iterations_each[place]),
            message=f"{'converged' if converged else 'not converged'} in a panel of {len(self)} series",
            history={},
            parameters=own,
            quantiles=None if self.quantiles is None else self.quantiles[:, :num_steps, place],
        )

    def _model_of(self, own: dict[str, LearntNumber]) -> Model | None:
        if self.model is None:
            return None
        return with_values(self.model, {place: number.mean for place, number in own.items()})

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals, (T, N)."""
        return central(self.mean, self.sd, probability, self.quantiles)

    def to_frame(self, probability: float = 0.9) -> Any:
        """A pandas DataFrame with a row for every series and step."""
        from driftline.report.frame import panel_frame

        return panel_frame(self, probability)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `dl.load` reads; a model with functions is left out."""
        save(self, path)

    def __repr__(self):
        return f"Panel({len(self)} series, ELBO {self.elbo:.3f}, {self.message})"
