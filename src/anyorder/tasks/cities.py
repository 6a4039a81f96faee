"""Facts with shared prefixes: `{"city":"San Jose","country":"Costa Rica","pop":352381}`.

Cities share beginnings (San, Santa), names (two Cordobas) and countries, so that one word alone says little about the
record it belongs to. The populations are rounded memories of censuses and good for nothing else: the table is the truth
of this task.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random

from anyorder.tasks.task import Task

TABLE = """
San Jose,USA,1013240         San Jose,Costa Rica,352381       San Diego,USA,1386932    
San Francisco,USA,873965     San Juan,Argentina,471389        San Juan,Puerto Rico,342259 San Luis,Argentina,183982
San Salvador,El Salvador,525990
Santa Cruz,Bolivia,1453549   Santa Cruz,USA,62956             Santa Fe,Argentina,391231   Santa Fe,USA,87505
Santa Ana,El Salvador,245421 Santa Ana,USA,310227             Santa Clara,Cuba,205812     Santa Clara,USA,127647
Santa Rosa,USA,178127        Santiago,Chile,6257516           Santiago,Cuba,433099        Santiago,Spain,97260
Cordoba,Argentina,1329604    Cordoba,Spain,325701             Valencia,Spain,791413       Valencia,Venezuela,1484430
Merida,Mexico,921771         Merida,Spain,59335               Merida,Venezuela,330287     Leon,Mexico,1579803
Leon,Spain,124303            Leon,Nicaragua,206264            Cartagena,Colombia,914552   Cartagena,Spain,216108
Guadalajara,Mexico,1385629   Guadalajara,Spain,86222          Granada,Spain,228682        Granada,Nicaragua,105171
Toledo,USA,270871            Toledo,Spain,85811               Los Angeles,USA,3898747     Los Angeles,Chile,202331
Hyderabad,India,6809970      Hyderabad,Pakistan,1732693       Tripoli,Libya,1150989       Tripoli,Lebanon,229398
Georgetown,Guyana,118363     Georgetown,Malaysia,708127       Kingston,Jamaica,662426     Kingston,Canada,132485
London,UK,8799800            London,Canada,422324             Hamilton,Canada,569353      Hamilton,New Zealand,176500
Birmingham,UK,1144900        Birmingham,USA,200733            Manchester,UK,552000        Manchester,USA,115644
Cambridge,UK,145700          Cambridge,USA,118403             Perth,Australia,2192229     Perth,UK,47430
Newcastle,Australia,322278   Newcastle,UK,300196              Alexandria,Egypt,5200000    Alexandria,USA,159467
"""


@cache
def records() -> tuple[tuple[str, str, int], ...]:
    """City, country, population of all 64 records."""
    found = re.findall(r"([A-Z][A-Za-z ]*),([A-Z][A-Za-z ]*),(\d+)", TABLE)
    return tuple((city, country, int(population)) for city, country, population in found)


def document(city: str, country: str, population: int) -> str:
    """The record as JSON, without blanks between its parts."""
    return f'{{"city":"{city}","country":"{country}","pop":{population}}}'


@cache
def documents() -> tuple[str, ...]:
    """All 64 right documents."""
    return tuple(document(*record) for record in records())


def _draw(random: Random) -> str:
    return random.choice(documents())


def _is_right(text: str) -> bool:
    return text in documents()


CITIES = Task(
    name="cities",
    tag="{",
    length=max(map(len, documents())) + 1,
    part=r'(?<=":")[^"]+|\d+',
    draw=_draw,
    is_right=_is_right,
)
