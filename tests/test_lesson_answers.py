"""What holds of the checkers of all lessons: no traceback, no hint that no mistake leads to."""

import ast
import re

import lesson_answers
import numpy as np
import pandas as pd
import pytest
import torch
from lesson_answers import THRESHOLDS

from lib.files import ROOT
from lib.lessons import answers, lesson_1, lesson_2, lesson_3, lesson_4, lesson_5

ZOO = [
    None, "three", "", b"x", True, float("nan"), -1, 10**400, 1j, [], [[1], [1, 2]], (), (1, 2, 3), ("a", "b"), {}, set(),
    object(), lambda: 3, lambda *a: "x", lambda *a: [[1], 2], type, range(3), np.array([]), np.array(["a"]), np.array([None, 1]),
    torch.ones(2, 2, requires_grad=True), torch.tensor([]), pd.DataFrame({"a": ["x"]}), pd.Series([1, 2]), [..., ...], (..., ...),
    {"a": 1}, "L1", "L99H99", "L1H" + "9" * 5000,
]  # fmt: skip


def test_no_answer_of_any_type_is_answered_with_a_traceback_or_called_right():
    batch, planted, measured, frame = (
        lesson_answers.batch(),
        lesson_answers.planted(),
        lesson_answers.measured(),
        lesson_answers.frame(),
    )
    scores = np.random.default_rng(1).normal(size=(6, 6))
    pattern = np.random.default_rng(0).dirichlet(np.ones(8), size=(1, 3, 8))
    table = measured["table"]
    capability = {"loss": 2.25, "top1": 0.5}
    calls = {
        lesson_1.attention_pattern: (scores,), lesson_1.sequence_maker: (), lesson_1.other_a: (batch,),
        lesson_1.induction_positions: (batch,), lesson_1.previous_mass: (pattern, 1), lesson_2.induction_mass: (planted, batch),
        lesson_2.induction_head: (planted, batch), lesson_2.induction_selectivity: (planted, batch, (2, 1)),
        lesson_2.moved_question: (measured["bridge"], batch.tokens, (2, 0), batch.first_a.numpy(), batch), lesson_3.participation_ratio: (),
        lesson_3.broken_cloud: (np.random.default_rng(1).normal(size=(20, 4)),),
        lesson_3.fooled_head: (np.random.default_rng(1).normal(size=(2, 2, 9, 3)),), lesson_3.most_directions: (10, 16),
        lesson_3.untrained: (table, table), lesson_4.crossing: (frame, THRESHOLDS), lesson_4.circuit_sizes: (frame, THRESHOLDS),
        lesson_4.recall: (frame, THRESHOLDS), lesson_4.order: (frame, THRESHOLDS), lesson_5.perfect_reading: (batch,),
        lesson_5.thin_ratio: (table, THRESHOLDS), lesson_5.circuit_cost: (capability, {"loss": 3.75, "top1": 0.1}),
        lesson_5.control_cost: (capability, [{"loss": 2.5}, {"loss": 3.0}]),
        lesson_5.thin_head_cost: (measured["model"], batch, (1, 1)), lesson_5.evidence: (),
    }  # fmt: skip
    assert len(calls) == len(answers.HINTS.keys() - {"any"})
    for checker, given in calls.items():
        assert checker(..., *given).text == answers.HINTS["any"]["unanswered"]
        for answer in ZOO:
            checked = checker(answer, *given)
            assert not checked.right and checked.text.endswith((".", "?", ". ")) and len(checked.text) > 20, (
                checker,
                answer,
            )
            assert "object at 0x" not in checked.text and len(checked.text) < 400


def test_what_a_checker_says_is_readable_everywhere_and_counted():
    shown = answers.Checked("2.2", True, "L1H0 <b>")._repr_mimebundle_()
    assert shown["text/plain"] == "✓ Right. L1H0 <b>" and "L1H0 &lt;b&gt;" in shown["text/html"]
    assert shown[answers.CHECK_MIME] == {"exercise": "2.2", "right": True}


def names_used(module):
    """Names of texts that a module of lib.lessons gives to Hint, right, judged and look_for."""
    nodes = list(ast.walk(ast.parse((ROOT / "lib" / "lessons" / f"{module}.py").read_text(encoding="utf-8"))))
    calls = [(getattr(n.func, "id", ""), n.args) for n in nodes if isinstance(n, ast.Call)]
    assigned = [(getattr(n.targets[0], "id", ""), n.value) for n in nodes if isinstance(n, ast.Assign)]
    said = [args[0] for name, args in calls if name in ("Hint", "right") and args]
    said += [value for name, value in assigned if name in ("said", "otherwise")]
    dicts = [args[1] for name, args in calls if name == "look_for"]
    dicts += [value for name, value in assigned if name in ("mistakes", "STATEMENTS")]
    dicts += [n.value for n in nodes if isinstance(n, ast.Return) and module in LESSONS]
    keys = [key for one in dicts if isinstance(one, ast.Dict) for key in one.keys]
    return {"right", "otherwise"} | set(strings(said + keys))


def strings(nodes):
    """Constant strings that expressions may be: of a conditional, either end."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.IfExp):
            yield from strings([node.body, node.orelse])


def names_within(texts):
    """Names in the braces of texts."""
    return {name for text in texts.values() for name in re.findall(r"{([\w ]+)}", text)}


LESSONS = ["lesson_1", "lesson_2", "lesson_3", "lesson_4", "lesson_5"]


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_name_that_a_checker_uses_has_a_text_and_every_text_a_use(lesson):
    used = names_used(lesson)
    mine = {key: texts for key, texts in answers.HINTS.items() if key.startswith(f"{lesson[-1]}.")}
    assert used <= set(answers.HINTS["any"]).union(*mine.values())
    for key, texts in mine.items():
        # as_function and the hints of "any" ask for two names that are each exercise's own.
        assert set(texts) <= used | names_within(texts) | {"expected", "returns nothing"}, key


def test_the_texts_of_any_exercise_are_used_and_those_that_answers_asks_for_are_there():
    texts = answers.HINTS["any"]
    assert set(texts) <= set().union(*map(names_used, ["answers", *LESSONS])) | {"unanswered"}
    assert names_used("answers") - {"right", "otherwise", "returns nothing"} <= set(texts)
