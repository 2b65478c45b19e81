"""What members share is made once."""

import gc

import numpy as np

from gradbias.numerics.memo import Memo


def test_the_same_objects_give_the_same_result():
    memo = Memo()
    a, b = np.ones(3), np.ones(3)
    first = memo.of("sum", (a, b), lambda: [a, b])
    assert memo.of("sum", (a, b), lambda: []) is first
    assert memo.of("other", (a, b), lambda: []) == []
    assert memo.of("sum", (b, a), lambda: "equal, but another") == "equal, but another"


def test_no_new_object_is_taken_for_one_that_is_gone():
    """Its sources stay alive: a freed object's identity may be that of the next."""
    memo = Memo()
    for i in range(100):
        assert memo.of("one", (np.zeros(5),), lambda i=i: i) == i
        gc.collect(0)
