"""One set of bits on every x86 processor with AVX2: which kernels torch and numpy may take, pinned.

The libraries choose kernels by the processor they find, kernels sum in different orders, and training amplifies the
last bit of a sum into another model.  A process that trains or measures a model of this project is started inside
inherited() and calls pin() first.  Matrix products go to numpy's OpenBLAS, whose kernels can be named: MKL's, also
under MKL_CBWR=AVX2,STRICT, still ask who made the processor where a side is short, and its COMPATIBLE mode takes twice
as long; its exp asks, too.  `make check-bits` holds this processor against two emulated ones; ARM has other kernels and other bits.
"""

import contextlib
import os
import platform
import sys
import warnings
from pathlib import Path

ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "MKL_CBWR": "AVX2,STRICT",  # what is left to MKL: vector functions
    "MKL_ENABLE_INSTRUCTIONS": None,  # would be another answer to the same question
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",  # names of numpy 2.4; exp, pow and sort have such kernels
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_OWN = {name: os.environ.get(name) for name in ENVIRONMENT}  # what the user had set

_library = None  # torch forgets the routes when this goes


def supported():
    """Whether this processor has the kernels that are pinned."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    flags = Path("/proc/cpuinfo")
    return not flags.is_file() or "avx2" in flags.read_text(encoding="utf-8", errors="replace").split()


def _set(values):
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def inherited(pinned=True):
    """Processes that are started inside have the pinned environment, or else the user's own."""
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    _set(ENVIRONMENT if pinned and supported() else _OWN)
    try:
        yield
    finally:
        _set(before)


def pin():
    """Pin this process: one thread, and matrix products by kernels that are the same on every processor.

    The environment must have been there before numpy and torch were imported (inherited); where it was not, the process
    works as it is, and told() says so.
    """
    global _library
    if _library is not None or not supported():
        return
    if not {"numpy", "torch"} & sys.modules.keys():
        _set(ENVIRONMENT)
    import torch

    torch.set_num_threads(1)
    if not _inherited():
        return
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its kernels are replaced, which is meant
        for name, kernel in _kernels().items():
            _library.impl(name, kernel, "CPU")


def _inherited():
    """Whether numpy and torch run what the environment names, asked of themselves."""
    import numpy as np
    import torch

    features = np._core._multiarray_umath.__cpu_features__
    return (
        all(os.environ.get(name) == value for name, value in ENVIRONMENT.items())
        and torch.backends.cpu.get_cpu_capability() == "AVX2"
        and not any(features.get(name) for name in ENVIRONMENT["NPY_DISABLE_CPU_FEATURES"].split())
    )


def _kernels():
    """torch's matrix products and exp on a CPU, by numpy: {operator of aten: kernel}."""
    import numpy as np
    import torch

    def product(a, b):
        out = a.new_empty((*a.shape[:-1], b.shape[-1]))
        np.matmul(a.detach().numpy(), b.detach().numpy(), out=out.numpy())
        return out

    def product_into(a, b, *, out):
        out.resize_(a.shape[0], b.shape[1])
        np.matmul(a.detach().numpy(), b.detach().numpy(), out=out.numpy())
        return out

    def product_plus(c, a, b, *, beta=1, alpha=1):
        out = product(a, b)
        if alpha != 1:
            out.mul_(alpha)
        return out.add_(c, alpha=beta) if beta else out

    def exponential(a):
        out = torch.empty_like(a)
        np.exp(a.detach().numpy(), out=out.numpy())
        return out

    products = {"mm": product, "bmm": product, "mm.out": product_into, "addmm": product_plus, "baddbmm": product_plus}
    return products | {"exp": exponential}


def fuse_attention(head_width, context):
    """Let torch's fused attention do what it does alike on every processor, and no more.

    Tried on a Xeon, an EPYC and emulated ones: it parts at heads narrower than 12 and sequences longer than 192.
    """
    import torch

    if _library is not None:
        torch.backends.cuda.enable_flash_sdp(head_width >= 12 and context <= 192)


def told():
    """What provenance says of this process' numerics: "pinned", or "of this processor: " and why."""
    if _library is not None:
        return "pinned"
    if not supported():
        return f"of this processor: {platform.machine()} without AVX2"
    return "of this processor: not pinned when numpy and torch were imported"
