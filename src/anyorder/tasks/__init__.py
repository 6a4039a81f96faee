"""Small worlds whose every answer can be checked; the model "tasks" has learned them, see docs/any-order-model.md."""
