"""Load for a server, and what it was like for its clients: arrivals, requests, records, percentiles."""
