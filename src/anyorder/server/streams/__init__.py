"""From events to what a client reads: append-only text, snapshots of the canvas, typed events. No HTTP."""
