"""Small worked examples of the internals of cli."""

import re

from skstruct.cli import main
from skstruct.cli.checking import are_chunks
from skstruct.cli.training import default_template


def test_checking_are_chunks():
    assert (are_chunks(["B-NP", "O"]), are_chunks(["NN", "O"])) == (True, False)


def test_main_main(capsys):
    print(repr(main(["template", "--columns", "1"])))
    assert re.fullmatch("Uw\\-2:%x\\[\\-2,0\\]\\\n.*", capsys.readouterr().out.strip(), re.DOTALL)


def test_templates_default_template():
    assert (default_template(2).splitlines()[-1]) == "B"
