"""Checkpoints from a hub, through the unmodified huggingface_hub, and everything that can go wrong with one.

The hub is tests/hub_server.py; it serves small random models under the real names.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import yaml
from conftest import HUB_HOME, ROOT
from huggingface_hub import constants
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from lib.files import results_dir
from lib.panels import checkpoints as models
from lib.panels import hub as client
from lib.panels.hub import CheckpointError
from lib.panels.panel import load_panel
from lib.report import execution as run
from lib.report import jobs
from lib.tables import heads

PYTHIA, OLMO, OLMOE = "EleutherAI/pythia-1b", "allenai/OLMo-1B-0724-hf", "allenai/OLMoE-1B-7B-0924"
CACHE = Path(HUB_HOME) / "hub"
WEIGHTS = r"\.safetensors$"


def blobs(pattern="*"):
    return [p for p in CACHE.glob(f"models--*/blobs/{pattern}") if p.is_file()]


def spec(name="pythia-1b", **changes):
    model = load_panel("paper").model(name)
    return model.model_copy(update=changes)


def edited_weights(files, name="model.safetensors", edit=lambda tensors: None):
    """A checkpoint's files with its tensors edited in place."""
    tensors = load_tensors(files[name])
    edit(tensors)
    return files | {name: save_tensors(tensors, {"format": "pt"})}


# Loading --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, stored", [("pythia-1b", "float16"), ("olmo-1b-0724", "float32"), ("olmoe-1b-7b-0924", "bfloat16")]
)
def test_a_revision_is_loaded_from_the_cache_in_the_panels_dtype_with_its_commit_and_hash(hub, name, stored):
    revision = spec(name).revisions[2].name
    loaded = models.load(spec(name), revision)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32} and not loaded.training
    assert loaded.checkpoint["hub_commit"] == hub.commit(spec(name).hub, revision)
    assert len(loaded.checkpoint["weights_sha256"]) == 64
    stored_tensors = {}
    for file, data in hub.repos[spec(name).hub][revision].items():
        stored_tensors |= load_tensors(data) if file.endswith(".safetensors") else {}
    same = stored_tensors.keys() & loaded.state_dict().keys()  # transformers renames some and merges experts
    assert len(same) > 8
    for key in same:
        assert str(stored_tensors[key].dtype) == f"torch.{stored}"
        assert torch.equal(loaded.state_dict()[key], stored_tensors[key].float()), key
    asked = {path for _, path, _ in hub.requests}
    assert not any("main" in path or "README" in path or "tokenizer" in path for path in asked)


def test_the_second_load_downloads_nothing(hub):
    models.load(spec(), "step512")
    hub.reset()
    models.load(spec(), "step512")
    assert not hub.asked("/resolve/")


def test_pickles_are_used_only_where_there_are_no_safetensors_and_are_never_executed(hub, tmp_path):
    import io

    files = hub.repos[PYTHIA]["step512"]
    tensors = load_tensors(files["model.safetensors"])
    buffer = io.BytesIO()
    torch.save(tensors, buffer)

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "executed",))

    evil = io.BytesIO()
    torch.save({"gpt_neox.embed_in.weight": Evil()}, evil)
    hub.repos[PYTHIA]["step512"] = files | {"pytorch_model.bin": evil.getvalue()}
    models.load(spec(), "step512")
    assert not hub.asked(r"\.bin$")

    rest = {name: data for name, data in files.items() if name != "model.safetensors"}
    hub.repos[PYTHIA]["step1"] = rest | {"pytorch_model.bin": buffer.getvalue()}
    loaded = models.load(spec(), "step1")
    assert torch.equal(loaded.state_dict()["gpt_neox.embed_in.weight"], tensors["gpt_neox.embed_in.weight"].float())

    hub.repos[PYTHIA]["step4"] = rest | {"pytorch_model.bin": evil.getvalue()}
    with pytest.raises(CheckpointError, match="Pythia 1B at step4 could not be loaded: .*[Ww]eights.only"):
        models.load(spec(), "step4")
    assert not (tmp_path / "executed").exists()


