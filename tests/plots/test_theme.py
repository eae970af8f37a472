"""Colours: stable per arm, apart for colour-blind readers, readable on both grounds, each with a dark twin."""

import itertools
import json
import re

import numpy as np
import pytest

from plots.tables import DYNAMIC, limited, made_up_table
from specswitch.plots import theme
from specswitch.plots.catalogue import FIGURES

MAIN_ARMS = ("none", "always-v1", "always-v2", "off-v2", "dynamic-v1-t8", "dynamic-v2-t8")
# Every colour that an arm of a kind can have.
THRESHOLDS = (1, 2, 4, 8, 16, 32, 64)
KINDS = {
    **{label: {theme.arm_style(label).colour} for label in ("none", "none-sync", "always-v1", "always-v2")},
    **{f"off-{path}": {theme.arm_style(f"off-{path}-lazy").colour} for path in ("v1", "v2")},
    **{
        f"dynamic-{p}": {theme.arm_style(f"dynamic-{p}-t{t}").colour for t in THRESHOLDS}
        for p in ("v1", "v2")
    },
}
# Machado et al. 2009, severity 1.0, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def distance(a, b, blindness="none"):
    """Between two colours in OKLab (Ottosson 2020), as seen; about 0.02 is just noticeable side by side."""
    seen = [TO_OKLAB @ np.cbrt(np.clip(TO_CONES @ BLINDNESS[blindness] @ linear(c), 0, None)) for c in (a, b)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def nearest(styles, dark, blindness):
    """The smallest distance between the colours of two of these styles."""
    colours = [theme.DARK[s.colour] if dark else s.colour for s in styles]
    return min(distance(a, b, blindness) for a, b in itertools.combinations(colours, 2))


def test_an_arm_looks_the_same_whatever_else_is_in_the_run():
    alone = FIGURES["throughput"](made_up_table(("always-v2",)))
    among = FIGURES["throughput"](made_up_table(DYNAMIC))
    (same,) = [t for t in among.data if t.name == "always-v2"]
    assert (same.line, same.marker.symbol) == (alone.data[0].line, alone.data[0].marker.symbol)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_any_two_arms_of_different_kinds_can_be_told_apart(dark, blindness):
    apart = {}
    for a, b in itertools.combinations(KINDS, 2):
        for one, other in itertools.product(KINDS[a], KINDS[b]):
            colours = [theme.DARK[c] if dark else c for c in (one, other)]
            apart[a, b, *colours] = distance(*colours, blindness)
    assert min(apart.values()) > 0.06, min(apart, key=apart.get)
    from_none = {pair: d for pair, d in apart.items() if "none" in pair}
    assert min(from_none.values()) > 0.12, min(from_none, key=from_none.get)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_the_main_arms_can_be_told_apart(dark, blindness):
    assert nearest(map(theme.arm_style, MAIN_ARMS), dark, blindness) > 0.07


def test_lines_stand_out_from_both_grounds():
    lines = set(theme.DARK) - {theme.PAPER, theme.GRID, theme.RULE}
    assert min(contrast(c, theme.PAPER) for c in lines) > 2.2
    assert min(contrast(theme.DARK[c], theme.DARK[theme.PAPER]) for c in lines) > 3


def test_text_reads_on_both_grounds():
    for ink in (theme.INK, theme.QUIET):
        assert contrast(ink, theme.PAPER) > 4.5
        assert contrast(theme.DARK[ink], theme.DARK[theme.PAPER]) > 4.5


def test_dark_twins_are_not_light_colours_so_that_replacing_them_once_is_enough():
    assert not set(theme.DARK) & set(theme.DARK.values())


@pytest.mark.parametrize("name", FIGURES)
def test_every_colour_of_every_figure_has_a_dark_twin(name):
    text = FIGURES[name](limited(made_up_table(DYNAMIC))).to_json()
    colours = set(re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\([^)]*\)", text))
    assert colours
    assert colours <= set(theme.DARK)


def test_the_template_is_small():
    assert len(json.dumps(theme.template().to_plotly_json())) < 2048


def test_different_thresholds_and_sync_rules_look_different():
    labels = [f"dynamic-v2-t{t}-{s}" for t in (1, 2, 4, 8, 16, 32, 64) for s in ("lazy", "eager", "stale")]
    assert len({theme.arm_style(label) for label in labels}) == len(labels)


SYNC_RULES = ("lazy", "eager", "stale")
FAMILIES = [
    *(
        [f"dynamic-{path}-t{t}-{sync}" for sync in SYNC_RULES]
        for path in ("v1", "v2")
        for t in (2, 4, 8, 16, 32)
    ),
    *([f"dynamic-{path}-t{t}" for t in (4, 8, 16, 32)] for path in ("v1", "v2")),
    ["dynamic-v2-t8", "dynamic-v2-t8-e4", "dynamic-v2-t8-d16"],
]


@pytest.mark.parametrize("labels", FAMILIES, ids=lambda labels: labels[0])
def test_arms_that_are_compared_differ_in_symbol_and_in_colour_for_everybody(labels):
    styles = [theme.arm_style(label) for label in ("none", "always-v1", "always-v2", *labels)]
    assert len({s.symbol for s in styles}) == len(styles)
    assert min(nearest(styles, dark, b) for dark, b in itertools.product((False, True), BLINDNESS)) > 0.07


@pytest.mark.parametrize("threshold", [4, 16])
def test_the_sync_rules_differ_in_their_dashes_too(threshold):
    dashes = [theme.arm_style(f"dynamic-v2-t{threshold}-{sync}").dash for sync in SYNC_RULES]
    assert dashes == ["solid", "dash", "dot"]
