"""
A recurrent network under a CRF
===============================

A network that reads both ways scores the labels of each word, and a CRF on top knows which labels
may follow each other: it finds names. Weights of both are trained together.

Needs PyTorch (``pip install torch``), so that this page is shown and not run. On its own:
``python examples/text/network_tagger.py``.
"""

# sphinx_gallery_tags = ["named entities", "neural networks", "Chain"]
# sphinx_gallery_thumbnail_path = "_static/guide/network.svg"
import numpy as np
import torch

from skstruct.datasets import make_annotated_sentences
from skstruct.metrics import chunk_f1_score
from skstruct.torch import CRF


class Tagger(torch.nn.Module):
    """Vectors of words and of their ends, a layer that reads both ways, scores of labels."""

    def __init__(self, n_words, n_ends, labels):
        super().__init__()
        self.words = torch.nn.Embedding(n_words, 32, padding_idx=0)
        self.ends = torch.nn.Embedding(n_ends, 16, padding_idx=0)
        self.drop = torch.nn.Dropout(0.3)
        self.lstm = torch.nn.LSTM(48, 32, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(64, len(labels))
        self.crf = CRF(len(labels), batch_first=True, forbidden="iob2", labels=labels)

    def forward(self, words, ends):
        vectors = torch.cat([self.words(words), self.ends(ends)], dim=2)
        return self.head(self.lstm(self.drop(vectors))[0])


def padded(sentences, number):
    """Numbers of all tokens in a table, 0 for unknown ones and in the padding."""
    rows = [torch.tensor([number.get(token, 0) for token in row]) for row in sentences]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def numbers(sentences):
    """Positive numbers of all that occurs."""
    return {token: k + 1 for k, token in enumerate(sorted({t for row in sentences for t in row}))}


def main():
    torch.manual_seed(0)
    data = make_annotated_sentences(300, 200)
    labels = sorted({str(tag) for row in data.train.entity for tag in row})
    ends = {part: [[w[-3:] for w in row] for row in data[part].word] for part in ("train", "test")}
    number_of_word, number_of_end = numbers(data.train.word), numbers(ends["train"])
    words = padded(data.train.word, number_of_word), padded(data.test.word, number_of_word)
    ends = padded(ends["train"], number_of_end), padded(ends["test"], number_of_end)
    tags = padded(data.train.entity, {label: k for k, label in enumerate(labels)})
    lengths = torch.tensor(data.train.word.lengths)

    tagger = Tagger(len(number_of_word) + 1, len(number_of_end) + 1, labels)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.01)
    for epoch in range(10):
        total = 0.0
        for rows in torch.randperm(len(lengths)).split(32):
            optimizer.zero_grad()
            scores = tagger(words[0][rows], ends[0][rows])
            loss = -tagger.crf(scores, tags[rows], lengths=lengths[rows], reduction="mean")
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch + 1}: mean loss {total / len(lengths):.3f}")

    tagger.eval()
    with torch.no_grad():
        scores = tagger(words[1], ends[1])
    found = tagger.crf.decode(scores, lengths=data.test.word.lengths)
    predicted = [np.array(labels)[row] for row in found]
    print(f"entity F1 {chunk_f1_score(list(data.test.entity), predicted):.3f}")


if __name__ == "__main__":
    main()

# %%
# **Next:** :doc:`/torch` describes the layer; :doc:`/auto_examples/text/plot_token_classifier`
# decodes the scores of a network that is already trained.
