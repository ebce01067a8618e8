"""What toulbar2 says of its own validation files, by pytoulbar2 1.4.0.1.

For each file: the optimum by ``Solve``, and the costs of the labellings of `labelling`, each fixed
by ``Assign`` or, where that fails (latin*.wcsp), by cost functions of one variable; None where
toulbar2 finds no solution, since the cost reaches the upper bound. Each call ran in its own
process. In .cfn files the number in ``mustbe`` was given six decimals, since toulbar2 truncates
costs to as many as it has. Its reader adds a constant to alarm.cfn.gz, 0.070968: the smallest
entries of tables of four and more variables. Handed over by ``AddFunction`` the same tables give
the numbers below, 0.070968 less.
"""

_ = None


def labelling(n_states, k):
    """The k-th labelling that the judge was asked for."""
    return [(5 * v * k + k * k + v // 3 * (k > 2)) % n for v, n in enumerate(n_states)]


# fmt: off
JUDGED = {
    "4queens-bis.wcsp": (0, [_] * 6),
    "4queens-salldiff.wcsp": (0, [_] * 6),
    "4queens.wcsp": (0, [_] * 6),
    "alarm.cfn.gz": (3.086727, [62.038086, 86.81074, 114.609342, 70.595411, 80.290236, 104.989351]),
    "base2.wcsp": (0, [_] * 6),
    "bilevel1.cfn": (2, [11, 8, 11, 13, 6, 13]),
    "bilevel1b.cfn": (2, [11, 8, 11, _, _, _]),
    "bilevel2.cfn": (0, [4, 13, 4, _, _, _]),
    "bilevel2b.cfn": (0, [4, 13, 4, 9, 8, 9]),
    "cap131.wcsp": (7934385, [_] * 6),
    "cat_paths_60_170_0005_clq.wcsp": (114493, [_] * 6),
    "cat_sched_60_200_0004_clq.wcsp.xz": (146947, [_] * 6),
    "clique.cfn": (0, [0, _, 0, _, 0, _]),
    "diverse.cfn": (0, [0, 0, 0, 0, 0, 0]),
    "donald.wcsp": (0, [_] * 6),
    "example.wcsp": (27, [52, 54, 56, 52, 51, 50]),
    "golomb4-salldiff-reverse.wcsp": (6, [_] * 6),
    "golomb4-salldiff.wcsp": (6, [_] * 6),
    "golomb4.wcsp": (6, [_] * 6),
    "knapsack.wcsp": (7, [_, _, _, 8, _, 8]),
    "knapsackc.cfn": (7, [_, _, _, 8, _, 8]),
    "latin.wcsp": (48, [313, 200, 253, 161, 176, 144]),
    "latin0.wcsp": (0, [240, 120, 200, 80, 120, 80]),
    "magic3.wcsp": (0, [_] * 6),
    "magic4-dec.wcsp": (0, [_] * 6),
    "max.cfn": (4, [4, 6.7, 6.4, 6.7, 5.2, 7.9]),
    "maximization.cfn": (0.5, [_] * 6),
    "oconnell.wcsp": (1, [7, _, _, _, _, _]),
    "oconnell_bayesnet.wcsp": (1589, [53347, _, _, _, _, _]),
    "salldiff1.cfn": (0.7, [2.1, 0.7, 0.7, 1.4, 0.7, 0.7]),
    "salldiffdp.cfn": (0.7, [2.1, 0.7, 0.7, 1.4, 0.7, 0.7]),
    "samong.cfn": (1.012, [11.024, 3, 11.024, 4.012, 10.012, 4.012]),
    "samongdp.cfn": (1.012, [11.024, 3, 11.024, 4.012, 10.012, 4.012]),
    "sgcc1.cfn": (0.1, [1, 1.2, 1, 1, 0.6, 1]),
    "sgcc2.cfn": (1.1, [3.3, 2.4, 3.3, 1.3, 2.2, 1.3]),
    "sgccdp.cfn": (1.1, [5.5, 2.4, 5.5, 1.3, 3.3, 1.3]),
    "smallfollower.cfn": (7, [15, 12, 13, 16, 14, 17]),
    "smallleader.cfn": (2, [6, 8, 2, 6, 8, 2]),
    "smaxdp.cfn": (4, [4, 6.7, 6.4, 6.7, 5.2, 7.9]),
    "sregular.cfn": (1, [2, 2, 2, 4, 5, 4]),
    "ssame.cfn": (6.2, [7, _, _, _, 6.2, 6.2]),
    "sudoku.wcsp": (0, [_] * 6),
    "walldiff.cfn": (1.4, [_] * 6),
    "walldiff_simple.wcsp": (90, [_, 90, 90, _, 90, 90]),
    "wamong_hard.wcsp": (0, [_, 0, 0, 0, 0, 0]),
    "wamong_hardc.cfn": (0.1, [_] * 6),
    "wamong_lin.wcsp": (0, [600, 100, 0, 300, 0, 100]),
    "wamong_linc.cfn": (0.1, [_] * 6),
    "wamong_quad.wcsp": (10, [34, 30, 40, 31, 30, 40]),
    "wamong_quadc.cfn": (0.1, [_] * 6),
    "warehouse.wcsp": (328, [_] * 6),
    "wgcc.cfn": (0.6, [_] * 6),
    "wgcc_simple.wcsp": (0, [_, 0, _, 90, _, 90]),
    "woverlap.wcsp": (0, [0, 0, 0, 0, 0, _]),
    "woverlapc.cfn": (2.01, [_, _, _, 2.01, 2.01, 2.01]),
    "wregular.wcsp": (0, [0, 0, 0, 101, 1, 101]),
    "wregular2.cfn": (2, [_] * 6),
    "wsame.cfn": (1.3, [_] * 6),
    "wsame_simple.wcsp": (0, [0, _, _, _, _, 0]),
    "wsamegcc.cfn": (1.3, [_] * 6),
    "wsamegcc_simple.wcsp": (0, [_] * 6),
    "wsum_hard.wcsp": (0, [_, 0, 0, _, _, _]),
    "wsum_hardc.cfn": (1.2, [_, 1.5, 1.5, _, _, _]),
    "wsum_lin.wcsp": (0, [0, 400, 400, 0, 600, 600]),
    "wsum_linc.cfn": (0.1, [0.3, _, _, 0.3, _, _]),
    "wsum_quad.wcsp": (40, [400, 120, 120, 310, 210, 210]),
    "wsum_quadc.cfn": (1.2, [_, 1.5, 1.5, _, _, _]),
    "wvaramong.wcsp": (0, [_] * 6),
    "wvaramongc.cfn": (0.1, [_] * 6),
    "wvarsum.cfn": (1.5, [_] * 6),
    "zebra.wcsp": (0, [_] * 6),
}
REFUSED = {
    "10_1.wcsp": r"line 2, token 6: .*no interval variable.*got '-442'",
    "B1-LU04-dec.wcsp": "line 487, token 1705: .*wregular: its table of 9 var.*'wregular'",
    "B1-LU04-test.wcsp": "line 75, token 264: expected transitions with states below nb_sta",
    "sgrammardp1.cfn": r"line 6: .*type.*function sgrammardp1\), got 'sgrammardp'",
    "sgrammardp2.cfn": r"line 5: .*type.*function sgrammardp2\), got 'sgrammardp'",
    "wdiverse.wcsp": "line 3, token 58: .*wdiverse: its table of 25 .* got 'wdiverse'",
    "wdiversec.cfn": r"line 5: .*wdiverse: its table of 25 .*function w1\), got 'wdiverse'",
    "weightedcspconstraint.wcsp": "line 11, token 48: .*keyword .* that is read, got 'wcsp'",
    "weightedcspconstraintc.cfn": r"line 10: .*type .*function c23\), got '\"cfnconstraint",
}
# fmt: on
