"""One module per command of `loopspec`; each holds a click command called `command`."""
