"""
Tuning C, and comparing models
==============================

How strong should the regularisation be, and is the tuned model really better? ``tune`` chooses
``C`` by cross-validation, in a fraction of the time of a grid search; ``compare`` gives scores on
test sentences with confidence intervals, by the paired bootstrap.
"""

# sphinx_gallery_tags = ["named entities", "model selection", "Chain"]
import matplotlib.pyplot as plt

from skstruct import SAGCRF, Chain
from skstruct.datasets import make_annotated_sentences
from skstruct.model_selection import compare, tune
from skstruct.pipeline import make_pipeline
from skstruct.preprocessing import TemplateVectorizer

data = make_annotated_sentences(n_train=300, random_state=0)
template = "U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[1,0]\nU3:%x[-1,0]/%x[0,0]"
crf = SAGCRF(Chain(forbidden="iob2"), random_state=0)
model = make_pipeline(TemplateVectorizer(template), crf)

# %%
# Sentences of one document share names, so folds are made of whole documents (here ten sentences
# each). Labels are tags of chunks: ``tune`` compares by chunk F1.

documents = [i // 10 for i in range(300)]
result = tune(model, data.train.word, data.train.entity, groups=documents)
print(result.best_params_)
result.table.round(3)

# %%
# ``n_splits`` is the number of folds in which a value was tried: those that are clearly worse are
# left out early. Bars are standard errors over the folds. ``rule="one-se"`` would choose the
# smallest ``C`` whose score is within one standard error of the best one.

careful = tune(model, data.train.word, data.train.entity, groups=documents, rule="one-se")
ax = result.plot().ax_
ax.axvline(careful.best_params_["sagcrf__C"], linestyle=":", color="gray", label="one-se")
ax.set_ylabel("chunk F1, 5 folds")
ax.legend()
plt.show()

# %%
# On test sentences: does the choice matter? If the interval of a difference contains 0, these
# sentences do not decide between the two models.

models = {"tuned": result.best_estimator_, "one-se": careful.best_estimator_}
strong = make_pipeline(TemplateVectorizer(template), SAGCRF(Chain(forbidden="iob2"), C=0.01))
models["C=0.01"] = strong.fit(data.train.word, data.train.entity)
comparison = compare(models, data.test.word, data.test.entity, random_state=0)
comparison.table.round(3)

# %%
# **Next:** :doc:`/auto_examples/text/plot_ner_grid_search` searches over features as well;
# :ref:`tuning` and :ref:`comparing` have the rules.
