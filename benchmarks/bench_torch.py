"""skstruct.torch beside pytorch-crf, in one run.

    python benchmarks/bench_torch.py [--json OUT] [--threads N ...] [--labels K ...]
    python benchmarks/bench_torch.py --threads 1 --sizes 32x128x9 256x512x32 [--device cuda]

Needs torch and pytorch-crf. A batch of 32 sentences: of 30 tokens each, or of 10 to 50 with a mask;
or of other sizes, without a mask. The layers have the same parameters and see the same emissions:
ours of compiled code (numba), ours of plain operations (torch), and pytorch-crf's. Training is the
forward and the backward pass; the marginals of pytorch-crf are the gradient of its log-partition,
which is all it has. Wall milliseconds, the smallest of several runs, the layers in turn. Before it
measures, it compares what the three compute.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import chain
from pathlib import Path

import torch
import torchcrf

import skstruct.torch

_BATCH, _TOKENS = 32, 30


def batch(size, dtype, ragged, device):
    """Emissions, tags and mask."""
    draw = torch.Generator().manual_seed(0)
    n, longest, n_labels = size
    longest = 50 if ragged else longest
    emissions = torch.randn(n, longest, n_labels, generator=draw, dtype=dtype)
    tags = torch.randint(n_labels, (n, longest), generator=draw)
    lengths = torch.randint(10, longest + 1, (n,), generator=draw)
    lengths = lengths if ragged else torch.full((n,), longest)
    mask = torch.arange(longest) < lengths[:, None]
    return emissions.to(device).requires_grad_(), tags.to(device), mask.to(device)


def layers(n_labels, dtype, device):
    """Ours, by both backends, and theirs, with the same parameters."""
    torch.manual_seed(0)
    theirs = torchcrf.CRF(n_labels, batch_first=True).to(device, dtype)
    made = {}
    for name, backend in (("skstruct", "numba"), ("torch", "torch")):
        made[name] = skstruct.torch.CRF(n_labels, batch_first=True, backend=backend)
        made[name].to(device, dtype).load_state_dict(theirs.state_dict())
    return made | {"pytorch-crf": theirs}


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
        return [crf.marginals(emissions, mask).detach()]
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
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: min(found) for name, found in times.items()}


def measure(size, dtype, ragged, seconds, device):
    """A line each task."""
    data, crfs = batch(size, dtype, ragged, device), layers(size[2], dtype, device)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-2  # pytorch-crf loses digits
    for name, task in _TASKS.items():
        calls = {who: lambda crf=crf, task=task: task(crf, *data) for who, crf in crfs.items()}
        ours, *others = (call() for call in calls.values())
        for found in others:
            if name == "decode":  # sums of float32 decide near ties in another way
                one, other = (torch.tensor([*chain.from_iterable(rows)]) for rows in (ours, found))
                wrong = torch.count_nonzero(one != other).item()
                same = wrong <= (dtype == torch.float32) * 1e-4 * data[1].numel()
            else:
                pairs = zip(ours, found, strict=True)
                same = all(torch.allclose(a, b, tolerance, tolerance) for a, b in pairs)
            if not same:
                raise AssertionError(f"{name}, {size}, {dtype}: the layers differ")
        del found, ours, others
        times = milliseconds(calls, seconds)
        yield {
            "task": name,
            "batch": size[0],
            "labels": size[2],
            "dtype": str(dtype).removeprefix("torch."),
            "tokens": "10 to 50" if ragged else str(size[1]),
            "threads": torch.get_num_threads(),
            **times,
            "ratio": times["pytorch-crf"] / times["skstruct"],
            "torch_ratio": times["pytorch-crf"] / times["torch"],
        }


def main():
    """Print a table of all settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, torch.get_num_threads()])
    parser.add_argument("--labels", type=int, nargs="*", default=[22, 200])
    parser.add_argument("--sizes", nargs="*", help="such as 32x128x9, in float32 without a mask")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="where received a uint8")
    lines = []
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes or ()]
    settings = [(size, torch.float32, False) for size in sizes]
    if not sizes:
        settings = [
            ((_BATCH, _TOKENS, n_labels), dtype, ragged)
            for n_labels in options.labels
            for dtype in (torch.float32, torch.float64)
            for ragged in (False, True)
        ]
    print(
        f"{'task':<20}batch  labels  dtype    tokens    threads  skstruct     torch  pytorch-crf  "
        "ratios      (ms)"
    )
    for n_threads in dict.fromkeys(options.threads):
        torch.set_num_threads(n_threads)
        for setting in settings:
            for line in measure(*setting, options.seconds, options.device):
                lines.append(line)
                print(
                    "{task:<20}{batch:>5}  {labels:>6}  {dtype:<7}  {tokens:<8}  {threads:>7}  "
                    "{skstruct:>8.2f}  {torch:>8.2f}  {pytorch-crf:>11.2f}  {ratio:>5.1f} "
                    "{torch_ratio:>5.1f}".format(**line),
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
