"""A live class: what its seats predict and what their checks say, on the teacher's projector."""
