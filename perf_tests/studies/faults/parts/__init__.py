"""The parts that cases are built from: loaders, loops, steps and the time they take."""
