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


def lab(rgb):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    t = np.clip(xyz, 0, None) / [0.9505, 1.0, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_an_arm_looks_the_same_whatever_else_is_in_the_run():
    alone = FIGURES["throughput"](made_up_table(("always-v2",)))
    among = FIGURES["throughput"](made_up_table(DYNAMIC))
    (same,) = [t for t in among.data if t.name == "always-v2"]
    assert (same.line, same.marker.symbol) == (alone.data[0].line, alone.data[0].marker.symbol)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_the_main_arms_can_be_told_apart(dark, blindness):
    colours = [theme.arm_style(arm).colour for arm in MAIN_ARMS]
    colours = [theme.DARK[c] for c in colours] if dark else colours
    seen = [lab(np.array(BLINDNESS[blindness]) @ linear(c)) for c in colours]
    distances = {
        (a, b): float(np.linalg.norm(seen[i] - seen[j]))
        for (i, a), (j, b) in itertools.combinations(enumerate(MAIN_ARMS), 2)
    }
    assert min(distances.values()) > 12, min(distances, key=distances.get)


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
    for dark, blindness in itertools.product((False, True), BLINDNESS.values()):
        colours = [theme.DARK[s.colour] if dark else s.colour for s in styles]
        seen = [lab(np.array(blindness) @ linear(c)) for c in colours]
        assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) > 12


@pytest.mark.parametrize("threshold", [4, 16])
def test_the_sync_rules_differ_in_their_dashes_too(threshold):
    dashes = [theme.arm_style(f"dynamic-v2-t{threshold}-{sync}").dash for sync in SYNC_RULES]
    assert dashes == ["solid", "dash", "dot"]
