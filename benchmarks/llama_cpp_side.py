"""The llama.cpp side of `causal.py`, run by an interpreter that has llama-cpp-python and needs nothing else.

    llama_cpp_side.py FILE.gguf THREADS

Reads one JSON object per line ({"prompt": ids, "tokens": n}), answers with one ({"seconds": s, "ids": ids}).
"""

from __future__ import annotations

import json
import sys
import time
from itertools import islice

from llama_cpp import Llama


def main() -> None:
    path, threads = sys.argv[1], int(sys.argv[2])
    llm = Llama(path, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
    for line in sys.stdin:
        asked = json.loads(line)
        llm.reset()  # or it would find the last prompt in its cache
        began = time.perf_counter()
        ids = list(islice(llm.generate(asked["prompt"], temp=0.0, repeat_penalty=1.0), asked["tokens"]))
        print(json.dumps({"seconds": time.perf_counter() - began, "ids": ids}), flush=True)


if __name__ == "__main__":
    main()
