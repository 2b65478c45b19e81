"""Classification: which separator, how fast, and what a run proves about the best one."""

from . import (
    _certificate,
    _deep,
    _diagonal,
    _homogeneous,
    _norm_calculus,
    _offset,
    _slow,
    _steepest,
)

THEOREMS = (
    *_certificate.THEOREMS,
    *_steepest.THEOREMS,
    *_offset.THEOREMS,
    *_slow.THEOREMS,
    *_deep.THEOREMS,
    *_homogeneous.THEOREMS,
    *_diagonal.THEOREMS,
    *_norm_calculus.THEOREMS,
)
