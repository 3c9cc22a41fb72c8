"""What may stand in a bundle: words, and forms of texts, that tell of nobody."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

WORDS: dict[str, frozenset[str]] = {
    kind: frozenset(words.split())
    for kind, words in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
"""hashes, versions and facts: keys; variables: names; values: theirs; words and units: of texts;
identifying: what a name comes after."""
SLURM = {
    "node": "NODE",
    "job_id": "JOB",
    "partition": "PARTITION",
    "account": "ACCOUNT",
    "cluster": "CLUSTER",
    "qos": "QOS",
}
"""Facts of a run's job that identify, and the words that take their place."""
HIDDEN = "(not told)"
"""The value of a variable of a known name: a path, a list of devices by their ids …"""

NOT_A_FACT = re.compile(
    r"\w@\w|://|(?:^|[\s'\"=:,;(])[~/]\w|\\|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-|[^\x20-\uffff]"
)
"""An address, a path, a UUID or a control character."""
HASH = re.compile(r"(?:0x)?[0-9a-fA-F]{4,64}|(?=[A-Za-z._-]*\d)[\w.-]{1,64}", re.ASCII)
"""Of what was hashed or counted; a run's id is a time and a random number."""
VERSION = re.compile(r"(?=\D*\d)[\w.:!+()~-]{1,60}(?: [\w.:!+()~-]{1,60}){0,3}", re.ASCII)
SOURCE = re.compile(r"[\w.-]+(?:/[\w.-]+)?@[\w.-]+ [\w./-]+")
"""Where a public repository says what should run: `OpenBLAS@0123abc kernel/x86_64/KERNEL`."""
LONGEST_FACT = 1000
OPEN_KEYS = frozenset({"mitigations", "packages"})
"""Mappings whose keys the system names, and not gemmgrid."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}")


NODE_WORD = re.compile(
    r"(?:sandy|ivy)bridge|haswell|broadwell|skylake|cascadelake|cooperlake|icelake|emerald"
    r"rapids|sapphirerapids|graniterapids|naples|rome|milan|genoa|bergamo|turin|zen\d|epyc|xeon|"
    r"amd|intel|arm|grace|neoverse\w\d|avx\w{0,12}|sse\d\w{0,4}|amx|sve\d?|gpu|nogpu|ib|edr|hdr|"
    r"ndr|[pvahbl]\d{1,3}|mi\d{3}\w?|rtx\d{4}",
    re.IGNORECASE,
)
GRES = re.compile(rf"(?:gpu|mps|shard|mig)(?::(?:{NODE_WORD.pattern}))?(?::\d+)?", re.IGNORECASE)
SYSTEM = re.compile(
    r"(?:/usr(?:/local)?)?/lib(?:32|64)?/[\w.+/-]+|/opt/intel/[\w.+/-]+|/System/[\w.+/-]+|"
    r"/usr/local/cuda[\w.-]*/[\w.+/-]+"
)
INSIDE = re.compile(r"(?:ENVIRONMENT/|lib/|lib64/)[\w.+/-]+")
LIBRARY = re.compile(r"[\w.+-]+\.(?:so|dylib|dll|pyd|py)[\w.]*|lib[\w.+-]+|python[\d.]*")
