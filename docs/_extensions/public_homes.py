"""Types are documented under their public names, whatever module they live in.

`result-of` documents the class that a public function returns: pages then name no module that may move.
Links by the name of a module that is not documented lead to the public name.
"""

import importlib
import typing

from sphinx.util.docutils import SphinxDirective


def found(name: str) -> typing.Any:
    """The object of a public name such as `driftline.Posterior.diagnose`."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            place = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            place = getattr(place, part)
        return place
    raise ImportError(f"there is no {name}")


def result_of(name: str, field: str | None = None) -> type:
    """The class that a function returns, or that is the type of one of a class's fields."""
    hints = typing.get_type_hints(found(name))
    return _classes(hints[field or "return"])[-1]


def _classes(hint):
    if isinstance(hint, list):  # the arguments of a function
        return [each for argument in hint for each in _classes(argument)]
    if isinstance(hint, type) and not typing.get_args(hint):
        return [hint] if hint.__module__.startswith("driftline") else []
    return [each for argument in typing.get_args(hint) for each in _classes(argument)]


class ResultOf(SphinxDirective):
    """`{result-of} driftline.Posterior.diagnose`, or with the name of a field after it."""

    required_arguments = 1
    optional_arguments = 1
    has_content = False
    option_spec: typing.ClassVar = {"exclude": lambda text: text}

    def run(self):  # noqa: D102
        cls = result_of(*self.arguments)
        fence = [
            "```{eval-rst}",
            f".. autoclass:: {cls.__module__}.{cls.__qualname__}()",
            "   :members:",
            "   :inherited-members: tuple",
            f"   :exclude-members: {self.options.get('exclude', '')}",
            "```",
        ]
        return self.parse_text_to_nodes("\n".join(fence))


def public_place(domain, target: str) -> str | None:
    """Where the object with that last name is documented, if there is one."""
    last = target.rpartition(".")[2]
    places = [place for place, entry in domain.objects.items() if place.rpartition(".")[2] == last]
    places = [
        place for place in places if domain.objects[place].objtype in ("class", "function", "exception")
    ]
    return places[0] if len(places) == 1 else None


def resolve(app, env, node, contnode):
    """Lead a link with the name of a private module to the public name."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    place = public_place(domain, node["reftarget"])
    if place is None:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", place, node, contnode)


def setup(app):
    """Register with Sphinx."""
    app.add_directive("result-of", ResultOf)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
