"""A statement is written once, in LaTeX between dollars; here it becomes other forms."""

import html
import re

# Names of functions, upright; LaTeX itself knows some of them only.
_NAMED = (
    "arg|min|max|dim|ln|log|exp|cos|tanh|cosh|sinh|asinh|det|rank|span|tr|Tr|Var|diag|sign|sgn|inf|sup"
    "|lim"
)
# Commands that Unicode has no single character for; a brace group is written {…} in the pattern.
_GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
_REWRITES = [
    (r"\\(?:left|right|big|Big|bigl|bigr|,|;|!|quad|displaystyle)(?![a-zA-Z])", " "),
    (r"\\(?:mathrm|operatorname|text|mathbf|mathbb|mathcal)\s*" + _GROUP, r"\1"),
    (r"\\(?:mathcal|mathbb)\s+([A-Za-z])", r"\1"),
    (r"\\[td]?frac\s*" + _GROUP + r"\s*" + _GROUP, r"(\1)/(\2)"),
    (r"\\[td]?frac(\d)(\d)", r"\1/\2"),
    (r"\\sqrt\s*" + _GROUP, r"√(\1)"),
    (rf"\\({_NAMED})(?![a-zA-Z])", r"\1 "),
    (r"\\dot\s*(\\[a-zA-Z]+|[A-Za-z])", "\\1\u0307"),
    (r"\\bar\s*(\\[a-zA-Z]+|[A-Za-z])", "\\1\u0304"),
    (r"\\hat\s*(\\[a-zA-Z]+|[A-Za-z])", "\\1\u0302"),
    (r"\\tilde\s*(\\[a-zA-Z]+|[A-Za-z])", "\\1\u0303"),
    (r"\\(?:top|intercal)(?![a-zA-Z])", "ᵀ"),
    (r"\\lVert|\\rVert|\\Vert", "‖"),
    (r"\\star(?![a-zA-Z])", "*"),
]


def to_unicode(statement: str) -> str:
    """The statement for a terminal: formulas in Unicode."""
    return _formulas(statement, _unicode)


def to_html(statement: str) -> str:
    """The statement for a page: formulas in MathML, which browsers draw themselves."""
    parts = statement.split("$")
    return "".join(_mathml(p) if i % 2 else html.escape(p) for i, p in enumerate(parts))


def _mathml(formula: str) -> str:
    """A formula; a command that the converter would print as it stands is refused."""
    from latex2mathml.converter import convert

    named = re.sub(rf"\\({_NAMED})(?![a-zA-Z])", r"\\operatorname{\1}", formula)
    text = convert(named)
    unknown = re.search(r"\\[a-zA-Z]+", text)
    if unknown is not None:
        raise ValueError(f"formula has the unknown command {unknown[0]!r}: {formula!r:.80}")
    return text


def check_dollars(statement: str) -> None:
    """Refuse a statement whose formulas do not end."""
    if statement.count("$") % 2:
        raise ValueError(f"statement must have an even number of '$', got {statement!r:.80}")


def _formulas(statement: str, convert) -> str:
    parts = statement.split("$")
    return "".join(convert(part) if i % 2 else part for i, part in enumerate(parts))


def _unicode(formula: str) -> str:
    import unicodeit

    before = None
    while before != formula:  # groups nest: the inner ones first give way to the outer
        before = formula
        for pattern, replacement in _REWRITES:
            formula = re.sub(pattern, replacement, formula)
    formula = re.sub(r"\(([\w.]|\\\w+)\)/\(([\w.]|\\\w+)\)", r"\1/\2", formula)
    text = unicodeit.replace(formula)
    text = re.sub(r"\^ᵀ|\^\{ᵀ\}", "ᵀ", text)
    text = re.sub(r"([\^_])\{(.)\}", r"\1\2", text)
    text = re.sub(r"([\^_])" + _GROUP, r"\1(\2)", text)
    return re.sub(r"\s+", " ", text.replace("{", "").replace("}", "")).strip()
