"""Assertions on single answers, and the words in which a failing check says what is wrong with an answer."""
