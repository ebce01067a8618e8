"""Small worked examples of the internals of docstrings."""

from skstruct.core.docstrings import inherit_sections


def test_docstrings_inherit_sections():
    class Base:
        def area(self, height):
            """Its area.

            Parameters
            ----------
            height : float
            """

    class Triangle(Base):
        def area(self, height):
            """Half of the rectangle."""

    inherit_sections(Triangle, Base)
    assert (Triangle.area.__doc__.split("\n")[:3]) == ["Half of the rectangle.", "", "Parameters"]
