"""python -m tests.families.table > docs/models.md: the matrix run, as a table for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from transformers.utils import logging

from sinkchat.cache.attention import NAME
from sinkchat.errors import ModelRefused
from sinkchat.models.family import check_family
from tests.families import product
from tests.families.families import FAMILIES, KIN, OWN_WINDOW, Family
from tests.families.matrix import CHUNKS, COUNT, POLICIES, POSITIONS, SINKS, WINDOW, Case, cases, witness, worst
from tests.families.models import tiny_config
from tests.families.refused import REFUSED, Refused, config_of, tiny_refused

HEAD = f"""# Models that run, and models that are refused

Made by running the tests' matrix over tiny random models, one or more of each family:
`python -m tests.families.table > docs/models.md`.

Each is run for {COUNT} tokens with {SINKS} sinks and a window of {WINDOW} entries, fed in chunks of
{", ".join(map(str, CHUNKS[:-1]))} and {CHUNKS[-1]} tokens, under the policies {", ".join(POLICIES[:-1])}
and through a switch from sinks to window and back. With `positions = absolute` it is compared with the model's own
eager attention under an explicit mask, with `positions = cache` with the paper's procedure, in which every key is
rotated anew at every step. The program has no such list: a model is proved when it is loaded, layer by layer.

Differences are the largest over all these runs: of logits as a part of their scale, of sink shares per head as they
are. Rounding in float32 alone gives about 1e-6.
"""

RUN = """
## Runs exactly

"Rotary" counts the layers whose queries turn with the position. In the others the policy works and `positions`
changes nothing. A layer with an own window keeps it where it is no longer than the cache's, and has no sinks then;
where that is every layer, the policy changes nothing. Learned sinks are numbers of the model, no entries of the
cache, and are shown apart.
"""

RELATIVES = """
## Relatives

Not promised, and tried all the same: the default rope type, with switches.
"""

NOT_RUN = """
## Refused

By the config, before weights are read, where it tells; else by the proof at load.
"""

ROPES = "rope types"
COLUMNS = ("family", ROPES, "rotary layers", "own windows", "learned sinks", "logits", "shares")
WITHOUT_ROPES = tuple(column for column in COLUMNS if column != ROPES)


@dataclass(frozen=True)
class Row:
    cells: tuple[str, ...]
    exact: bool


def row(family: Family, which: Iterable[Case]) -> Row:
    """A family's own, or the reason why it is refused."""
    try:
        most = worst(which)
    except ModelRefused as refused:
        return Row((family.name, str(refused)), exact=False)
    if not most.exact:
        raise AssertionError(f"{family.name} is neither exact nor refused: {most}")
    _, turns = product.ready(family.name, "default", WINDOW)
    _, own = witness(family.name, "default")
    ropes = dict.fromkeys(rope.split(",")[0] for rope in family.ropes)
    kept = sum(window is not None for window in own)
    return Row(
        (
            family.name.split(",")[0],
            ", ".join(ropes),
            of(sum(turn is not None for turn in turns), family.layers),
            of(kept, family.layers),
            "yes" if most.has_learned else "",
            f"{most.logits:.0e}",
            f"{most.shares:.0e}" if kept < family.layers else "no sinks",
        ),
        exact=True,
    )


def of(count: int, layers: int) -> str:
    return "" if count == 0 else "all" if count == layers else f"{count} of {layers}"


def reasons(refused: Refused) -> tuple[str, str]:
    """What the first gate says, and which it is."""
    try:
        check_family(config_of(refused).to_dict(), refused.name)
    except ModelRefused as error:
        return "config", str(error)
    try:
        product.proved(tiny_refused(refused, NAME), WINDOW)
    except ModelRefused as error:
        return "proof", str(error)
    raise AssertionError(f"{refused.name} is not refused")


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def main() -> None:
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    promised = [row(family, cases(family)) for family in FAMILIES]
    kin = [
        row(family, [Case(family.name, "default", POLICIES[-1], positions) for positions in POSITIONS])
        for family in KIN
    ]
    for family in FAMILIES:
        check_family(tiny_config(family).to_dict(), family.name)
    assert all(one.exact for one in promised), [one.cells for one in promised if not one.exact]
    out = sys.stdout.write
    out(HEAD + RUN + "\n" + markdown(COLUMNS, [one.cells for one in promised]))
    out(f"\nOwn windows are {OWN_WINDOW} tokens here, so that they bind.\n")
    out(RELATIVES + "\n" + markdown(WITHOUT_ROPES, [(one.cells[0], *one.cells[2:]) for one in kin if one.exact]))
    out("\n" + markdown(("refused", "why"), [one.cells for one in kin if not one.exact]))
    out(NOT_RUN + "\n" + markdown(("family", "by", "why"), [(one.name, *reasons(one)) for one in REFUSED]))


if __name__ == "__main__":
    main()
