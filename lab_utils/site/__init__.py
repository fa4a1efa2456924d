"""The course as static pages, on which the explorers show recorded runs without a kernel."""
