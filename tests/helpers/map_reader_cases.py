"""Small MAP models, one of each file format."""

UAI = """MARKOV
3
2 2 3
3
1 0
2 0 1
2 2 1

2
 0.5 2.0

4
 1 0 0.25 1e1
6
 1 2 3 4 5 6
"""
WCSP = """name 3 3 4 100
2 2 3
1 0 7 1
1 3
2 0 1 5 2
0 1 100
1 0 0
-2 2 1 0 2
0 1 9
2 0 101.5
0 4 0
"""
CFN = """{
  "problem": {"name": "three", "mustbe": "<100.00"},
  "variables": {"x": ["off", "on"], "y": 2, "z": ["a", "b", "c"]},
  "functions": {
    "fx": {"scope": ["x"], "costs": [7, 3]},
    "fxy": {"scope": ["x", 1], "defaultcost": 5, "costs": ["off", 1, 100, 1, 0, 0]},
    "fzy": {"scope": ["z", "y"], "defaultcost": 0, "costs": ["a", 1, 9, "c", 0, 101.5]},
    "constant": {"scope": [], "costs": [4]}
  }
}
"""
FG = """# a comment
2

2
0 2
2 3   # the first variable is the fastest
3
0 0.5
3 2
5 4.0

1
0
2
1
1 3
"""
