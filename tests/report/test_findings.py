"""Sentences: computed, and a difference is claimed only where the interval says so."""

import re

import pandas as pd
import pytest

from plots.tables import DYNAMIC, STATIC, made_up_table
from specswitch.report import comparisons, findings, html
from specswitch.report.findings import places


def table_of(**arms):
    """label -> concurrency -> values, one per repeat."""
    return pd.DataFrame(
        [
            {"label": label.replace("_", "-"), "concurrency": c, "repeat": r, "output_tok_s": v}
            for label, cells in arms.items()
            for c, values in cells.items()
            for r, v in enumerate(values)
        ]
    )


def test_faster_slower_and_not_distinguishable_follow_the_intervals():
    table = table_of(
        none={1: [100, 101, 99], 8: [800, 801, 799], 32: [3000, 3001, 2999]},
        always_v2={1: [150, 152, 149], 8: [700, 900, 805], 32: [2000, 2001, 1999]},
    )
    (sentence,) = findings.ratio(table)
    assert sentence == (
        "always-v2 is faster than none at C = 1 (1.50×); slower than none at C = 32 (0.667×); "
        "not distinguishable from none at C = 8."
    )


def test_what_the_interval_says_nothing_of_is_not_known_as_in_the_table():
    table = table_of(
        none={1: [100, 101, 99], 8: [800, 801, 799]}, always_v2={1: [150, 152, 149], 8: [200, 1900, 800]}
    )
    assert findings.ratio(table) == [
        "always-v2 is faster than none at C = 1 (1.50×); not known against none at C = 8."
    ]
    assert "not known from these 3 repeats" in comparisons.comparison_table(table)
    assert findings.ratio(table[table["concurrency"] == 8]) == [
        "Whether always-v2 is faster or slower is not known against none at C = 8."
    ]


def test_single_runs_give_no_verdict():
    (sentence,) = findings.ratio(table_of(none={1: [100]}, always_v2={1: [500]}))
    assert sentence == "always-v2 cannot be told from none yet: no concurrency has two repeats."


def test_the_highest_throughput_is_named_with_its_place_and_its_interval():
    text = findings.throughput(
        table_of(
            none={1: [100, 102, 101], 8: [900, 902, 901]}, always_v2={1: [150, 152, 151], 8: [700, 702, 701]}
        )
    )
    assert text == (
        "The highest output throughput is that of none: 901 tokens/s (899 to 903), n = 3, at C = 8; there told apart "
        "from every other arm."
    )


def test_arms_that_may_be_as_fast_as_the_fastest_are_named():
    text = findings.throughput(
        table_of(none={8: [900, 910, 905]}, none_sync={8: [895, 915, 880]}, always_v2={8: [700, 702, 701]})
    )
    assert text.endswith("at C = 8; there not told apart from none-sync.")
    single = findings.throughput(table_of(none={8: [900]}, always_v2={8: [700]}))
    assert single.endswith("none: 900 tokens/s (one repeat, no interval), at C = 8.")


def test_a_highest_throughput_of_which_nothing_is_known_has_no_numbers():
    text = findings.throughput(table_of(none={8: [100, 900]}))
    assert text == (
        "The highest mean output throughput is that of none at C = 8; how much it is, is not known from these 2 "
        "repeats."
    )


def test_an_empty_table_is_said_to_be_empty():
    empty = pd.DataFrame(columns=["label", "concurrency", "repeat"])
    assert "no throughput to show" in findings.throughput(empty)
    assert findings.ratio(empty) == findings.latency(empty) == findings.acceptance(empty) == []


def test_envelope_names_the_worst_place_and_what_is_below():
    table = table_of(
        none={1: [100, 101, 99], 8: [800, 801, 799]},
        always_v2={1: [150, 151, 149], 8: [500, 501, 499]},
        dynamic_v2_t4={1: [149, 151, 150], 8: [640, 641, 639]},
    )
    (sentence,) = findings.envelope(table)
    assert (
        sentence
        == "At its worst (C = 8), dynamic-v2-t4 reaches 0.800× of the envelope (0.799 to 0.801), n = 3: below it. "
        "By load: below it at C = 8; not distinguishable from it at C = 1."
    )


def test_a_worst_envelope_ratio_that_may_be_chance_is_called_so():
    table = table_of(
        none={1: [100, 101, 99]}, always_v2={1: [150, 151, 149]}, dynamic_v2_t4={1: [100, 130, 145]}
    )
    (sentence,) = findings.envelope(table)
    assert re.search(
        r"reaches 0\.824× of the envelope \(0\.\d+ to 1\.\d+\), n = 3: not distinguishable from it\.",
        sentence,
    )


def test_an_envelope_ratio_of_which_nothing_is_known_has_no_numbers():
    table = table_of(none={1: [100, 101]}, always_v2={1: [150, 151]}, dynamic_v2_t4={1: [50, 400]})
    assert findings.envelope(table) == [
        "What share of the envelope dynamic-v2-t4 reaches is not known from these 2 repeats at C = 1."
    ]


