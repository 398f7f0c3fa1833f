"""The table of all points on which the seed documents, published DSH and our recommendation differ, by area."""

from loopspec.disagreements.creation import CREATION
from loopspec.disagreements.loop import LOOP
from loopspec.disagreements.model import MODEL
from loopspec.disagreements.row import Choice, Disagreement
from loopspec.disagreements.tape import TAPE

__all__ = ["TABLE", "Choice", "Disagreement"]

TABLE: tuple[Disagreement, ...] = (*LOOP, *CREATION, *TAPE, *MODEL)
