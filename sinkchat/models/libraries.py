"""How the libraries behave here: quiet, and running no code from a hub. Import before transformers where possible.

Their bars and warnings would tear the screen; progress is ours to show, and what must be said is an error or a fact.
"""

from __future__ import annotations

import logging
import os

# Read once, when transformers is first imported: no compiled kernels from the hub, and no looking for them.
os.environ["USE_HUB_KERNELS"] = "0"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

# Read once, when torch is first imported. Its threads meet some hundred times a token; by default each waits by
# spinning, which on a machine with anything else to do (a screen to draw is enough) keeps the others from arriving:
# 0.5 tokens a second were measured so, and 19 with waiting threads asleep.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def quiet() -> None:
    """Silence the bars and warnings of whatever is imported already or later."""
    from huggingface_hub.utils import disable_progress_bars
    from transformers.utils import logging as transformers_logging

    disable_progress_bars()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    for name in ("bitsandbytes", "huggingface_hub", "accelerate"):
        logging.getLogger(name).setLevel(logging.ERROR)
