"""Near names are suggested, and the others listed."""

import pytest

from gapbench_base.suggestions import near_and_others

NAMES = ["learning_rate", "batch_size", "momentum"]


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("learning_rat", NAMES, " Did you mean 'learning_rate'? The others: batch_size, momentum."),
        ("zzz", NAMES, " Known: learning_rate, batch_size, momentum."),
        ("ab", ["abc", "abd", "q"], " Did you mean 'abd' or 'abc'? The others: q."),
        ("tau", ["taux"], " Did you mean 'taux'?"),
        (7, [], " Known: none."),
        ("zzz", list(map(str, range(41))), " There are 41, none of which is near."),
        ("q", ["q1", *map(str, range(41))], " Did you mean 'q1'? There are 41 others."),
    ],
)
def test_near_names_come_first(name, known, words):
    assert near_and_others(name, known) == words
