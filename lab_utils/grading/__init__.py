"""The grading: exercises as data, notebooks built from source, submissions judged on evidence."""
