"""A model hub on this machine, for the unmodified huggingface_hub (HF_ENDPOINT): small random models under real names.

    python tests/hub_server.py panels/paper.yml     serves until it is stopped, and prints what to set

It speaks what huggingface_hub asks for: a revision with its files, the tree, the refs, and
files with ETag, X-Repo-Commit, X-Linked-Size and ranges.  It can be told to misbehave: see Fault.
"""

import hashlib
import json
import re
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlparse

import yaml

PYTHIA, OLMO, OLMOE = "EleutherAI/pythia-1b", "allenai/OLMo-1B-0724-hf", "allenai/OLMoE-1B-7B-0924"
WEIGHTS = r"\.safetensors$"


@dataclass
class Fault:
    """Misbehaviour of some answers, `times` times (None: always).

    method, path: a regular expression each that must match.  what: "status" (with status,
    headers), "cut" (the connection, after `after` bytes of the file), "short" (a file that says it is
    complete after so many bytes), "corrupt" (other bytes of the same number), "slow"
    (`pause` seconds before every 64 kB).
    """

    what: str
    path: str = ""
    method: str = "GET"
    times: int | None = None
    status: int = 0
    headers: tuple = ()
    after: int = 0
    pause: float = 0.0


class Hub:
    """The server and what it holds: repos is {repository: {revision: {file: bytes}}}."""

    def __init__(self):
        self.repos, self.faults, self.requests = {}, [], []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients are killed here, and that is all it would tell
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reset(self):
        """Forget faults and requests."""
        self.faults, self.requests = [], []

    def fault(self, what, **how):
        """Misbehave from now on: see Fault."""
        self.faults.append(Fault(what, **how))

    def asked(self, pattern, method="GET"):
        """The requests so far whose path matches, as (method, path, range)."""
        return [r for r in self.requests if r[0] == method and re.search(pattern, r[1])]

    def commit(self, repo, revision):
        """A commit hash that depends on the revision's name and content."""
        content = {name: hashlib.sha1(data).hexdigest() for name, data in self.repos[repo][revision].items()}
        return hashlib.sha1(json.dumps([repo, revision, content], sort_keys=True).encode()).hexdigest()

    def find(self, repo, name):
        """The revision of that name or commit; None if there is none."""
        return next((r for r in self.repos[repo] if name in (r, self.commit(repo, r))), None)

    def take(self, method, path):
        """The fault of this request, if any, counted."""
        for fault in self.faults:
            if fault.times != 0 and re.fullmatch(fault.method, method) and re.search(fault.path, path):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None


def _is_large(name):
    return name.endswith((".safetensors", ".bin"))


def _oid(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _handler(hub):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            path = unquote(urlparse(self.path).path)
            hub.requests.append((self.command, path, self.headers.get("Range")))
            fault = hub.take(self.command, path)
            if fault and fault.what == "status":
                return self.fail(fault.status, **dict(fault.headers))
            api = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree|refs)(?:/(.+))?", path)
            file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            repo = (api or file)[1] if api or file else None
            if repo not in hub.repos:
                # As the hub does: who has not logged in is not told whether there is such a repository.
                return self.fail(401, X_Error_Code="RepoNotFound", X_Error_Message="Invalid username or password.")
            if api and api[2] == "refs":
                branches = [
                    {"name": r, "ref": f"refs/heads/{r}", "targetCommit": hub.commit(repo, r)} for r in hub.repos[repo]
                ]
                return self.json({"branches": branches, "converts": [], "tags": []})
            revision = hub.find(repo, (api or file)[3 if api else 2])
            if revision is None:
                return self.fail(404, X_Error_Code="RevisionNotFound", X_Error_Message="Invalid rev id")
            files, commit = hub.repos[repo][revision], hub.commit(repo, revision)
            if api and api[2] == "revision":
                siblings = [
                    {"rfilename": name, "size": len(data), "blobId": _oid(data)} for name, data in files.items()
                ]
                for sibling in siblings:
                    if _is_large(sibling["rfilename"]):
                        data = files[sibling["rfilename"]]
                        sibling["lfs"] = {
                            "sha256": hashlib.sha256(data).hexdigest(),
                            "size": len(data),
                            "pointerSize": 134,
                        }
                return self.json({"id": repo, "modelId": repo, "sha": commit, "siblings": siblings, "tags": []})
            if api:
                tree = [
                    {"type": "file", "path": name, "size": len(data), "oid": _oid(data)} for name, data in files.items()
                ]
                for entry in tree:
                    if _is_large(entry["path"]):
                        data = files[entry["path"]]
                        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
                return self.json(tree)
            if file[3] not in files:
                return self.fail(
                    404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found", X_Repo_Commit=commit
                )
            return self.file(files[file[3]], file[3], commit, fault)

        do_HEAD = do_GET

        def fail(self, status, **headers):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def json(self, content):
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def file(self, data, name, commit, fault):
            etag = hashlib.sha256(data).hexdigest() if _is_large(name) else _oid(data)
            size, body = len(data), data
            if fault and fault.what == "corrupt":
                body = bytes(len(data) - 8) + data[:8]
            if fault and fault.what == "short":
                body = body[: fault.after]
            start = 0
            if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
                start = int(wanted[1])
            self.send_response(206 if start else 200)
            self.send_header("ETag", f'"{etag}"')
            self.send_header("X-Repo-Commit", commit)
            self.send_header("X-Linked-Etag", f'"{etag}"')
            self.send_header("X-Linked-Size", str(size))
            self.send_header("Accept-Ranges", "bytes")
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            if self.command == "HEAD":
                return
            try:
                sent = body[start : fault.after if fault and fault.what == "cut" else None]
                for at in range(0, len(sent), 1 << 16):
                    if fault and fault.what == "slow":
                        time.sleep(fault.pause)
                    self.wfile.write(sent[at : at + (1 << 16)])
            except OSError:
                pass  # the client was killed
            if fault and fault.what == "cut":
                self.close_connection = True

    return Handler


