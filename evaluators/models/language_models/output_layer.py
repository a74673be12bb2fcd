"""The last layer of a language model: from hidden vectors to how unlikely given tokens are.

It makes a number for every token of the vocabulary at every place of a text, most of which nobody asks for. Here it
sees only the places that are asked for, in slices whose numbers stay near the processor, while the layers before it run
with batches of full size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

SLICE_CPU: Final = 128
SLICE_ACCELERATOR: Final = 4096
"""Places that go through the layer at once."""


class OutputLayer:
    """The output layer of a language model, not applied while the model itself runs.

    Attributes:
        apart: Whether nothing comes after the layer, so that it can be applied on its own. Otherwise the model applies
            it, and what comes after, to all places that are asked for at once.
    """

    def __init__(self, head: torch.nn.Module, probe: Callable[[], torch.Tensor], device: str) -> None:
        """Take hold of a layer.

        Args:
            head: The layer; what it is called with is a tensor of shape ``(texts, tokens, width)``.
            probe: Runs the model on a few tokens and returns its logits.
            device: Where the model is.
        """
        self._head = head
        self._slice = SLICE_CPU if device == "cpu" else SLICE_ACCELERATOR
        self._places: tuple[torch.Tensor, torch.Tensor] | None = None
        self._hidden: torch.Tensor | None = None
        self.apart = False
        head.register_forward_pre_hook(self._pick)
        self.apart = self._is_last(probe)

    def losses(
        self, run: Callable[[], Any], places: tuple[torch.Tensor, torch.Tensor], targets: torch.Tensor
    ) -> torch.Tensor:
        """Return -ln p of tokens, float64 on the CPU, of shape ``(places,)``.

        Args:
            run: Runs the model and returns its output with the logits.
            places: Texts and tokens after which the targets are predicted, each of shape ``(places,)``.
            targets: The tokens that are predicted.
        """
        import torch
        from torch.nn.functional import cross_entropy

        with self._only(places):
            logits = run().logits
            hidden = self._hidden
        if hidden is None:
            logits = logits.reshape(-1, logits.shape[-1])
            return cross_entropy(logits.float(), targets, reduction="none").cpu().double()
        size = self._slice
        parts = [
            cross_entropy(self._head(each).float(), wanted, reduction="none")
            for each, wanted in zip(torch.split(hidden, size), torch.split(targets, size), strict=True)
        ]
        return torch.cat(parts).cpu().double()

    def without(self, run: Callable[[], Any]) -> Any:
        """Run the model without its output layer and return what it returns, its logits empty."""
        import torch

        nowhere = torch.zeros(0, dtype=torch.long)
        with self._only((nowhere, nowhere)):
            return run()

    @contextmanager
    def _only(self, places: tuple[torch.Tensor, torch.Tensor]) -> Iterator[None]:
        self._places = places
        try:
            yield
        finally:
            self._places = self._hidden = None

    def _pick(self, head: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Give the layer only the places that are asked for, or none when it is applied apart."""
        if self._places is None:
            return inputs
        rows, columns = self._places
        picked = inputs[0][rows, columns]
        if self.apart:
            self._hidden = picked
            picked = picked[:0]
        return (picked[None], *inputs[1:])

    def _is_last(self, probe: Callable[[], torch.Tensor]) -> bool:
        """Return whether the model's logits are what the layer alone makes of its input."""
        import torch

        seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        hook = self._head.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output)))
        try:
            with torch.inference_mode():
                logits = probe()
        finally:
            hook.remove()
        return len(seen) == 1 and seen[0][1].shape == logits.shape and bool(torch.equal(seen[0][1], logits))