def test_code_of_a_repository_is_never_run(hub, tmp_path):
    files = dict(hub.repos[PYTHIA]["step512"])
    config = json.loads(files["config.json"]) | {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"},
    }
    hub.repos[PYTHIA]["step512"] = files | {
        "config.json": json.dumps(config).encode(), "evil.py": f"open({str(tmp_path / 'executed')!r}, 'w')".encode(),
    }  # fmt: skip
    with pytest.raises(CheckpointError, match="could not be loaded"):
        models.load(spec(), "step512")
    assert not hub.asked("evil") and not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["pythia-1b", "olmo-1b-0724", "olmoe-1b-7b-0924"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_measured_and_recorded_and_olmo_warns(hub, tmp_path, name, dtype):
    content = yaml.safe_load((tmp_path / "panels" / "paper.yml").read_text())
    content["models"][name]["dtype"] = dtype
    (tmp_path / "panels" / "paper.yml").write_text(yaml.safe_dump(content, sort_keys=False))
    panel = load_panel("paper")
    revision = panel.model(name).revisions[-1].name
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = heads.measure(panel, name, revision)
    told = table.attrs["provenance"]
    assert told["dtype"] == dtype and told["sources"]["dtype"] == dtype and table["pr"].between(1, 16).all()
    assert any(f"OLMo in {dtype}" in str(w.message) for w in caught) == (name == "olmo-1b-0724")


def test_half_precision_on_mps_is_doubted_for_every_architecture():
    for architecture in ("gpt_neox", "olmo", "olmoe"):
        assert any("on MPS" in d for d in models.half_precision_doubts(architecture, "float16", "mps"))
        assert not models.half_precision_doubts(architecture, "float32", "mps")


def test_the_device_is_the_panels_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert models.device("auto") == models.device("cpu") == "cpu"
    with pytest.raises(models.DeviceError, match="device 'cuda' is not on this machine; there is cpu"):
        models.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert models.device("auto") == "cuda"
    monkeypatch.setenv("CIRCUITS_DEVICE", "cpu")
    assert models.device("cuda") == "cpu"


# Faults of a hub ------------------------------------------------------------------------


def fails(repo=PYTHIA, revision="step512", match=""):
    with pytest.raises(CheckpointError, match=match):
        client.verified(repo, revision)


def test_an_unknown_revision_is_answered_with_the_nearest(hub):
    fails(revision="step30000", match=f"{PYTHIA} has no revision 'step30000'. Nearest: step3000, ")
    assert not hub.asked("/resolve/")


def test_an_unknown_repository_is_named(hub):
    fails(
        "EleutherAI/pythia-2b", match=r"has no repository EleutherAI/pythia-2b that you may read \(401\): correct 'hub'"
    )


@pytest.mark.parametrize(
    "drop, message",
    [
        ("config.json", f"{OLMOE} at step5000-tokens20B has no config.json"),
        (
            "model-00002-of-00003.safetensors",
            "lacks a part of its weights: model.safetensors.index.json is there with 2 of 3 parts",
        ),
        ("*.safetensors*", "holds no weights .*; found README.md, config.json, tokenizer.json"),
    ],
)
def test_a_missing_file_is_named_before_anything_is_downloaded(hub, drop, message):
    files = hub.repos[OLMOE]["step5000-tokens20B"]
    for name in [n for n in files if Path(n).match(drop)]:
        del files[name]
    fails(OLMOE, "step5000-tokens20B", message)
    assert not hub.asked("/resolve/")


def test_a_file_that_is_listed_but_not_there_is_named(hub):
    hub.fault("status", path=WEIGHTS, method="HEAD|GET", status=404, headers=(("X-Error-Code", "EntryNotFound"),))
    fails(match=f"{PYTHIA} at step512 lists model.safetensors but the hub does not have it")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("path, method", [("/api/models", "GET"), (WEIGHTS, "HEAD"), (WEIGHTS, "GET")])
def test_a_busy_hub_is_asked_again(hub, monkeypatch, capsys, status, path, method):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    hub.fault("status", path=path, method=method, status=status, times=2, headers=(("Retry-After", "1"),))
    snapshot, _ = client.verified(PYTHIA, "step512")
    assert not snapshot.missing() and hub.faults[0].times == 0
    if path.startswith("/api"):
        assert f"asking for {PYTHIA}: the hub answered {status}; trying again in 1 s" in capsys.readouterr().err


def test_a_hub_that_stays_busy_is_given_up_with_what_to_do(hub, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    hub.fault("status", path="/api", status=503)
    fails(match="the hub still answers 503 after 3 tries; what is finished is kept: run again later")


def test_a_connection_cut_half_way_is_resumed_where_it_was(hub, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 12)  # of 10 MB: these files are small
    size = len(hub.repos[OLMO]["step1000-tokens2B"]["model.safetensors"])
    hub.fault("cut", path=WEIGHTS, times=1, after=9 << 12)
    client.verified(OLMO, "step1000-tokens2B")
    ranges = [r for _, _, r in hub.asked(WEIGHTS)]
    assert ranges == [None, f"bytes={9 << 12}-"] and size > 9 << 12


def test_a_truncated_file_is_downloaded_again_and_given_up_at_last(hub, capsys):
    hub.fault("short", path=WEIGHTS, method="GET", times=1, after=1000)
    client.verified(PYTHIA, "step512")
    assert "a file arrived shorter than announced; trying again" in capsys.readouterr().err
    hub.fault("short", path=WEIGHTS, method="GET", after=1000)
    fails(revision="step256", match="a file still arrives shorter than announced after 3 tries")
    assert not blobs("*.incomplete")


def test_a_wrong_checksum_is_noticed_and_the_file_replaced(hub, capsys):
    hub.fault("corrupt", path=WEIGHTS, method="GET", times=1)
    snapshot, digests = client.verified(PYTHIA, "step512")
    assert "the checksum of model.safetensors is wrong; downloading it again" in capsys.readouterr().err
    assert digests == {f.name: f.sha256 for f in snapshot.weights}


def test_a_checksum_that_stays_wrong_is_refused_and_the_file_removed(hub):
    hub.fault("corrupt", path=WEIGHTS, method="GET")
    fails(match="model.safetensors does not have the checksum that the hub publishes, in two downloads")
    assert [len(p.name) for p in blobs()] == [40]  # the config only


def test_offline_a_cached_revision_is_loaded_and_another_is_refused(hub, monkeypatch):
    client.fetch(PYTHIA, "step512")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.reset()
    assert models.load(spec(), "step512").checkpoint["hub_commit"] == hub.commit(PYTHIA, "step512")
    fails(revision="step256", match=r"step256 is not complete in the cache \(.*\) and HF_HUB_OFFLINE is set: unset it")
    client.evict(PYTHIA, "step512")
    fails(match="step512 is not complete in the cache")
    assert not hub.requests


def test_without_a_connection_a_cached_revision_is_loaded_and_another_is_refused(hub, monkeypatch):
    client.fetch(PYTHIA, "step512")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert models.load(spec(), "step512")
    fails(
        revision="step256", match="step256: http://127.0.0.1:9 cannot be reached .*what is finished is kept: run again"
    )


@pytest.mark.parametrize("status, code", [(401, "GatedRepo"), (403, "GatedRepo"), (403, "")])
def test_a_gated_repository_tells_how_to_get_in(hub, status, code):
    hub.fault("status", path=".*", method="HEAD|GET", status=status, headers=(("X-Error-Code", code),))
    fails(match=rf"{PYTHIA} is gated \({status}\): ask for access at .*/{PYTHIA}, then log in with `hf auth login`")


def test_a_file_that_is_gated_although_its_listing_is_not(hub):
    hub.fault("status", path="/resolve/", method="HEAD|GET", status=403, headers=(("X-Error-Code", "GatedRepo"),))
    fails(match="is gated")


def test_a_full_disk_is_noticed_before_the_download(hub, monkeypatch):
    monkeypatch.setattr(client, "free_bytes", lambda _: 1000)
    fails(match=r"the disk is full: .* kB to download and 1 kB free at .*--evict, or set HF_HOME")
    assert not hub.asked("/resolve/")


def test_a_disk_that_fills_up_while_downloading(hub, tmp_path):
    """A real full disk: a small one, mounted in a namespace of the test's own."""
    script = (
        "from lib import hub; real = hub.free_bytes; hub.free_bytes = lambda p: 1 << 40\n"
        f"try: hub.fetch({OLMO!r}, 'step1000-tokens2B')\n"
        "except hub.DiskFull as error: print(error)\n"
    )
    command = f'mount -t tmpfs -o size=64k tmpfs {tmp_path} && HF_HOME={tmp_path} {sys.executable} -c "$SCRIPT"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command],
        cwd=ROOT, env=os.environ | {"SCRIPT": script}, capture_output=True, text=True,
    )  # fmt: skip
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no namespaces here")
    assert f"{OLMO} at step1000-tokens2B: the disk is full: " in done.stdout, done.stderr


# Faults of a checkpoint -------------------------------------------------------------------


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_weights_that_are_not_finite_are_refused_by_name(hub, value):
    def spoil(tensors):
        tensors["gpt_neox.layers.1.mlp.dense_4h_to_h.weight"][3, 4] = float(value)

    hub.repos[PYTHIA]["step512"] = edited_weights(hub.repos[PYTHIA]["step512"], edit=spoil)
    with pytest.raises(
        CheckpointError, match="step512: the weights gpt_neox.layers.1.mlp.dense_4h_to_h.weight hold NaN or inf"
    ):
        models.load(spec(), "step512")


def test_half_precision_that_overflows_is_refused(hub):
    hub.repos[OLMO]["step1000-tokens2B"] = edited_weights(
        hub.repos[OLMO]["step1000-tokens2B"], edit=lambda tensors: tensors["lm_head.weight"].mul_(1e7)
    )
    models.load(spec("olmo-1b-0724"), "step1000-tokens2B")
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="too large for this dtype: try float32"):
        models.load(spec("olmo-1b-0724", dtype="float16"), "step1000-tokens2B")


