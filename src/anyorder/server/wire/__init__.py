"""What goes over the wire, one module per surface: requests as checked data, answers as JSON."""
