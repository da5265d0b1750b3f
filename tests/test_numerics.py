"""The same seed gives the same bits whatever a reader's machine has set, and on other processors."""

import os
import shutil
import subprocess
import sys

import pytest

from lib import numerics
from lib.files import ROOT
from lib.panels.recipes import RECIPES

pytestmark = pytest.mark.skipif(not numerics.supported(), reason="this processor has no AVX2: its bits are its own")

STRANGERS = {
    "threads": {"MKL_NUM_THREADS": "8", "OMP_NUM_THREADS": "64", "OPENBLAS_NUM_THREADS": "3"},
    "instructions": {
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
    "kernels": {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "NPY_DISABLE_CPU_FEATURES": "X86_V3"},
}
EMULATED = {"Haswell": "an Intel without AVX-512", "EPYC-Milan": "an AMD"}


def bits(model, steps, tokens, settings=None, emulator=()):
    """What tests/bits.py prints under a stranger's settings."""
    own = {name: value for name, value in os.environ.items() if name not in numerics.ENVIRONMENT}
    done = subprocess.run(
        [*emulator, sys.executable, ROOT / "tests" / "bits.py", model, str(steps), str(tokens)],
        env=own | (settings or {}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_twenty_steps_end_alike_under_strangers_settings():
    first, *others = [bits("olmoe-mini", 20, 512, settings) for settings in STRANGERS.values()]
    assert first[0] == "olmoe-mini pinned"
    assert all(other == first for other in others)


def test_where_numpy_is_there_already_pinning_says_that_it_came_too_late():
    code = "import numpy; from lib import numerics; numerics.pin(); print(numerics.told())"
    own = {name: value for name, value in os.environ.items() if name not in numerics.ENVIRONMENT}
    done = subprocess.run([sys.executable, "-c", code], env=own, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "of this processor: not pinned when numpy and torch were imported"


def test_what_is_started_inside_inherits_the_pins_and_a_hub_sweep_the_users_own():
    name = "ATEN_CPU_CAPABILITY"
    before = os.environ.get(name)
    with numerics.inherited():
        assert os.environ[name] == "avx2" and "MKL_ENABLE_INSTRUCTIONS" not in os.environ
        with numerics.inherited(pinned=False):
            assert os.environ.get(name) == before
    assert os.environ.get(name) == before


@pytest.mark.skipif(not os.environ.get("CHECK_BITS"), reason="minutes of emulation: make check-bits")
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-x86_64 (Debian: qemu-user)")
@pytest.mark.parametrize("processor", EMULATED)
@pytest.mark.parametrize("model", RECIPES)
def test_two_steps_end_alike_on_other_processors(model, processor):
    here = bits(model, 2, 256)
    assert here[0] == f"{model} pinned"
    assert bits(model, 2, 256, emulator=("qemu-x86_64", "-cpu", processor)) == here
