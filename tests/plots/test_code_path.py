"""The decision tree as a figure: exactly the way of the flags stands out, reasons are in it, text fits its box."""

import re

import pytest

from specswitch.plots import theme
from specswitch.plots.code_path import BOXES, HEIGHT, WIDTH, decision_tree
from specswitch.plots.figure import footnotes
from specswitch.serving.code_path import COMMON, common
from specswitch.serving.path_tree import NODES, following, way

DECISIONS = common()
each = pytest.mark.parametrize(("combination", "decision"), DECISIONS, ids=[c.what for c in COMMON])


def boxes(figure):
    return [s for s in figure.layout.shapes if s.type == "rect"]


def arrows(figure):
    return [s for s in figure.layout.shapes if s.type == "path"]


def standing_out(shapes):
    return [s for s in shapes if s.line.width == 2.5]


@each
def test_exactly_the_boxes_on_the_way_stand_out(combination, decision):
    figure = decision_tree(decision)
    marked = {(s.x0, s.y0) for s in standing_out(boxes(figure))}
    wanted = {(BOXES[k].left, BOXES[k].y - BOXES[k].height / 2) for k in way(decision)}
    assert marked == wanted
    assert len(boxes(figure)) == len(NODES)


@each
def test_exactly_the_arrows_on_the_way_stand_out_and_lie_on_top(combination, decision):
    figure = decision_tree(decision)
    marked = standing_out(arrows(figure))
    assert len(marked) == len(decision.steps)
    assert arrows(figure)[-len(marked) :] == marked
    ends = {tuple(float(v) for v in s.path.rpartition("L ")[2].split(",")) for s in marked}
    for step in decision.steps:
        box = BOXES[following(step.question, step.yes)]
        assert (box.left, box.y) in ends or (box.x, box.y - box.height / 2) in ends


@each
def test_the_reason_of_every_answer_and_the_worker_stand_in_the_figure(combination, decision):
    text = " ".join(re.sub(r"<[^>]+>", " ", a.text or "") for a in decision_tree(decision).layout.annotations)
    text = re.sub(r"\s+", "", text).replace("&#x27;", "'")
    for step in decision.steps:
        assert step.why.replace(" ", "") in text
    assert decision.worker_class in text


@each
def test_a_refused_combination_is_dashed_and_explained(combination, decision):
    figure = decision_tree(decision)
    dashed = [s for s in boxes(figure) if s.line.dash == "dash"]
    assert bool(dashed) == bool(decision.refused)
    assert footnotes(figure) == [f"Refused: {problem}." for problem in decision.refused]


@each
def test_no_text_has_more_lines_than_its_box_has_room_for(combination, decision):
    figure = decision_tree(decision)
    texts = {(a.x, a.y): a.text for a in figure.layout.annotations if a.text and "<b>" in a.text}
    for box in BOXES.values():
        assert 16 * (texts[box.x, box.y].count("<br>") + 1) <= box.height


def test_boxes_lie_apart_and_inside_the_picture():
    placed = list(BOXES.values())
    for box in placed:
        assert box.left >= 0
        assert box.right <= WIDTH
        assert box.y + box.height / 2 <= HEIGHT
    for i, a in enumerate(placed):
        for b in placed[i + 1 :]:
            apart_x = abs(a.x - b.x) >= (a.width + b.width) / 2
            assert apart_x or abs(a.y - b.y) > (a.height + b.height) / 2


def test_the_picture_fits_an_output_of_jupyterlab_on_a_small_screen():
    figure = decision_tree(DECISIONS[1][1])
    assert figure.layout.width == WIDTH <= 800
    assert figure.layout.xaxis.range == (0, WIDTH)


@each
def test_every_colour_has_a_dark_twin(combination, decision):
    text = re.sub(r"&#x27;", "", decision_tree(decision).to_json())
    colours = set(re.findall(r"#[0-9a-fA-F]{6}\b", text))
    assert colours <= set(theme.DARK)


def test_the_figure_is_small_and_of_bundled_kinds():
    figure = decision_tree(DECISIONS[1][1])
    assert {t.type for t in figure.data} == {"scatter"}
    assert len(figure.to_json()) < 20_000