def test_another_architecture_under_a_name_is_refused(hub):
    from transformers import GPT2Config

    files = hub.repos[PYTHIA]["step512"]
    files["config.json"] = json.dumps(GPT2Config(architectures=["GPT2LMHeadModel"]).to_dict()).encode()
    with pytest.raises(
        CheckpointError, match="Pythia 1B at step512 is a GPT2LMHeadModel; the measurements are checked for"
    ):
        models.load(spec(), "step512")
    hub.repos[PYTHIA]["step4"] = hub.repos[OLMO]["step1000-tokens2B"]
    panel = load_panel("paper")
    heads.measure(panel, "pythia-1b", "step143000")
    with pytest.raises(
        CheckpointError, match="step4 has another config than step143000: .*model_type is 'olmo', not 'gpt_neox'"
    ):
        heads.measure(panel, "pythia-1b", "step4")


def test_revisions_with_the_same_weights_are_named_by_the_preflight_and_after_measuring(hub, capsys):
    # Under another commit and with another config text, as it has happened on the hub.
    files = hub.repos[PYTHIA]["step1"]
    hub.repos[PYTHIA]["step4"] = files | {"config.json": files["config.json"] + b" ", "README.md": b"other"}
    panel = load_panel("paper")
    warning = "Pythia 1B: step1 and step4 hold the same weights. At most one of them can be what its name says"
    assert run.main(["--panel", "paper", "--models", "pythia-1b", "--check"]) == 0
    assert warning in capsys.readouterr().out
    for revision in ("step1", "step4", "step16"):
        heads.measure(panel, "pythia-1b", revision)
    assert heads.same_weights(panel, "pythia-1b") == [["step1", "step4"]]
    arguments = ["--models", "pythia-1b", "--revisions", "step1", "step4", "--skip", "notebooks", "causal"]
    assert run.main(["--panel", "paper", *arguments]) == 0
    assert warning in capsys.readouterr().err


