"""The labs of the tests are read by the grader, and not collected by pytest."""

collect_ignore = ["files"]
