"""One pure builder per child, one file each; an object is complete when its builder returns it."""
