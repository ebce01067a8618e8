"""
Pitch tracking with a band of transitions, and online
=====================================================

Which pitch does a voice have? Every hundredth of a second a detector gives each of 240 pitches a
probability, and its best one jumps: octaves are mistaken for each other, for tenths of a second,
and noise leaves it guessing. But a voice glides. A hidden Markov model whose pitch moves by at most
three bins per frame follows it by Viterbi decoding, and skips all other transitions. The same model
decides online, a fraction of a second behind the sound.
"""

# sphinx_gallery_tags = ["time series", "constraints", "Chain"]
import matplotlib.pyplot as plt
import numpy as np

from skstruct import OnlineDecoder, decode, marginals

# %%
# A melody: 240 bins of a quarter of a semitone, 100 frames per second. The singer takes a second
# or so for a note, slides to the next one, and has some vibrato.

rng = np.random.default_rng(4)
N_BINS, OCTAVE = 240, 48
notes = 100 + np.cumsum(rng.choice([-20, -8, 8, 12, 20], 12))
target = np.repeat(notes, rng.integers(60, 120, 12))
glide = np.convolve(np.pad(target, 15, mode="edge"), np.ones(31) / 31, mode="valid")
pitch = np.round(glide + 2 * np.sin(np.arange(len(glide)) * 0.35)).astype(int)

# %%
# The detector: a bump at the pitch, now and then a larger one an octave above or below, and noise.

bins = np.arange(N_BINS)


def bump(center):
    return np.exp(-0.5 * ((bins - center[:, None]) / 2) ** 2)


n = len(pitch)
octave = np.repeat(rng.choice([-OCTAVE, OCTAVE], n // 20 + 1), 20)[:n]
strength = np.repeat(rng.gamma(0.3, 2.0, n // 20 + 1), 20)[:n, None]
observed = bump(pitch) * rng.random((n, 1)) + strength * bump(pitch + octave)
observed += 0.5 * rng.random((n, N_BINS))
observed /= observed.sum(axis=1, keepdims=True)

# %%
# Transitions: a triangle of probabilities, -inf beyond three bins: 1,668 of 57,600 are allowed.
# Decoding spends no time on the others.

distance = np.abs(bins[:, None] - bins)
table = np.maximum(4.0 - distance, 0.0)
with np.errstate(divide="ignore"):
    transitions = np.log(table / table.sum(axis=1, keepdims=True))
scores = np.log(observed)
tracks = {"single frames": observed.argmax(axis=1), "Viterbi": decode(scores, transitions)}

# %%
# Online: each call of ``push`` takes a frame and returns what is decided now. Labels come half a
# second late; those of the last half second come at the end.

online = OnlineDecoder(transitions, lag=50)
found: list = []
for frame in scores:
    found.extend(online.push(frame))
found.extend(online.finish())
tracks["online, 0.5 s late"] = np.array(found)
immediate = OnlineDecoder(transitions, lag=0)
tracks["online, at once"] = immediate.push(scores)

for name, track in tracks.items():
    print(f"{name:<20} {np.mean(np.abs(track - pitch) <= 2):.1%} within half a semitone")
same = np.mean(tracks["online, 0.5 s late"] == tracks["Viterbi"])
print(f"Half a second late, {same:.1%} of the labels are those of the whole recording.")

# %%
# How sure is it? Marginals sum over all paths.

fig, axes = plt.subplots(3, 1, figsize=(8, 8), sharex=True, sharey=True, layout="constrained")
seconds = np.arange(len(pitch)) / 100
extent = (0, seconds[-1], 0, N_BINS)
axes[0].imshow(observed.T, origin="lower", aspect="auto", extent=extent, cmap="Blues")
axes[0].set_title("Detector")
axes[1].plot(seconds, tracks["single frames"], ".", ms=3, label="single frames")
axes[1].plot(seconds, tracks["Viterbi"], label="Viterbi")
axes[1].legend(loc="lower right")
chances = marginals(scores, transitions)
axes[2].imshow(chances.T, origin="lower", aspect="auto", extent=extent, cmap="Blues")
axes[2].set(title="Probabilities, all paths", xlabel="seconds")
fig.supylabel("bin")
plt.show()

# %%
# **Next:** :doc:`/guide/decoding` has decoding of other scores, :doc:`/migration` the names that
# librosa, hmmlearn and pytorch-crf have for all this.
