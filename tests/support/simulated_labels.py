"""Labels of 40 rows, a judge's verdicts of these and of 160 other rows: drawn once, and given to other packages."""

from typing import Final

import numpy as np


def _read(digits: str) -> np.ndarray:
    return np.array([*map(float, digits)])


LABELS: Final = _read("0011111110111000111111011010010111110111")
JUDGE_ON_LABELS: Final = _read("0011111111111101111111011010010111101111")
JUDGE_ON_REST: Final = _read(
    "00111011111001010111001111110111111001100101101001111111101110001010101011111110"
    "11110111111010001111110101110111110101111011111110011010101111001101011111111111"
)
