"""Documents dealt into parts of their time step, by what they say and by nothing else.

A null for change shuffles the dates of documents. Parts make that cheap: documents of a part stay together,
and parts are what is shuffled.
"""

import numpy as np

from driftline.words.counts.time_steps import TimeSteps

MOST = 1000  # parts of a step: tables of a day's and a step's parts are held, empty ones too


class Deal:
    """The parts that hold a document, numbered step after step.

    With one part for each step, parts are steps.

    Args:
        steps: The time steps.
        documents: How many documents each part of each step has, (T, N).

    Attributes:
        step: Step of each part, not decreasing, (P,).
    """

    def __init__(self, steps: TimeSteps, documents: np.ndarray):
        self._steps = steps
        self._width = documents.shape[1]
        self._filled = np.flatnonzero(documents)
        self._number = np.full(documents.size, -1, np.int64)
        self._number[self._filled] = np.arange(len(self._filled))
        self.step = (self._filled // self._width).astype(np.int32)

    def of(self, days: np.ndarray, hands: np.ndarray) -> np.ndarray:
        """Parts of documents by their days, and by what `hands` says of them if there is more than one."""
        steps = self._steps.of(days)
        return self._number[steps * self._width + hands] if self._width > 1 else steps

    def each(self, table: np.ndarray) -> np.ndarray:
        """Numbers of all parts of all steps, (T, N), for the parts that hold a document, (P,)."""
        return table.reshape(-1)[self._filled]
