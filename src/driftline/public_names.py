"""Public names that load on first use.

They stand once, in the `.pyi` file beside a package's `__init__.py`: type checkers and editors read it as it
is, and so does the package itself.
"""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMPORTED = re.compile(r"^from ([\w.]+) import (\w+) as \2$", re.MULTILINE)


def lazily(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package needs for names that load on first use: `__getattr__`, `__dir__` and `__all__`.

    Args:
        package: Its name.
        file: Its `__init__.py`, with an `__init__.pyi` beside it of lines `from home import name as name`.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {name: home for home, name in IMPORTED.findall(stub)}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return load, lambda: sorted(homes), sorted(homes)