# What it serves --------------------------------------------------------------------

SMALL = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 64,
    "initializer_range": 0.3, "tie_word_embeddings": False, "use_cache": False,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
KINDS = {  # what is told by the repository's name: architecture, traits, dtype of the files, parts
    "pythia": ("gpt_neox", {}, "float16", 1),
    "OLMo-": ("olmo", {"clip_qkv": 8.0}, "float32", 1),
    "OLMoE-": ("olmoe", {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False}, "bfloat16", 3),
}


def checkpoint(repo, seed, **changes):
    """{file: bytes} of a small random checkpoint of a repository's architecture."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    architecture, config, dtype, parts = next(v for k, v in KINDS.items() if k in repo)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(architecture, **(SMALL | config | changes))
    model = AutoModelForCausalLM.from_config(config).to(getattr(torch, dtype))
    whole = sum(p.numel() * p.element_size() for p in model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size=whole // parts + 4096 if parts > 1 else "5GB")
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    files.pop("generation_config.json", None)
    # As on the hub: things that nobody needs here.
    return files | {"README.md": b"# A model\n", "tokenizer.json": b"{}" * 1000}


def stock(hub, panel, **changes):
    """Serve every revision of a panel (its content as a dict), each with weights of its own."""
    for number, spec in enumerate(panel["models"].values()):
        hub.repos[spec["hub"]] = {
            revision["name"]: checkpoint(spec["hub"], 100 * number + i, **changes)
            for i, revision in enumerate(spec["revisions"])
        }
        # The latest weights go by the name of main, too; nothing here may ever ask for it.
        hub.repos[spec["hub"]]["main"] = checkpoint(spec["hub"], 100 * number + 99, **changes)


def reduced(panel, n_sequences=12, seq_len=64):
    """A panel's content with a batch that the small models can read."""
    batch = {"n_sequences": n_sequences, "seq_len": seq_len, "vocab_low": 4, "vocab_high": 64, "seed": 42}
    return panel | {"batch": batch}


def cache():
    """The cache of huggingface_hub, which reads where it is when it is imported."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def blobs(pattern="*"):
    """Files in the cache, complete ones and others."""
    return [path for path in cache().glob(f"models--*/blobs/{pattern}") if path.is_file()]


def main():
    """Serve a panel until stopped."""
    source = Path(sys.argv[1])
    panel = reduced(yaml.safe_load(source.read_text()))
    folder = Path(tempfile.mkdtemp(prefix="hub-"))
    (folder / "panels").mkdir()
    (folder / "panels" / source.name).write_text(yaml.safe_dump(panel, sort_keys=False))
    hub = Hub()
    stock(hub, panel)
    for name, value in (("HF_ENDPOINT", hub.url), ("HF_HOME", folder / "home"), ("CIRCUITS_PANELS", folder / "panels")):
        print(f"export {name}={value}")
    print("export HF_HUB_DISABLE_XET=1", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
