"""Country names with one hot key: the twelve synthetic datasets of the DKG paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError
from skewless.hashing import lower_choice, random_word
from skewless.seeding import make_salt
from skewless.streams.base import SyntheticStream

# fmt: off
COUNTRIES: Final = (
    "Afghanistan", "Albania", "Algeria", "Andorra", "Angola", "Antigua and Barbuda", "Argentina", "Armenia", "Aruba",
    "Australia", "Austria", "Azerbaijan", "Bahamas", "Bahrain", "Bangladesh", "Barbados", "Belarus", "Belgium",
    "Belize", "Benin", "Bermuda", "Bhutan", "Bolivia", "Bosnia and Herzegovina", "Botswana", "Brazil", "Brunei",
    "Bulgaria", "Burkina Faso", "Burundi", "Cabo Verde", "Cambodia", "Cameroon", "Canada", "Central African Republic",
    "Chad", "Chile", "China", "Colombia", "Comoros", "Congo", "Cook Islands", "Costa Rica", "Croatia", "Cuba",
    "Cyprus", "Czechia", "Denmark", "Djibouti", "Dominica", "Dominican Republic", "DR Congo", "Ecuador", "Egypt",
    "El Salvador", "Equatorial Guinea", "Eritrea", "Estonia", "Eswatini", "Ethiopia", "Faroe Islands", "Fiji",
    "Finland", "France", "Gabon", "Gambia", "Georgia", "Germany", "Ghana", "Greece", "Greenland", "Grenada",
    "Guatemala", "Guinea", "Guinea-Bissau", "Guyana", "Haiti", "Honduras", "Hong Kong", "Hungary", "Iceland", "India",
    "Indonesia", "Iran", "Iraq", "Ireland", "Israel", "Italy", "Ivory Coast", "Jamaica", "Japan", "Jordan",
    "Kazakhstan", "Kenya", "Kiribati", "Kosovo", "Kuwait", "Kyrgyzstan", "Laos", "Latvia", "Lebanon", "Lesotho",
    "Liberia", "Libya", "Liechtenstein", "Lithuania", "Luxembourg", "Macao", "Madagascar", "Malawi", "Malaysia",
    "Maldives", "Mali", "Malta", "Marshall Islands", "Mauritania", "Mauritius", "Mexico", "Micronesia", "Moldova",
    "Monaco", "Mongolia", "Montenegro", "Morocco", "Mozambique", "Myanmar", "Namibia", "Nauru", "Nepal",
    "Netherlands", "New Zealand", "Nicaragua", "Niger", "Nigeria", "North Korea", "North Macedonia", "Norway", "Oman",
    "Pakistan", "Palau", "Palestine", "Panama", "Papua New Guinea", "Paraguay", "Peru", "Philippines", "Poland",
    "Portugal", "Qatar", "Romania", "Russia", "Rwanda", "Saint Kitts and Nevis", "Saint Lucia",
    "Saint Vincent and the Grenadines", "Samoa", "San Marino", "Sao Tome and Principe", "Saudi Arabia", "Senegal",
    "Serbia", "Seychelles", "Sierra Leone", "Singapore", "Slovakia", "Slovenia", "Solomon Islands", "Somalia",
    "South Africa", "South Korea", "South Sudan", "Spain", "Sri Lanka", "Sudan", "Suriname", "Sweden", "Switzerland",
    "Syria", "Taiwan", "Tajikistan", "Tanzania", "Thailand", "Timor-Leste", "Togo", "Tonga", "Trinidad and Tobago",
    "Tunisia", "Turkey", "Turkmenistan", "Tuvalu", "Uganda", "Ukraine", "United Arab Emirates", "United Kingdom",
    "United States", "Uruguay", "Uzbekistan", "Vanuatu", "Vatican City", "Venezuela", "Vietnam", "Yemen", "Zambia",
    "Zimbabwe",
)
# fmt: on
HOT_COUNTRY: Final = "Turkey"
_HOT_CODE: Final = COUNTRIES.index(HOT_COUNTRY)


@njit(cache=True)
def draw_codes(
    start: int, stop: int, salt: np.uint64, hot_below: np.uint64, hot_code: int, n_codes: int
) -> NDArray[np.int16]:
    """Draw positions start to stop: the hot code if the word's upper half is below a bound, else any code."""
    codes = np.empty(stop - start, dtype=np.int16)
    for i in range(start, stop):
        word = random_word(salt, i)
        codes[i - start] = hot_code if word >> uint64(32) < hot_below else lower_choice(word, n_codes)
    return codes


@cache
def _names() -> pa.Array:
    return pa.array(COUNTRIES)  # not at import: Arrow looks for pandas here, which is slow to load


def _draw(start: int, stop: int, seed: int, percent: int) -> NDArray[np.int16]:
    hot_below = np.uint64(percent * 2**32 // 100)
    codes: NDArray[np.int16] = draw_codes(start, stop, make_salt(seed), hot_below, _HOT_CODE, len(COUNTRIES))
    return codes


@dataclass(frozen=True, kw_only=True)
class CountrySkew(SyntheticStream):
    """Names of 204 countries: one of them with a probability of `percent` %, otherwise any with equal probability.

    >>> CountrySkew(percent=100).slice(0, 2, tuples=2, seed=0).to_pylist()
    ['Turkey', 'Turkey']

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, section 5.1, Table 2 (country-skew-r0 to r100, 10 million tuples each).
    Deviations: the paper does not list its names; these 204 are ours.
    """

    percent: int

    def __post_init__(self) -> None:
        require_percent(self.percent)

    @property
    def label(self) -> str:
        return f"country-skew-r{self.percent}"

    @property
    def summary(self) -> str:
        return f"{HOT_COUNTRY} in {self.percent} %, else any of {len(COUNTRIES)} countries"

    def _keys(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.Array:
        return pa.DictionaryArray.from_arrays(_draw(start, stop, seed, self.percent), _names())


@dataclass(frozen=True, kw_only=True)
class CountryHalfSkew(SyntheticStream):
    """`CountrySkew` for the first half of the stream, uniform for the second: skew that ends.

    >>> CountryHalfSkew(percent=100).slice(0, 6, tuples=6, seed=0).to_pylist()[:3]
    ['Turkey', 'Turkey', 'Turkey']

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, Table 2 (country-half-skew-r80). Deviations: none.
    """

    percent: int = 80

    def __post_init__(self) -> None:
        require_percent(self.percent)

    @property
    def label(self) -> str:
        return f"country-half-skew-r{self.percent}"

    @property
    def summary(self) -> str:
        return f"the same with {self.percent} % for the first half, uniform after"

    def _keys(self, start: int, stop: int, seed: int, tuples: int, /) -> pa.Array:
        middle = min(max(start, (tuples + 1) // 2), stop)
        codes = np.concatenate([_draw(start, middle, seed, self.percent), _draw(middle, stop, seed, 0)])
        return pa.DictionaryArray.from_arrays(codes, _names())


def require_percent(percent: int) -> None:
    """Refuse what is no percentage."""
    if not 0 <= percent <= 100:
        raise ConfigurationError(subject="percent", expected="between 0 and 100", value=percent)
