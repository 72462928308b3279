"""Splits texts into words for searches: folded, without punctuation.

In scripts without spaces, a word begins at each letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WORD_CHARS = 40
"""Limit in characters of a word. Longer words are cut, in texts and in searches alike."""
MAX_WORDS = 400
"""Limit of words per text; the first ones are kept."""
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(text: str) -> tuple[str, ...]:
    """Return the distinct words of a search, in order: `NYC taxi-trips` is nyc, taxi, trips."""
    return tuple(dict.fromkeys(word.casefold()[:WORD_CHARS] for word in _WORD.findall(text)))


def indexed_words(text: str) -> frozenset[str]:
    """Return all words that a search by prefix should find; camel case names also in parts."""
    found: dict[str, None] = {}
    for word in _all_words(text):
        found[word] = None
        if len(found) == MAX_WORDS:
            break
    return frozenset(found)


def _all_words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match[0]
        for part in {word, *_HUMPS.split(word)}:
            yield part[:WORD_CHARS].casefold()[:WORD_CHARS]
        for letter in _UNSPACED.finditer(word):
            at = letter.start()  # cut first: each letter begins a word
            yield word[at : at + WORD_CHARS].casefold()[:WORD_CHARS]
