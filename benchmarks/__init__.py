"""What the measurements cost, against other ways of taking them: python -m benchmarks."""
