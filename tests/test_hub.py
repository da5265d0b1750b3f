"""What can go wrong with a hub and its cache, through the unmodified huggingface_hub.

The hub is tests/hub_server.py; it serves small random models under the real names.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT
from hub_server import OLMO, OLMOE, PYTHIA, WEIGHTS, blobs, cache
from huggingface_hub import constants

from lib.panels import CheckpointError, load_panel
from lib.panels import checkpoints as models
from lib.panels import hub as client

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
    assert models.load(load_panel("paper").model("pythia-1b"), "step512").checkpoint["hub_commit"] == hub.commit(
        PYTHIA, "step512"
    )
    fails(revision="step256", match=r"step256 is not complete in the cache \(.*\) and HF_HUB_OFFLINE is set: unset it")
    client.evict(PYTHIA, "step512")
    fails(match="step512 is not complete in the cache")
    assert not hub.requests


def test_without_a_connection_a_cached_revision_is_loaded_and_another_is_refused(hub, monkeypatch):
    client.fetch(PYTHIA, "step512")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert models.load(load_panel("paper").model("pythia-1b"), "step512")
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
        "from lib.panels import hub; hub.free_bytes = lambda p: 1 << 40\n"
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
    with FileLock(cache() / ".locks" / folder.parent.name / f"{'b' * 64}.lock"):
        client.fetch(PYTHIA, "step4")
    assert not dead.exists() and alive.exists()
