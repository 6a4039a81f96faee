"""Many requests at once: one engine, one thread, and a queue in front of them."""

from anyorder.serving.metrics import Metrics as Metrics
from anyorder.serving.metrics import ServiceStatus as ServiceStatus
from anyorder.serving.service import Service as Service
from anyorder.serving.settings import ServiceSettings as ServiceSettings
from anyorder.serving.ticket import Ticket as Ticket
from anyorder.serving.ticket import Timing as Timing
from anyorder.serving.work import Priority as Priority
from anyorder.serving.work import Work as Work
