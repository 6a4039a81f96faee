"""Parity with published code: replays recorded logits and decoding runs and says where they differ.

from anyorder import reference

for result in reference.run("path/to/folder"):
    print(result.family, result.case, result.passed, result.detail)
"""

from __future__ import annotations

from anyorder.reference.suite import CaseResult as CaseResult
from anyorder.reference.suite import families as families
from anyorder.reference.suite import run as run
