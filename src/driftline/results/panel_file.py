"""A panel as a file and back."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import os
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from driftline.families import GaussMarkov
from driftline.models.model import Model
from driftline.models.model_json import from_spec, shapes_of, to_spec
from driftline.models.observations import as_times
from driftline.models.parameters import at_start
from driftline.models.several_series import Series, observe_panel
from driftline.results import asked_times
from driftline.results.learnt_number import LearntNumber
from driftline.results.panel_checks import check
from driftline.storage import checked_files
from driftline.storage.explained_errors import refusing_unsound
from driftline.storage.kinds import FileKind

if TYPE_CHECKING:
    from driftline.results.panel import Panel

KIND = FileKind("panel", 1, "a panel", "`save` of a panel")


def save(panel: "Panel", path: str | os.PathLike[str]) -> None:
    """Write a panel to one file; a model with functions is left out."""
    names = [_plain_name(name) for name in panel.names]
    times, facts = asked_times.stored(_joined_times(panel.series), panel.series[0].unit)
    arrays = {f"q.{name}": np.asarray(leaf) for name, leaf in vars(panel.q).items()}
    arrays |= {
        "lengths": np.array([len(one.values) for one in panel.series], np.int64),
        "values": np.concatenate([one.values for one in panel.series]),
        "times": times,
        "elbos": panel.elbos,
        "converged": panel.converged_each,
        "iterations": panel.iterations_each.astype(np.int64),
    }
    if panel.quantiles is not None:
        # Steps after the end of a series have none, and are left out.
        inside = np.isfinite(panel.mean)
        arrays["quantiles"] = panel.quantiles.transpose(2, 1, 0)[inside.T].T
    groups = [panel.parameters] if panel.shared else [panel.parameters.get(name, {}) for name in panel.names]
    places = list(groups[0])
    arrays |= _number_arrays(groups, places)
    facts |= {
        "names": names,
        "model": None if panel.model is None else to_spec(at_start(panel.model)),
        "shared": panel.shared,
        "message": panel.message,
        "parameters": places,
    }
    checked_files.write(path, KIND, arrays, facts)


def load(path: str | os.PathLike[str]) -> "Panel":
    """Read a panel that `Panel.save` wrote; a damaged or inconsistent file is refused."""
    arrays, facts = checked_files.read(path, KIND)
    with refusing_unsound(path, "a sound panel", "fit and save it again"):
        check(arrays, facts)
        return _built(arrays, facts)


def _built(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> "Panel":
    from driftline.results.panel import Panel

    ends = np.cumsum(arrays["lengths"])[:-1]
    all_times, unit = asked_times.restored(arrays["times"], facts)
    series: list[Series] = []
    for name, values, times in zip(
        facts["names"], np.split(arrays["values"], ends), np.split(all_times, ends), strict=True
    ):
        labels, gaps, own_unit = as_times(times, None, len(values), unit)
        series.append(Series(name, values, labels, gaps, own_unit))
    with jax.enable_x64(True):
        q = jax.vmap(GaussMarkov)(*(jnp.asarray(arrays[f"q.{name}"]) for name in ("mean", "diag", "upper")))
    model = None if facts["model"] is None else from_spec(facts["model"])
    groups = _groups(arrays, facts["parameters"])
    _check_model(model, series, groups)
    own = {name: group for name, group in zip(facts["names"], groups, strict=False) if group}
    quantiles = [part.T for part in np.split(arrays["quantiles"].T, ends)] if "quantiles" in arrays else None
    return Panel.assembled(
        model=model, series=series, q=q, elbos=arrays["elbos"], converged=arrays["converged"],
        iterations=arrays["iterations"], parameters=groups[0] if facts["shared"] else own,
        shared=facts["shared"], message=facts["message"], quantiles=_padded(quantiles),
    )  # fmt: skip


def _check_model(model: Model | None, series: list[Series], groups: list[dict[str, LearntNumber]]) -> None:
    """Refuse a panel whose model, series and learnt numbers do not go together."""
    if model is None:
        return
    with jax.enable_x64(True):
        observe_panel(series, model.likelihood, model.prior.shape)
    shapes = shapes_of(model)
    for place, number in (pair for group in groups for pair in group.items()):
        if shapes.get(place) != number.values.shape[1:]:
            raise ValueError(f"the learnt number {place} does not belong to the model, or has another shape")


def _plain_name(name: Any) -> str | int:
    """A name that JSON keeps as it is."""
    if isinstance(name, np.integer):
        return int(name)  # pyright: ignore[reportUnknownArgumentType], NumPy leaves its width open
    if isinstance(name, str | int) and not isinstance(name, bool):
        return name
    raise TypeError(
        f"the series {name!r} has a name that a file does not keep; call series by text or whole numbers"
    )


def _joined_times(series: list[Series]) -> np.ndarray:
    kinds = {one.times.dtype.kind == "M" for one in series}
    if len(kinds) > 1:
        raise TypeError("some series of the panel have dates and others numbers; save each posterior alone")
    return np.concatenate([one.times for one in series])


def _number_arrays(groups: list[dict[str, LearntNumber]], places: list[str]) -> dict[str, np.ndarray]:
    """The points of all learnt numbers, one group after the other."""
    if not places:
        return {}
    arrays = {
        f"values of {place}": np.concatenate([group[place].values for group in groups]) for place in places
    }
    weights = [group[places[0]].weights for group in groups]
    return arrays | {
        "weights": np.concatenate(weights),
        "points": np.array([len(each) for each in weights], np.int64),
    }


def _groups(arrays: dict[str, np.ndarray], places: list[str]) -> list[dict[str, LearntNumber]]:
    """What `_number_arrays` put together, taken apart."""
    if not places:
        return [{}]
    ends = np.cumsum(arrays["points"])[:-1]
    weights = np.split(arrays["weights"], ends)
    values = {place: np.split(arrays[f"values of {place}"], ends) for place in places}
    return [
        {place: LearntNumber(values[place][k], each) for place in places} for k, each in enumerate(weights)
    ]


def _padded(parts: list[np.ndarray] | None) -> np.ndarray | None:
    """Quantiles (S, T) of every series as one array (S, T, N), with zeros after the end of a series."""
    if parts is None:
        return None
    whole = np.zeros((len(parts[0]), max(part.shape[1] for part in parts), len(parts)), parts[0].dtype)
    for k, part in enumerate(parts):
        whole[:, : part.shape[1], k] = part
    return whole
