"""Which threshold at which load: named, told apart or said not to be, without an always arm as with one."""

import re

from report.test_comparisons import cells
from report.test_findings import table_of
from specswitch.report import comparisons, findings
from specswitch.report.best_dynamic import best_table, sentences

# t4 and t8 speculate alike at C = 1; at 8 t8 is told to be best, at 32 t4.
TABLE = table_of(
    none={1: [100, 101, 99], 8: [750, 751, 749], 32: [900, 901, 899]},
    dynamic_v2_t4={1: [150, 152, 149], 8: [700, 706, 698], 32: [905, 906, 904]},
    dynamic_v2_t8={1: [149, 153, 148], 8: [800, 808, 803], 32: [890, 891, 889]},
    dynamic_v2_t16={1: [140, 141, 139], 8: [799, 809, 801], 32: [800, 801, 799]},
)


def test_each_load_has_a_best_threshold_and_what_it_is_told_apart_from():
    assert sentences(TABLE) == [
        "Of the dynamic arms on v2, dynamic-v2-t4 makes the most tokens/s at C = 1 and 32: "
        "not distinguishable from dynamic-v2-t8 at C = 1; told apart from every other at C = 32.",
        "Of the dynamic arms on v2, dynamic-v2-t8 makes the most tokens/s at C = 8: "
        "not distinguishable from dynamic-v2-t16 at C = 8.",
        "Each dynamic arm on v2 is told to be slower than the best one at some load.",
    ]


def test_the_thresholds_that_will_do_at_every_load_are_named():
    both = TABLE[(TABLE["concurrency"] != 32)]
    assert (
        sentences(both)[-1]
        == "On v2, not told to be slower than the best dynamic arm at any load: dynamic-v2-t8."
    )
    equal = table_of(dynamic_v2_t4={1: [100, 102]}, dynamic_v2_t8={1: [101, 100]})
    assert sentences(equal)[-1] == (
        "On v2, no dynamic arm can be called slower than the best at C = 1: this run gives no reason to prefer one."
    )


def test_an_arm_of_which_nothing_is_known_is_not_called_indistinguishable():
    table = table_of(
        dynamic_v2_t4={1: [900, 901, 899]},
        dynamic_v2_t8={1: [899, 901, 898]},
        dynamic_v2_t16={1: [100, 1500, 300]},
    )
    assert (
        "not distinguishable from dynamic-v2-t8 and not known against dynamic-v2-t16 at C = 1."
        in (sentences(table)[0])
    )
    assert "not known" in best_table(table)


def test_one_repeat_tells_no_threshold_apart():
    single = table_of(dynamic_v2_t4={1: [100]}, dynamic_v2_t8={1: [500]})
    assert "not to be told from the others yet, with one repeat, at C = 1" in sentences(single)[0]
    assert "one repeat" in best_table(single)
    assert "slower" not in best_table(single)
    assert "number good" not in best_table(single)
    assert "number good" in best_table(TABLE)


def test_the_table_has_a_row_per_load_and_says_the_verdict_in_words():
    html = best_table(TABLE)
    assert re.findall(r"<span>([^<]*)</span>", html) == [
        "C",
        "dynamic-v2-t4",
        "dynamic-v2-t8",
        "dynamic-v2-t16",
    ]
    assert cells(html) == [
        ["1", "best", "0.998× not told apart", "0.931× slower"],
        ["8", "0.873× slower", "best", "0.999× not told apart"],
        ["32", "best", "0.983× slower", "0.884× slower"],
    ]


def test_without_two_dynamic_arms_nothing_is_said():
    alone = TABLE[TABLE["label"].isin(["none", "dynamic-v2-t4"])]
    assert (sentences(alone), best_table(alone)) == ([], "")


def test_the_table_of_comparisons_holds_each_dynamic_arm_against_the_best():
    found = [
        (c.label, c.against, c.concurrency) for c in comparisons.comparisons(TABLE) if c.against != "none"
    ]
    assert found == [
        ("dynamic-v2-t8", "dynamic-v2-t4", 1),
        ("dynamic-v2-t16", "dynamic-v2-t4", 1),
        ("dynamic-v2-t4", "dynamic-v2-t8", 8),
        ("dynamic-v2-t16", "dynamic-v2-t8", 8),
        ("dynamic-v2-t8", "dynamic-v2-t4", 32),
        ("dynamic-v2-t16", "dynamic-v2-t4", 32),
    ]


def test_what_the_envelope_lacks_is_named():
    assert findings.no_envelope(TABLE) == (
        "No envelope to show. For the envelope of dynamic-v2-t4, dynamic-v2-t8, dynamic-v2-t16, "
        "add always-v2 to the arms."
    )
    bare = table_of(dynamic_v1_t4={1: [1.0]}, dynamic_v2_t4={1: [1.0]}, always_v2={1: [1.0]})
    assert findings.no_envelope(bare) == (
        "No envelope to show. For the envelope of dynamic-v1-t4, add none-sync and always-v1 to the arms. "
        "For the envelope of dynamic-v2-t4, add none to the arms."
    )
    static = table_of(none={1: [1.0]}, always_v2={1: [1.0]})
    assert "To see one, add dynamic-v2-t8 (or another threshold) to the arms." in findings.no_envelope(static)
    failed = table_of(none={1: [0.0]}, always_v2={1: [1.0]}, dynamic_v2_t4={1: [1.0]})
    assert "nowhere do a dynamic arm, never and always have a value" in findings.no_envelope(failed)
