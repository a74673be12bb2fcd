"""Dataset formats: the meaning of the fields of a record.

A format is a class: :class:`.base.DatasetFormat` tells what it declares, and :mod:`.registry` finds it.
:mod:`leadline.tasks.load.chat` reads conversations for the formats that have them.
"""
