"""Plain, slow, independent reimplementations against which the production engines are tested."""
