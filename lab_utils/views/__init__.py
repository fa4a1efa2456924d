"""The views: one function a picture, and the panel that triggers faults by hand."""