# The cache ----------------------------------------------------------------------------------


def test_evicting_frees_the_weights_of_that_revision_only_and_keeps_what_others_share(hub):
    hub.repos[PYTHIA]["step4"] = dict(hub.repos[PYTHIA]["step1"], **{"README.md": b"other"})
    for revision in ("step1", "step4", "step16"):
        client.fetch(PYTHIA, revision)
    shared = len(hub.repos[PYTHIA]["step1"]["model.safetensors"])
    assert client.evict(PYTHIA, "step1") == 0  # step4 needs the same file
    assert client.evict(PYTHIA, "step4") == shared
    assert client.evict(PYTHIA, "step4") == client.evict(PYTHIA, "step9") == client.evict(OLMO, "main") == 0
    assert not client.resolve(PYTHIA, "step16").missing()
    client.fetch(PYTHIA, "step1")  # and it can come back
    assert not client.resolve(PYTHIA, "step1").missing()


def test_what_a_killed_download_left_is_removed_but_not_what_is_being_written(hub):
    from filelock import FileLock

    client.fetch(PYTHIA, "step1")
    folder = blobs()[0].parent
    dead, alive = folder / f"{'a' * 64}.0123abcd.incomplete", folder / f"{'b' * 64}.0123abcd.incomplete"
    dead.write_bytes(b"half"), alive.write_bytes(b"half")
    with FileLock(CACHE / ".locks" / folder.parent.name / f"{'b' * 64}.lock"):
        client.fetch(PYTHIA, "step4")
    assert not dead.exists() and alive.exists()


