"""The slice policy as a plugin: the tape, the recall tools, folding, default effort, step cap.

It listens beside the stock loop and touches nothing else; what it decides is decided in `loopspec.tape`.
"""

from loopharness.slice.plugin import SlicePlugin, install
from loopharness.slice.spill import SpillStore

__all__ = ["SlicePlugin", "SpillStore", "install"]