def test_the_worst_envelope_ratio_is_one_of_the_known_and_the_unknown_loads_stand_apart():
    table = table_of(
        none={1: [100, 101, 99], 8: [800, 801, 799], 16: [900, 901, 899]},
        always_v2={1: [150, 151, 149], 8: [500, 501, 499], 16: [500, 501, 499]},
        dynamic_v2_t4={1: [149, 151, 150], 8: [640, 641, 639], 16: [100, 2000, 300]},
    )
    (sentence,) = findings.envelope(table)
    assert sentence.startswith("At its worst (C = 8), dynamic-v2-t4 reaches 0.800×")
    assert sentence.endswith(
        "By load: below it at C = 8; not distinguishable from it at C = 1; not known at C = 16."
    )


def test_a_latency_of_which_nothing_is_known_has_no_numbers():
    table = table_of(none={1: [100, 101]}, always_v2={1: [150, 151]})
    known = table.assign(tpot_ms_mean=[10.0, 10.1, 5.0, 5.1])
    assert findings.latency(known) == [
        "always-v2 needs, per further token, 5.05 ms at C = 1 (none: 10.1 ms)."
    ]
    wild = table.assign(tpot_ms_mean=[10.0, 10.1, 5.0, 519.0])
    assert findings.latency(wild) == [
        "always-v2 needs, per further token, a time not known from these 2 repeats at C = 1 (none: 10.1 ms)."
    ]


def test_an_envelope_from_single_runs_is_no_claim():
    table = table_of(none={1: [100]}, always_v2={1: [150]}, dynamic_v2_t4={1: [90]})
    (sentence,) = findings.envelope(table)
    assert sentence.endswith("It cannot be told from the envelope yet: no concurrency has two repeats.")


def counted(**arms):
    """label -> concurrency -> (tokens, request-steps) of the verify steps, with every third draft accepted."""
    rows = [
        {
            "label": label.replace("_", "-"),
            "concurrency": c,
            "repeat": 0,
            "accept_length_num": num,
            "accept_length_den": den,
            "accept_rate_num": den,
            "accept_rate_den": 3 * den,
        }
        for label, cells in arms.items()
        for c, (num, den) in cells.items()
    ]
    return pd.DataFrame(rows)


def test_acceptance_is_pooled_over_the_run():
    table = made_up_table(("always-v2",))
    length = table["accept_length_num"].sum() / table["accept_length_den"].sum()
    assert f"emits {length:.2f} tokens" in findings.acceptance(table)[0]


def test_accept_lengths_of_a_path_stand_over_the_loads_at_which_all_its_arms_verified():
    table = counted(
        always_v1={1: (240, 100), 4: (240, 100), 32: (2000, 1000)},
        always_v2={1: (230, 100), 4: (230, 100), 32: (2300, 1000)},
        dynamic_v1_t4={1: (240, 100), 4: (240, 100), 32: (0, 0)},
    )
    assert findings.accept_lengths(table) == [
        "Accept length on v1 (tokens per request and verify step), at C = 1 and 4, where all of these verified: "
        "always-v1 2.40, dynamic-v1-t4 2.40.",
        "Accept length on v2 (tokens per request and verify step), at C = 1 to 32: always-v2 2.30.",
    ]
    assert findings.acceptance(table)[0] == (
        "always-v1 emits 2.40 tokens per request and verify step, with 33% of its drafts accepted, at C = 1 and 4."
    )


def test_accept_lengths_without_a_common_load_are_said_not_to_be_comparable():
    table = counted(always_v2={8: (200, 100), 16: (200, 100)}, dynamic_v2_t4={1: (250, 100), 16: (0, 0)})
    assert findings.accept_lengths(table) == [
        "Accept length on v2 (tokens per request and verify step), each at loads of its own, so not comparable: "
        "always-v2 2.00 (C = 8 and 16), dynamic-v2-t4 2.50 (C = 1)."
    ]
    assert "at C = 1, loads that not every other arm" in findings.acceptance(table)[1]


def test_speculation_says_where_it_was_on_and_off():
    sentences = findings.speculation(made_up_table(DYNAMIC).assign(switches=0))
    assert (
        "In the steady window, dynamic-v2-t8-lazy speculated in every step at C = 1 to 8, in no step at "
        "C = 16 and 32."
    ) in sentences


def test_a_switch_into_a_window_of_one_mode_is_explained():
    table = made_up_table(DYNAMIC).assign(switches=0)
    one = (table["label"] == "dynamic-v2-t8-lazy") & (table["concurrency"] == 32) & (table["repeat"] == 1)
    table.loc[one, "switches"] = 1
    (told,) = [s for s in findings.speculation(table) if "switches" in s]
    assert told.endswith(
        "in no step at C = 16 and 32 (switches counted at C = 32: into its first step, from the ramp before)."
    )


def test_latency_compares_with_the_fair_baseline():
    (v1, v2) = findings.latency(made_up_table(STATIC))
    assert v1.startswith("always-v1 needs")
    assert "none-sync:" in v1
    assert "(none:" in v2


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ((1,), "C = 1"),
        ((1, 2), "C = 1 and 2"),
        ((1, 2, 4), "C = 1 to 4"),
        ((1, 4, 8, 16, 64), "C = 1, 4 to 16 and 64"),
    ],
)
def test_places_join_neighbours_on_the_grid(at, text):
    assert places(at, (1, 2, 4, 8, 16, 32, 64)) == text


def test_no_line_breaks_inside_a_number_of_repeats_or_a_load():
    assert html.text("C = 8 and n = 3, not in = 5") == "C\u00a0=\u00a08 and n\u00a0=\u00a03, not in = 5"
