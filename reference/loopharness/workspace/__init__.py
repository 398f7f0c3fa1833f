"""File tools and commands for an agent, confined to directories that the user names. Not a sandbox: see `plugin`."""

from loopharness.workspace.limits import Limits
from loopharness.workspace.plugin import Workspace, install
from loopharness.workspace.roots import OutsideRoot, Roots

__all__ = ["Limits", "OutsideRoot", "Roots", "Workspace", "install"]
