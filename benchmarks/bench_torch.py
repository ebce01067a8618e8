"""skstruct.torch beside pytorch-crf, in one run.

    python benchmarks/bench_torch.py [--json OUT] [--threads N ...] [--labels K ...]

Needs torch and pytorch-crf. A batch of 32 sentences: of 30 tokens each, or of 10 to 50 with a mask.
Both layers have the same parameters and see the same emissions. Training is the forward and the
backward pass; the marginals of pytorch-crf are the gradient of its log-partition, which is all it
has. Wall milliseconds, the smallest of several runs, the layers in turn. Before it measures, it
compares what the two compute.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import torch
import torchcrf

import skstruct.torch

_BATCH, _TOKENS = 32, 30


def batch(n_labels, dtype, ragged):
    """Emissions, tags and mask."""
    draw = torch.Generator().manual_seed(0)
    longest = 50 if ragged else _TOKENS
    emissions = torch.randn(_BATCH, longest, n_labels, generator=draw, dtype=dtype)
    tags = torch.randint(n_labels, (_BATCH, longest), generator=draw)
    lengths = torch.randint(10, longest + 1, (_BATCH,), generator=draw)
    lengths = lengths if ragged else torch.full((_BATCH,), longest)
    mask = torch.arange(longest) < lengths[:, None]
    return emissions.requires_grad_(), tags, mask


def layers(n_labels, dtype):
    """Ours and theirs, with the same parameters."""
    torch.manual_seed(0)
    theirs = torchcrf.CRF(n_labels, batch_first=True).to(dtype)
    ours = skstruct.torch.CRF(n_labels, batch_first=True).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    return {"skstruct": ours, "pytorch-crf": theirs}


def train(crf, emissions, tags, mask):
    """Forward and backward pass; loss and gradients."""
    emissions.grad = None
    crf.zero_grad(set_to_none=True)
    loss = -crf(emissions, tags, mask=mask)
    loss.backward()
    return [loss.detach(), emissions.grad, *(p.grad for _, p in sorted(crf.named_parameters()))]


def marginals(crf, emissions, tags, mask):
    """Probabilities of labels."""
    if isinstance(crf, skstruct.torch.CRF):
        return [crf.marginals(emissions, mask)]
    emissions.grad = None
    crf._compute_normalizer(emissions.transpose(0, 1), mask.T).sum().backward()
    return [emissions.grad]


def best(crf, emissions, tags, mask):
    """Best labels."""
    with torch.no_grad():
        return crf.decode(emissions, mask)


_TASKS = {"forward + backward": train, "marginals": marginals, "decode": best}


def milliseconds(calls, seconds):
    """The smallest time of each call, made in turn for some seconds and at least three times."""
    times = {name: [] for name in calls}
    began = time.perf_counter()
    while time.perf_counter() - began < seconds or min(map(len, times.values())) < 3:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: min(found) for name, found in times.items()}


def measure(n_labels, dtype, ragged, seconds):
    """A line each task."""
    data, both = batch(n_labels, dtype, ragged), layers(n_labels, dtype)
    for name, task in _TASKS.items():
        calls = {who: lambda crf=crf, task=task: task(crf, *data) for who, crf in both.items()}
        ours, theirs = (call() for call in calls.values())
        if name == "decode":
            same = ours == theirs
        else:
            tolerance = 1e-9 if dtype == torch.float64 else 2e-3
            same = all(map(lambda a, b: torch.allclose(a, b, tolerance, tolerance), ours, theirs))
        if not same:
            raise AssertionError(f"{name}, {n_labels} labels, {dtype}: the layers differ")
        times = milliseconds(calls, seconds)
        yield {
            "task": name,
            "labels": n_labels,
            "dtype": str(dtype).removeprefix("torch."),
            "tokens": "10 to 50" if ragged else str(_TOKENS),
            "threads": torch.get_num_threads(),
            **times,
            "ratio": times["pytorch-crf"] / times["skstruct"],
        }


def main():
    """Print a table of all settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, torch.get_num_threads()])
    parser.add_argument("--labels", type=int, nargs="*", default=[22, 200])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="where received a uint8")
    lines = []
    print(f"{'task':<20}labels  dtype    tokens    threads  skstruct  pytorch-crf  ratio   (ms)")
    for n_threads in dict.fromkeys(options.threads):
        torch.set_num_threads(n_threads)
        for n_labels in options.labels:
            for dtype in (torch.float32, torch.float64):
                for ragged in (False, True):
                    for line in measure(n_labels, dtype, ragged, options.seconds):
                        lines.append(line)
                        print(
                            "{task:<20}{labels:>6}  {dtype:<7}  {tokens:<8}  {threads:>7}  "
                            "{skstruct:>8.2f}  {pytorch-crf:>11.2f}  {ratio:>5.1f}".format(**line),
                            flush=True,
                        )
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
