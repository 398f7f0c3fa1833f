"""The second statement of the law: running TLC, reading what it says, comparing its graphs with those of `loopspec`."""
