"""Recipes of doc/torch.rst, run as they stand there with tiny models."""

import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from skstruct.metrics import chunks
from skstruct.testing import all_labellings

SENTENCES = [
    ["Ada", "went", "to", "Southampton"],
    ["from", "New", "Hampshire", "to", "York"],
    ["to", "York"],
]
TAGS = [["O", "O", "O", "B-LOC"], ["O", "B-LOC", "I-LOC", "O", "B-LOC"], ["O", "B-LOC"]]
NAMES = ["O", "B-LOC", "I-LOC"]


def _recipe(title, following, n_blocks):
    text = (Path(__file__).parents[2] / "doc" / "torch.rst").read_text(encoding="utf-8")
    section = text.partition(f"\n{title}\n")[2].partition(f"\n{following}\n")[0]
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", section, re.M)
    assert len(blocks) == n_blocks
    return "\n".join(map(dedent, blocks))


class _Encoding(dict):
    """What a tokenizer returns."""

    def __init__(self, rows, **tensors):
        super().__init__(tensors)
        self._rows = rows

    def word_ids(self, i):
        return self._rows[i]


def _tokenize(sentences, is_split_into_words, padding, return_tensors):
    """Pieces of four letters, a special one at both ends."""
    assert (is_split_into_words, padding, return_tensors) == (True, True, "pt")
    pieces, rows = [], []
    for words in sentences:
        own = [
            (w, word[at : at + 4]) for w, word in enumerate(words) for at in range(0, len(word), 4)
        ]
        pieces.append(["<", *(piece for _, piece in own), ">"])
        rows.append([None, *(w for w, _ in own), None])
    longest = max(map(len, pieces))
    known = sorted({piece for row in pieces for piece in row})
    ids = [[known.index(p) + 1 for p in row] + [0] * (longest - len(row)) for row in pieces]
    rows = [row + [None] * (longest - len(row)) for row in rows]
    ids = torch.tensor(ids)
    return _Encoding(rows, input_ids=ids, attention_mask=(ids > 0).long())


class _Model(torch.nn.Module):
    """A token classifier."""

    def __init__(self):
        super().__init__()
        numbers = dict(enumerate(NAMES))
        self.config = SimpleNamespace(
            id2label=numbers, label2id={name: k for k, name in numbers.items()}
        )
        self.words = torch.nn.Embedding(40, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = torch.nn.Linear(16, len(NAMES))

    def forward(self, input_ids, attention_mask):
        found = self.encoder(self.words(input_ids), src_key_padding_mask=attention_mask == 0)
        return SimpleNamespace(logits=self.head(found))


def _own():
    return _tokenize, _Model()


def _of_transformers(folder):
    transformers = pytest.importorskip("transformers")
    letters = sorted({letter for words in SENTENCES for word in words for letter in word})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
    dropouts = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(
        vocab_size=len(pieces), num_hidden_layers=2, id2label=dict(enumerate(NAMES)),
        label2id={name: k for k, name in enumerate(NAMES)}, **sizes, **dropouts,
    )  # fmt: skip
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False)
    return tokenizer, transformers.BertForTokenClassification(config)


@pytest.mark.parametrize("kind", ["own", "transformers"])
def test_the_recipe_learns_and_its_confidences_are_exact(kind, tmp_path):
    torch.manual_seed(0)
    tokenizer, model = _own() if kind == "own" else _of_transformers(tmp_path)
    there = {
        "tokenizer": tokenizer, "model": model, "sentences": SENTENCES, "tags": TAGS,
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.01), "n_steps": 60,
    }  # fmt: skip
    exec(_recipe("Sub-words and transformers", "Losses as functions", 3), there)
    best, first, crf = (there[name] for name in ("best", "first", "crf"))
    assert best.shape == first.shape == there["labels"].shape
    assert max(map(len, there["word_ids"])) > 5 + 2  # some words have several pieces
    assert torch.equal(best, there["labels"])
    assert there["entities"] == [chunks(row, "bio") for row in TAGS]
    for i, sentence in enumerate(SENTENCES):
        scores, n = there["logits"][i, first[i]], len(sentence)
        every = torch.tensor(all_labellings(n, 3)).long()
        total = scores[torch.arange(n), every].sum(1) + crf.start_transitions[every[:, 0]]
        total = total + crf.transitions[every[:, :-1], every[:, 1:]].sum(1)
        total = total + crf.end_transitions[every[:, -1]]
        wrong = (every[:, 0] == 2) | ((every[:, :-1] == 0) & (every[:, 1:] == 2)).any(1)
        share = torch.softmax(total.masked_fill(wrong, -torch.inf), 0).detach()
        read = [chunks([NAMES[k] for k in row], "bio") for row in every.tolist()]
        for entity, found in zip(there["entities"][i], there["certain"][i], strict=True):
            expected = share[torch.tensor([entity in row for row in read])].sum()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# The LSTM of PyTorch itself keeps lists of its weights.
@pytest.mark.filterwarnings("ignore:The tensor attributes self.tagger.lstm._flat_weights")
def test_a_tagger_learns_has_a_penalty_and_is_exported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    words = torch.randint(9, (6, 5))
    tags, mask = words % 3, torch.arange(5) < torch.tensor([5, 1, 3, 2, 4, 5])[:, None]
    there = {"n_words": 9, "n_labels": 3, "batches": [(words, tags, mask)] * 40}
    exec(_recipe("The CRF layer", "Instead of pytorch-crf", 1), there)
    tagger = there["tagger"]
    found = tagger.crf.decode(tagger(words), mask=mask, padding=0)
    assert torch.equal(found, tags.where(mask, 0))
    exec(_recipe("Compiled code, or operations of PyTorch", "Other structures", 2), there)
    assert there["slope"].square().sum() > 0
    loaded = torch.export.load("labeller.pt2").module()
    for rows in (slice(6), slice(2, 5)):
        labels = loaded(words[rows], mask[rows])
        assert torch.equal(labels, tags.where(mask, -100)[rows])
