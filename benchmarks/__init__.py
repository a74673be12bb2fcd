"""Speed, measured against a peer or a bare library in the same run. Not part of the tests."""
