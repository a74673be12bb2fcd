"""Plug-ins: parts that not every user needs, each with its tests. The core knows none; entry points name them."""
