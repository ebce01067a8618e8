"""A function for AWS Lambda: {"sentences": [[[word, pos], ...], ...]} to {"labels": [...]}.

The model named by MODEL is loaded, and the kernels with it, while the function starts.
"""

import os
from pathlib import Path

from tag import load

model = load(Path(os.environ["MODEL"]))
model.predict([[[""] * model[0].n_columns_]])


def handler(event, context):
    sentences = event["sentences"]
    return {"labels": [labels.tolist() for labels in model.predict(sentences)]}
