"""Pages of the documentation whose examples are run."""

import re
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str, name: str) -> ModuleType:
    """Run all examples of a page, one after the other, as a module of the given name."""
    module = ModuleType(name)
    sys.modules[name] = module
    for block in re.findall(
        r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL
    ):
        exec(block, vars(module))
    return module
