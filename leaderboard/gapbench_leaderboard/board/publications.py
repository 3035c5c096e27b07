"""Publications that the proxies of gapbench cite."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A publication that references name by their authors and year."""

    cited: str
    """As references cite it, such as "Jiang et al. 2020"."""
    kind: str
    """Of the BibTeX entry."""
    author: str
    title: str
    year: int
    fields: tuple[tuple[str, str], ...]
    """Further BibTeX fields."""
    arxiv: str = ""
    doi: str = ""


def _paper(cited: str, author: str, title: str, year: int, venue: str, arxiv: str) -> Source:
    return Source(cited, "inproceedings", author, title, year, (("booktitle", venue),), arxiv)


ICLR, ICML, NEURIPS = (
    "International Conference on Learning Representations",
    "International Conference on Machine Learning",
    "Advances in Neural Information Processing Systems",
)
SOURCES = (
    _paper(
        "Jiang et al. 2020",
        "Jiang, Yiding and Neyshabur, Behnam and Mobahi, Hossein and Krishnan, Dilip and Bengio, Samy",
        "Fantastic Generalization Measures and Where to Find Them",
        2020,
        ICLR,
        "1912.02178",
    ),
    _paper(
        "Keskar et al. 2017",
        "Keskar, Nitish Shirish and Mudigere, Dheevatsa and Nocedal, Jorge and Smelyanskiy, Mikhail and "
        "Tang, Ping Tak Peter",
        "On Large-Batch Training for Deep Learning: Generalization Gap and Sharp Minima",
        2017,
        ICLR,
        "1609.04836",
    ),
    _paper(
        "Foret et al. 2021",
        "Foret, Pierre and Kleiner, Ariel and Mobahi, Hossein and Neyshabur, Behnam",
        "Sharpness-Aware Minimization for Efficiently Improving Generalization",
        2021,
        ICLR,
        "2010.01412",
    ),
    _paper(
        "Kwon et al. 2021",
        "Kwon, Jungmin and Kim, Jeongseop and Park, Hyunseo and Choi, In Kwon",
        "{ASAM}: Adaptive Sharpness-Aware Minimization for Scale-Invariant Learning of Deep Neural Networks",
        2021,
        ICML,
        "2102.11600",
    ),
    _paper(
        "Andriushchenko et al. 2023",
        'Andriushchenko, Maksym and Croce, Francesco and M{\\"u}ller, Maximilian and Hein, Matthias and '
        "Flammarion, Nicolas",
        "A Modern Look at the Relationship between Sharpness and Generalization",
        2023,
        ICML,
        "2302.07011",
    ),
    _paper(
        "Bartlett, Foster and Telgarsky 2017",
        "Bartlett, Peter L. and Foster, Dylan J. and Telgarsky, Matus J.",
        "Spectrally-normalized margin bounds for neural networks",
        2017,
        NEURIPS,
        "1706.08498",
    ),
    Source(
        "Nagarajan and Kolter 2019",
        "misc",
        "Nagarajan, Vaishnavh and Kolter, J. Zico",
        "Generalization in Deep Networks: The Role of Distance from Initialization",
        2019,
        (),
        "1901.01672",
    ),
    _paper(
        "Dziugaite et al. 2020",
        "Dziugaite, Gintare Karolina and Drouin, Alexandre and Neal, Brady and Rajkumar, Nitarshan and "
        "Caballero, Ethan and Wang, Linbo and Mitliagkas, Ioannis and Roy, Daniel M.",
        "In Search of Robust Measures of Generalization",
        2020,
        NEURIPS,
        "2010.11924",
    ),
    _paper(
        "Tsuzuku et al. 2020",
        "Tsuzuku, Yusuke and Sato, Issei and Sugiyama, Masashi",
        "Normalized Flat Minima: Exploring Scale Invariant Definition of Flat Minima for Neural Networks Using "
        "{PAC-Bayesian} Analysis",
        2020,
        ICML,
        "1901.04653",
    ),
    _paper(
        "da Silva and Dangel 2025",
        "da Silva, Marvin F. and Dangel, Felix and Oore, Sageev",
        "Hide \\& Seek: Transformer Symmetries Obscure Sharpness \\& Riemannian Geometry Finds It",
        2025,
        ICML,
        "2505.05409",
    ),
    Source(
        "Sagun et al. 2017",
        "misc",
        "Sagun, Levent and Evci, Utku and G{\\\"u}ney, V. U{\\u g}ur and Dauphin, Yann and Bottou, L{\\'e}on",
        "Empirical Analysis of the {H}essian of Over-Parametrized Neural Networks",
        2017,
        (),
        "1706.04454",
    ),
    Source(
        "Hutchinson 1990",
        "article",
        "Hutchinson, M. F.",
        "A stochastic estimator of the trace of the influence matrix for {L}aplacian smoothing splines",
        1990,
        (
            ("journal", "Communications in Statistics - Simulation and Computation"),
            ("volume", "19"),
            ("number", "2"),
            ("pages", "433--450"),
        ),
        doi="10.1080/03610919008812866",
    ),
    Source(
        "Lanczos 1950",
        "article",
        "Lanczos, Cornelius",
        "An iteration method for the solution of the eigenvalue problem of linear differential and integral "
        "operators",
        1950,
        (
            ("journal", "Journal of Research of the National Bureau of Standards"),
            ("volume", "45"),
            ("number", "4"),
            ("pages", "255--282"),
        ),
        doi="10.6028/jres.045.026",
    ),
    Source(
        "Kempf and Ness 1979",
        "incollection",
        "Kempf, George and Ness, Linda",
        "The length of vectors in representation spaces",
        1979,
        (
            ("booktitle", "Algebraic Geometry"),
            ("series", "Lecture Notes in Mathematics"),
            ("volume", "732"),
            ("pages", "233--243"),
            ("publisher", "Springer"),
        ),
        doi="10.1007/BFb0066647",
    ),
    Source(
        "Neyshabur et al. 2015",
        "inproceedings",
        "Neyshabur, Behnam and Tomioka, Ryota and Srebro, Nathan",
        "Norm-Based Capacity Control in Neural Networks",
        2015,
        (("booktitle", "Conference on Learning Theory"),),
        "1503.00036",
    ),
    _paper(
        "Liang et al. 2019",
        "Liang, Tengyuan and Poggio, Tomaso and Rakhlin, Alexander and Stokes, James",
        "{Fisher-Rao} Metric, Geometry, and Complexity of Neural Networks",
        2019,
        "International Conference on Artificial Intelligence and Statistics",
        "1711.01530",
    ),
    _paper(
        "Novak et al. 2018",
        "Novak, Roman and Bahri, Yasaman and Abolafia, Daniel A. and Pennington, Jeffrey and "
        "Sohl-Dickstein, Jascha",
        "Sensitivity and Generalization in Neural Networks: an Empirical Study",
        2018,
        ICLR,
        "1802.08760",
    ),
    _paper(
        "Elsayed et al. 2018",
        "Elsayed, Gamaleldin F. and Krishnan, Dilip and Mobahi, Hossein and Regan, Kevin and Bengio, Samy",
        "Large Margin Deep Networks for Classification",
        2018,
        NEURIPS,
        "1803.05598",
    ),
    _paper(
        "Guo et al. 2017",
        "Guo, Chuan and Pleiss, Geoff and Sun, Yu and Weinberger, Kilian Q.",
        "On Calibration of Modern Neural Networks",
        2017,
        ICML,
        "1706.04599",
    ),
    Source(
        "Natekar and Sharma 2020",
        "misc",
        "Natekar, Parth and Sharma, Manik",
        "Representation Based Complexity Measures for Predicting Generalization in Deep Learning",
        2020,
        (),
        "2012.02775",
    ),
    _paper(
        "Jiang et al. 2019",
        "Jiang, Yiding and Krishnan, Dilip and Mobahi, Hossein and Bengio, Samy",
        "Predicting the Generalization Gap in Deep Networks with Margin Distributions",
        2019,
        ICLR,
        "1810.00113",
    ),
    Source(
        "Martin and Mahoney 2021",
        "article",
        "Martin, Charles H. and Mahoney, Michael W.",
        "Implicit Self-Regularization in Deep Neural Networks: Evidence from Random Matrix Theory and "
        "Implications for Learning",
        2021,
        (("journal", "Journal of Machine Learning Research"), ("volume", "22")),
        "1810.01075",
    ),
    _paper(
        "Martin and Mahoney 2020",
        "Martin, Charles H. and Mahoney, Michael W.",
        "Heavy-Tailed Universality Predicts Trends in Test Accuracies for Very Large Pre-Trained Deep Neural "
        "Networks",
        2020,
        "{SIAM} International Conference on Data Mining",
        "1901.08278",
    ),
    Source(
        "Clauset, Shalizi and Newman 2009",
        "article",
        "Clauset, Aaron and Shalizi, Cosma Rohilla and Newman, M. E. J.",
        "Power-Law Distributions in Empirical Data",
        2009,
        (("journal", "{SIAM} Review"), ("volume", "51"), ("number", "4"), ("pages", "661--703")),
        "0706.1062",
    ),
    Source(
        "Hill 1975",
        "article",
        "Hill, Bruce M.",
        "A Simple General Approach to Inference About the Tail of a Distribution",
        1975,
        (("journal", "Annals of Statistics"), ("volume", "3"), ("number", "5"), ("pages", "1163--1174")),
        "",
        "10.1214/aos/1176343247",
    ),
    _paper(
        "Golowich et al. 2018",
        "Golowich, Noah and Rakhlin, Alexander and Shamir, Ohad",
        "Size-Independent Sample Complexity of Neural Networks",
        2018,
        "Conference on Learning Theory",
        "1712.06541",
    ),
    _paper(
        "Neyshabur et al. 2018",
        "Neyshabur, Behnam and Bhojanapalli, Srinadh and Srebro, Nathan",
        "A {PAC-Bayesian} Approach to Spectrally-Normalized Margin Bounds for Neural Networks",
        2018,
        ICLR,
        "1707.09564",
    ),
    _paper(
        "Graf et al. 2022",
        "Graf, Florian and Zeng, Sebastian and Rieck, Bastian and Niethammer, Marc and Kwitt, Roland",
        "On Measuring Excess Capacity in Neural Networks",
        2022,
        NEURIPS,
        "2202.08070",
    ),
    _paper(
        "Petzka et al. 2021",
        "Petzka, Henning and Kamp, Michael and Adilova, Linara and Sminchisescu, Cristian and Boley, Mario",
        "Relative Flatness and Generalization",
        2021,
        NEURIPS,
        "2001.00939",
    ),
    Source(
        "Ibayashi et al. 2021",
        "misc",
        "Ibayashi, Hikaru and Hamaguchi, Takuo and Imaizumi, Masaaki",
        "Minimum sharpness: Scale-invariant parameter-robustness of neural networks",
        2021,
        (),
        "2106.12612",
    ),
    Source(
        "Rangamani et al. 2019",
        "misc",
        "Rangamani, Akshay and Nguyen, Nam H. and Kumar, Abhishek and Phan, Dzung and Chin, Sang H. and "
        "Tran, Trac D.",
        "A Scale Invariant Flatness Measure for Deep Network Minima",
        2019,
        (),
        "1902.02434",
    ),
)
"""Those that the proxies of gapbench cite."""
