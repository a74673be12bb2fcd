"""The pytest plugin: answers become tests, one for each case, each line of the policy, and the gate.

pytest loads :mod:`.plugin` in every session of whoever has Leadline installed, so that module imports nothing but
pytest; the others are imported when a test asks for them. ``docs/pytest.md`` is the page for users.
"""
