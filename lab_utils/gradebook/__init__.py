"""After the grading: a row for each learner over all labs, and what the class understood."""