# Kills ----------------------------------------------------------------------------------------


def command(*arguments):
    return [sys.executable, "-m", "lib.run", "--panel", "paper", "--jobs", "2", *arguments]


def start(*arguments):
    return subprocess.Popen(
        command(*arguments),
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def until(condition, process, seconds=120):
    deadline = time.time() + seconds
    while not condition() and process.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    assert condition(), process.communicate()[0]


def contents(models=("pythia-1b",), kinds=("heads", "causal")):
    """{table: hash of its numbers} of what is on disk."""
    panel, found = load_panel("paper"), {}
    for kind in kinds:
        for path in (results_dir(panel.name) / kind).rglob("*.parquet"):
            if path.parent.name in models:
                import pandas as pd

                found[f"{kind}/{path.parent.name}/{path.stem}"] = pd.read_parquet(path).attrs["provenance"]["content"]
    return found


SOME = ("--models", "pythia-1b", "--revisions", "step1", "step143000", "--skip", "notebooks")


def expected(undisturbed, *revisions):
    return {k: v for k, v in undisturbed.items() if k.split("/")[1] == "pythia-1b" and k.split("/")[2] in revisions}


@pytest.fixture(scope="module")
def undisturbed(_stocked, tmp_path_factory):
    """The paper's panel from end to end, nobody in its way: hashes of its 60 tables, and what was seen on the way."""
    folder = tmp_path_factory.mktemp("undisturbed")
    from conftest import HUB

    HUB.reset()
    shutil.rmtree(CACHE, ignore_errors=True)
    (folder / "panels").mkdir()
    (folder / "panels" / "paper.yml").write_text(yaml.safe_dump(_stocked, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCUITS_PANELS", str(folder / "panels"))
        patch.setenv("CIRCUITS_RESULTS", str(folder / "results"))
        process, held = start("--skip", "notebooks", "--evict"), [0]

        def watch():
            while process.poll() is None:
                held[0] = max(held[0], len({p.name for p in blobs() if len(p.name) > 40}))
                time.sleep(0.02)

        watcher = threading.Thread(target=watch)
        watcher.start()
        output = process.communicate()[0]
        watcher.join()
        assert process.returncode == 0, output
        tables = contents(models=tuple(load_panel("paper").models))
    return {"tables": tables, "held": held[0], "requests": list(HUB.requests), "output": output, "folder": folder}


def test_the_papers_panel_runs_from_end_to_end_on_a_disk_for_two_checkpoints(undisturbed, hub):
    panel = load_panel("paper")
    assert len(undisturbed["tables"]) == 60 and len(set(undisturbed["tables"].values())) > 30
    downloads = [
        path for method, path, _ in undisturbed["requests"] if method == "GET" and path.endswith(".safetensors")
    ]
    assert len(downloads) == len(set(downloads)) == 10 + 10 + 10 * 3  # each file once, parts of OLMoE among them
    order = list(
        dict.fromkeys(hub.find(p.split("/resolve/")[0][1:], p.split("/resolve/")[1].split("/")[0]) for p in downloads)
    )
    assert order[:3] == ["step143000", "step1", "step4"]  # the last revision's circuit is needed for all
    assert not any("/main" in path for _, path, _ in undisturbed["requests"])
    assert undisturbed["held"] <= 2 * 3 and not [p for p in blobs() if len(p.name) > 40]
    assert (
        "(30 of 30)" in undisturbed["output"] and "seq/s" in undisturbed["output"] and "MB of" in undisturbed["output"]
    )
    assert panel.batch.n_sequences == 12


def test_its_notebooks_run_and_it_never_does_anything_twice(undisturbed, hub, monkeypatch):
    monkeypatch.setenv("CIRCUITS_RESULTS", str(undisturbed["folder"] / "results"))
    one = ("--models", "olmoe-1b-7b-0924", "--findings", "F1", "F4", "--revisions", "step1220000-tokens5117B")
    for said in ("2 runs, 0 unchanged", "2 runs, 2 unchanged"):
        done = subprocess.run(command(*one), cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0 and said in done.stderr, done.stderr
    assert not hub.requests
    text = jobs.plan("paper", ["F1"], ["olmoe-1b-7b-0924"], ["step1220000-tokens5117B"])[0].output.read_text()
    assert hub.commit(OLMOE, "step1220000-tokens5117B")[:10] in text


def test_killed_while_downloading_it_loses_that_download_only(hub, undisturbed):
    hub.fault("slow", path=WEIGHTS, method="GET", pause=30, times=1)
    process = start(*SOME)
    until(lambda: blobs("*.incomplete"), process)
    kill(process)
    assert blobs("*.incomplete") and not contents()
    hub.reset()
    again = subprocess.run(command(*SOME), cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert contents() == expected(undisturbed["tables"], "step1", "step143000")
    assert not blobs("*.incomplete")


def test_killed_while_measuring_it_keeps_what_is_finished(hub, undisturbed):
    process = start(*SOME)
    until(contents, process)
    kill(process)
    before = contents()
    times = {p: p.stat().st_mtime_ns for p in results_dir("paper").rglob("*.parquet")}
    again = subprocess.run(command(*SOME), cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert contents() == expected(undisturbed["tables"], "step1", "step143000") and before.items() <= contents().items()
    assert all(p.stat().st_mtime_ns == t for p, t in times.items()), "a finished table was made again"


def test_killed_while_writing_nothing_half_written_is_read(hub):
    script = (
        "import os, signal, pandas\n"
        "from lib import heads; from lib.panels.panel import load_panel\n"
        "whole = pandas.DataFrame.to_parquet\n"
        "def half(self, path, **kw):\n"
        "    whole(self, path, **kw); os.truncate(path, os.path.getsize(path) // 2); os.kill(os.getpid(), signal.SIGKILL)\n"
        "pandas.DataFrame.to_parquet = half\n"
        "heads.measure(load_panel('paper'), 'pythia-1b', 'step1')\n"
    )
    died = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True)
    assert died.returncode == -signal.SIGKILL
    (left,) = (results_dir("paper") / "heads" / "pythia-1b").iterdir()
    assert left.suffix == ".tmp"
    panel = load_panel("paper")
    assert heads.read(panel, "pythia-1b", "step1") is None
    assert heads.head_table(panel, "pythia-1b", "step1") is not None


def test_a_worker_does_not_outlive_its_parent(hub):
    hub.fault("slow", path=WEIGHTS, method="GET", pause=60)
    process = start(*SOME)
    until(lambda: blobs("*.incomplete"), process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid, signal.SIGKILL)  # the parent only
    process.wait()
    deadline = time.time() + 30
    alive = children
    while alive and time.time() < deadline:
        alive = [
            p
            for p in alive
            if Path(f"/proc/{p}/stat").exists() and Path(f"/proc/{p}/stat").read_text().split(") ")[1][0] != "Z"
        ]
        time.sleep(0.05)
    assert children and not alive


def test_interrupted_at_random_it_ends_with_the_same_tables(hub, undisturbed):
    """CIRCUITS_KILLS=20 does it twenty times."""
    import random

    rng, kills = random.Random(7), int(os.environ.get("CIRCUITS_KILLS", "2"))
    wanted = {k: v for k, v in undisturbed["tables"].items() if "/pythia-1b/" in k}
    arguments = ("--models", "pythia-1b", "--skip", "notebooks", "--evict")
    process, started = start(*arguments), time.time()
    until(contents, process)
    usual = time.time() - started  # a start takes so long here, up to the first table
    while kills:
        time.sleep(rng.uniform(0, 1.5 * usual))
        kills -= process.poll() is None
        kill(process)
        assert contents().items() <= wanted.items()
        if contents() == wanted:  # it had come to its end: from the beginning again
            shutil.rmtree(results_dir("paper"))
        process = start(*arguments)
    kill(process)
    last = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert contents() == wanted
    assert not blobs("*.incomplete") and not [p for p in blobs() if len(p.name) > 40]


def test_two_sweeps_at_once_share_the_work_and_neither_spoils_the_others(hub, undisturbed, tmp_path, monkeypatch):
    arguments = (
        "--models",
        "pythia-1b",
        "--revisions",
        "step1",
        "step4",
        "step143000",
        "--skip",
        "notebooks",
        "--evict",
    )
    first, second = start(*arguments), start(*arguments)
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "elsewhere"))
    third = start(*arguments)  # the same cache, results of its own
    wanted = expected(undisturbed["tables"], "step1", "step4", "step143000")
    for process in (first, second, third):
        output = process.communicate()[0]
        assert process.returncode == 0, output
    assert contents() == wanted
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "results"))
    assert contents() == wanted
    assert len(hub.asked(WEIGHTS)) <= 2 * 3  # at most once for each place of results
