"""Upper and lower case of strings that are not ASCII, as Spark's library (ICU) has them.

Python's rules are the same; it only knows an older Unicode. The letters that were added are listed here.
"""

from __future__ import annotations

_NEW_PAIRS = {
    0xA7DC: 0x19B,
    0xA7CB: 0x264,
    0x1C89: 0x1C8A,
    0xA7CC: 0xA7CD,
    0xA7CE: 0xA7CF,
    0xA7D2: 0xA7D3,
    0xA7D4: 0xA7D5,
    0xA7DA: 0xA7DB,
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
}
_UPPER = {small: large for large, small in _NEW_PAIRS.items()}

# At the end of a word, Σ becomes ς. Where words end depends on what is a letter and what only marks one.
_NEW_LETTERS = "1C89-1C8A A7CB-A7CF A7D2 A7D4 A7DA-A7DC 10D50-10D65 10D70-10D85 16EA0-16EB8 16EBB-16ED3 1DF25-1DF2A"
_NEW_MARKS = """
    897 ECE 1ACF-1ADD 1AE0-1AEB A7F1 10D4E 10D69-10D6D 10D6F 10EC5 10EFA-10EFF 11241 113BB-113C0 113CE 113D0 113D2
    113E1-113E2 11B60 11B62-11B64 11B66 11DD9 11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13439-13440 13447-13455
    1611E-16129 1612D-1612F 16D40-16D42 16D6B-16D6C 16FF2-16FF3 1E030-1E06D 1E08F 1E4EB-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6
    1E6EE-1E6EF 1E6F5 1E6FF
"""
_NO_LETTERS = "295 1171E"


def _codes(ranges: str) -> list[int]:
    ends = [(part.split("-") * 2)[:2] for part in ranges.split()]
    return [code for first, last in ends for code in range(int(first, 16), int(last, 16) + 1)]


# Old characters that stand for new ones of the same kind while it is decided where words end.
_STAND_INS = {
    **dict.fromkeys(_codes(_NEW_LETTERS), "a"),
    **dict.fromkeys(_codes(_NEW_MARKS), "\u0301"),
    **dict.fromkeys(_codes(_NO_LETTERS), " "),
    0x130: "I",  # the only capital that becomes two characters
}


def upper(text: str) -> str:
    return text.translate(_UPPER).upper()


def lower(text: str) -> str:
    """
    >>> lower("ΟΔΥΣΣΕΥΣ")
    'οδυσσευς'
    """
    if "Σ" not in text:
        return text.translate(_NEW_PAIRS).lower()
    ends = text.translate(_STAND_INS).lower()
    sigmas = [ends[at] if letter == "Σ" else letter for at, letter in enumerate(text)]
    return "".join(letter.translate(_NEW_PAIRS).lower() for letter in sigmas)
