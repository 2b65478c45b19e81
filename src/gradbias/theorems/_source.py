"""Where a theorem comes from."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Source:
    """A paper.

    Attributes:
        key: the name of its BibTeX entry.
        authors: "First Last and First Last".
        title: its title.
        venue: the proceedings or journal.
        year: when it appeared.
        read: the text in which its lines were read; corrections are about that text.
    """

    key: str
    authors: str
    title: str
    venue: str
    year: int
    read: str = "the text of the proceedings"

    @property
    def bibtex(self) -> str:
        """The entry, ready to be pasted."""
        fields = {
            "author": self.authors,
            "title": f"{{{self.title}}}",
            "booktitle": self.venue,
            "year": str(self.year),
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        return "\n".join([f"@inproceedings{{{self.key},", *lines, "}"])

    @property
    def related(self) -> str:
        """The entry for where a result is not the paper's, which is related work."""
        return self.bibtex.removesuffix("}") + "  note = {related work},\n}"

    def __str__(self) -> str:
        names = [author.split()[-1] for author in self.authors.split(" and ")]
        shown = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
        return f"{shown} ({self.year})"


RANK1 = Source(
    "lyu2023rank1",
    "Bochen Lyu and Zhanxing Zhu",
    "Implicit Bias of (Stochastic) Gradient Descent for Rank-1 Linear Neural Network",
    "Advances in Neural Information Processing Systems 36",
    2023,
    "a machine conversion of the supplement alone; the main text was not supplied",
)
SPECTRAL = Source(
    "varre2023spectral",
    "Aditya Varre and Maria-Luiza Vladarean and Loucas Pillaud-Vivien and Nicolas Flammarion",
    "On the spectral bias of two-layer linear networks",
    "Advances in Neural Information Processing Systems 36",
    2023,
    "a machine conversion of the NeurIPS text with its appendices",
)
ZEROLOSS = Source(
    "li2022zeroloss",
    "Zhiyuan Li and Tianhao Wang and Sanjeev Arora",
    "What Happens after SGD Reaches Zero Loss? -- A Mathematical Framework",
    "International Conference on Learning Representations",
    2022,
    "a machine conversion of the ICLR 2022 text with its appendices, which lost parts of fractions",
)
IMBALANCE = Source(
    "min2021imbalance",
    "Hancheng Min and Salma Tarmoun and René Vidal and Enrique Mallada",
    "On the Explicit Role of Initialization on the Convergence and Implicit Bias of "
    "Overparametrized Linear Networks",
    "Proceedings of the 38th International Conference on Machine Learning",
    2021,
    "a machine conversion of the ICML text with its appendices",
)
EQUILIBRIUM = Source(
    "ziyin2024equilibrium",
    "Liu Ziyin and Mingze Wang and Hongchao Li and Lei Wu",
    "Parameter Symmetry and Noise Equilibrium of Stochastic Gradient Descent",
    "Advances in Neural Information Processing Systems 37",
    2024,
    "a machine conversion of the NeurIPS text with its appendices",
)
