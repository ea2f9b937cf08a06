"""Facts that can be planted and asked for: a name and the word that goes with it, as tokens of a tokenizer.

A fact is a line `Alice: lantern`, and its question is the line's beginning. A base model goes on with it as well as a
chat model, and in a few tokens; of the wordings tried, models of 135M parameters answer this one best.

The answer is drawn evenly from the candidates, and independently of all else that is in a stream. So whoever does not
see the fact is right in one case out of CANDIDATES, whatever the model's likings and whatever other words it sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from sinkchat.errors import UsageError
from sinkchat.models.encoding import TextEncoder
from sinkchat.models.load import LoadedModel

CANDIDATES = 10
"""Answers to choose from, the right one included."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is planted is `head`, `answer`, `closing`; what asks for it is `head`."""

    name: str
    word: str
    head: tuple[int, ...]
    answer: int
    closing: tuple[int, ...]
    candidates: tuple[int, ...]
    """Pairwise different, the right one among them, in an order that tells nothing."""


class FactMaker:
    """Makes facts that have nothing in common but their words."""

    def __init__(self, loaded: LoadedModel, text: str) -> None:
        """Names that occur in `text`, where the facts are to be planted, are left out.

        Raises UsageError when the tokenizer has too few of the words as one token.
        """
        self._encoder = TextEncoder(loaded.tokenizer)
        known = set(re.findall(r"\w+", text.casefold()))
        self.names = [name for name in NAMES if name.casefold() not in known]
        self._words = _single_tokens(self._encoder)
        self._closing = self._encoder.text("\n")
        if len(self._words) < CANDIDATES or not self._closing:
            raise UsageError(
                f"The tokenizer of {loaded.facts.name} has {len(self._words)} of the recall probe's words as one "
                f"token each, and a question takes {CANDIDATES}; leave the recall probe out."
            )

    def make(self, name: str, chance: Random) -> Fact:
        candidates = chance.sample(list(self._words), CANDIDATES)
        word = chance.choice(candidates)
        return Fact(
            name=name,
            word=word,
            head=self._encoder.text(f"\n{name}:"),
            answer=self._words[word],
            closing=self._closing,
            candidates=tuple(self._words[candidate] for candidate in candidates),
        )


def _single_tokens(encoder: TextEncoder) -> dict[str, int]:
    """Of WORDS with a space before them, those that are a token of their own."""
    found: dict[str, int] = {}
    for word in WORDS:
        ids = encoder.text(f" {word}")
        if len(ids) == 1 and ids[0] not in found.values():
            found[word] = ids[0]
    return found


_NAMES = """
Adele Agnes Akira Alba Aldo Alice Amara Amir Anders Anita Anton Arjun Astrid Aurora Bashir Beatrix Bianca Bjorn
Boris Brigitte Bruno Camila Carmen Cecilia Cedric Chidi Clara Claudia Conrad Cyrus Dahlia Dalia Damian Daphne
Diego Dmitri Dolores Doris Edgar Edith Elena Elias Elsa Emeka Enrico Erika Esther Fabian Farid Fatima Felix
Fiona Florian Freya Gaston Gerda Gideon Giulia Gloria Greta Gunnar Gustav Hanna Hassan Hector Heidi Helga Henrik
Hilda Hugo Ibrahim Ines Ingrid Irene Isaac Ivan Jasper Javier Joanna Jonas Judith Julio Kamala Karim Karin Kenji
Klaus Lars Leila Leon Linnea Lorenzo Lucia Magnus Malik Marco Marta Matilda Mei Miguel Milan Mira Nadia Naomi
Nikolai Nora Odette Olga Omar Oscar Otto Pablo Paula Pedro Petra Priya Quentin Rafael Ramona Ravi Rosa Rufus
Sabine Salma Samir Selma Sergio Sigrid Silvia Simone Sofia Stefan Sven Tamara Tariq Teresa Thea Tobias Ulrich
Ursula Valeria Vera Viktor Walter Wanda Wilma Xenia Yara Yusuf Yvonne Zelda Zoe
"""
NAMES = tuple(_NAMES.split())

_WORDS = """
apple arrow basket beach bell bird bone bottle bread bridge bucket butter cake camera candle carpet castle chain
cheese clock cloud coffee copper cotton crown diamond doctor dragon drum engine feather fence finger flag flower
forest garden ghost glass guitar hammer honey horse iron island jacket juice kitchen knife ladder lamp leather
lemon lion marble mirror monkey moon mountain mouse needle ocean oil orange paper pepper piano pillow pilot
planet plate pocket prince queen rabbit rain ring river robot rope saddle salt sand shadow sheep ship shirt silk
silver snake snow soap soldier spoon storm sugar summer sword temple thunder ticket tower train truck valley
violin wheel whisper window winter wolf wood yellow
"""
WORDS = tuple(_WORDS.split())
