"""What reports are made of: records that survive a stop, figures with intervals, charts and tables as HTML."""
