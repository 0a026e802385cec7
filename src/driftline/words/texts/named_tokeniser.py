"""A user's function that cuts texts into words, named by where it is, so that every process can find it."""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable


@dataclasses.dataclass(frozen=True)
class ImportedTokeniser:
    """Cuts texts with a function that is imported by its name, here and in other processes.

    Attributes:
        name: Module and function, such as "jieba:lcut".
    """

    name: str

    def __post_init__(self):
        _found(self.name)

    def __call__(self, text: str) -> list[str]:
        """The words of a text."""
        found = _found(self.name)(text)
        if isinstance(found, str) or not isinstance(found, Iterable):
            raise ValueError(f"tokenise={self.name!r} returned {found!r:.60}, not a list of words")
        tokens = list(found)
        wrong = [token for token in tokens if not isinstance(token, str) or not token]
        if wrong:
            raise ValueError(
                f"tokenise={self.name!r} must return words, but returned {wrong[0]!r} among them"
            )
        return tokens


@functools.cache
def _found(name: str) -> Callable[[str], Iterable[str]]:
    module, _, path = name.partition(":")
    if not module or not path:
        raise ValueError(f"tokenise={name!r}; name a module and a function in it, as in 'jieba:lcut'")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"tokenise={name!r}: the module {module} cannot be imported ({error}); install it, or put "
            f"{module}.py into the folder where you are"
        ) from None
    for part in path.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return found  # pyright: ignore[reportReturnType], what it returns is looked at when it does
    raise ValueError(f"tokenise={name!r}: there is no function {path} in the module {module}")
