# Fans `python -m lib.run` out over machines: one job a checkpoint (a GPU each on a cluster), then
# one a finding and model on CPUs.  On a single machine `python -m lib.run` itself is simpler, and
# downloads the next checkpoint meanwhile.
#
#     snakemake --profile profiles/local --config panel=laptop
#     snakemake --profile profiles/slurm --config panel=paper
#
# Tables and notebooks are lib.run's own files, which a failed job leaves alone; what Snakemake sees
# are the stamps in results/<panel>/stamps, and whether what a result was made from has changed.

import shlex
import sys

sys.path.insert(0, workflow.basedir)

from lib import provenance
from lib.files import results_dir
from lib.panels.panel import load_panel
from lib.report import jobs
from lib.tables import heads

PANEL = str(config.get("panel", "mini"))
panel = load_panel(PANEL)
PYTHON, STAMPS = sys.executable, results_dir(panel.name) / "stamps"
shell.prefix(f"cd {shlex.quote(str(workflow.basedir))}; ")


def last(model):
    return panel.model(model).revisions[-1].name


def measured(model, revision=None):
    """Stamps of one checkpoint of a model, or of all."""
    names = [revision] if revision else [r.name for r in panel.model(model).revisions]
    return [STAMPS / "measured" / model / name for name in names]


wildcard_constraints:
    model="|".join(panel.models),
    finding="|".join(jobs.notebooks()),


rule all:
    input:
        expand(STAMPS / "executed" / "{model}" / "{finding}", model=panel.models, finding=jobs.notebooks()),


# A head table, a causal table and attention rows; the last revision first, since the others need its circuit.
rule measure:
    input:
        lambda w: [] if w.revision == last(w.model) else measured(w.model, last(w.model)),
    output:
        touch(STAMPS / "measured" / "{model}" / "{revision}"),
    params:
        made_from=lambda w: provenance.digest(heads.sources(panel, w.model, w.revision)),
    threads: 4
    resources:
        gpu=1,
    shell:
        "{PYTHON} -m lib.run --panel {PANEL} --models {wildcards.model} --revisions {wildcards.revision}"
        " --skip notebooks --evict --jobs {threads}"


rule execute:
    input:
        lambda w: measured(w.model),
    output:
        touch(STAMPS / "executed" / "{model}" / "{finding}"),
    params:
        made_from=lambda w: [
            provenance.file_digest(jobs.notebook_of(w.finding)), provenance.code_digest(*jobs.READING_CODE)
        ],
    threads: 2
    shell:
        "{PYTHON} -m lib.run --panel {PANEL} --models {wildcards.model} --findings {wildcards.finding} --jobs {threads}"
