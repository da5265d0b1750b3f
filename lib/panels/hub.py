"""Checkpoints from a model hub: which files a revision has, into huggingface_hub's own cache, and out again.

Nothing here is read by torch: lib.panels.checkpoints loads what fetch() has put into the cache.  What can go wrong with a
hub, a cache or a disk is recognised in one place, fault_of(), and said in one, faults.yml.
"""

import contextlib
import errno
import os
import re
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import yaml
from filelock import FileLock, Timeout
from huggingface_hub import HfApi, constants, get_cached_repo_tree, scan_cache_dir, snapshot_download
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    CacheNotFound,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars

from lib import provenance
from lib.files import UserError, nearest
from lib.formatting import bytes_text

WAITS = (1, 5, 30, 120)  # seconds before a hub that failed is asked again; longer if it says so itself
SPARE = 1 << 28  # bytes that a download must leave on the disk
CONFIG = "config.json"
# What transformers looks for, in its order, but pickles last.
SAFE = ("model.safetensors", "model.safetensors.index.json", r"model-\d+-of-(\d+)\.safetensors")
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", r"pytorch_model-\d+-of-(\d+)\.bin")

FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yml").read_text(encoding="utf-8"))

disable_progress_bars()  # the sweep draws one of its own


class CheckpointError(UserError, RuntimeError):
    """A checkpoint that is not there or cannot be measured; the message says what to do."""


class HubUnreachable(CheckpointError):
    """A hub that does not answer, or not now."""


class DiskFull(CheckpointError):
    """No room for a checkpoint on the disk of the cache."""


@dataclass(frozen=True)
class File:
    """A file of a revision.  blob: its name in the cache, which is the SHA-256 of a large file."""

    name: str
    size: int
    blob: str

    @property
    def sha256(self):
        """The published SHA-256, None for the small files that the hub keeps in git."""
        return self.blob if re.fullmatch("[0-9a-f]{64}", self.blob) else None


@dataclass(frozen=True)
class Snapshot:
    """A revision of a repository at the commit that it names now; files: those that are loaded."""

    repo: str
    revision: str
    commit: str
    files: tuple[File, ...] = field(repr=False)

    @property
    def folder(self):
        """Where the cache has it, complete or not."""
        return _repo_folder(self.repo) / "snapshots" / self.commit

    @property
    def size(self):
        """Bytes in all."""
        return sum(file.size for file in self.files)

    @property
    def left(self):
        """Bytes that are still to be downloaded."""
        return self.size - self.bytes_present()

    @property
    def weights(self):
        """The files that hold weights."""
        return [file for file in self.files if not file.name.endswith(".json")]

    @property
    def safetensors(self):
        """Whether its weights are safetensors, not pickles."""
        return all(file.name.endswith(".safetensors") for file in self.weights)

    def missing(self):
        """The files that are not in the cache yet."""
        return [file for file in self.files if not (self.folder / file.name).is_file()]

    def bytes_present(self):
        """Bytes of it on this disk by now, half-downloaded files included."""
        blobs = _repo_folder(self.repo) / "blobs"
        present = 0
        for file in self.files:
            whole = blobs / file.blob
            parts = [whole] if whole.exists() else list(blobs.glob(f"{file.blob}.*.incomplete"))
            present += min(file.size, max((_size(part) for part in parts), default=0))
        return present


def _size(path):
    try:
        return path.stat().st_size
    except OSError:  # finished or given up between two looks
        return 0


def _repo_folder(repo):
    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def _locks(repo):
    """Where huggingface_hub keeps its locks on the files of a repository."""
    return Path(constants.HF_HUB_CACHE) / ".locks" / _repo_folder(repo).name


# Asking ----------------------------------------------------------------------------


def resolve(repo, revision):
    """The commit and the files of a revision; without a connection, from the cache.

    Never another revision than the one that is named.  Raises CheckpointError.
    """
    try:
        info = patiently(lambda: HfApi().model_info(repo, revision=revision, files_metadata=True), f"asking for {repo}")
    except (OfflineModeIsEnabled, httpx2.TransportError) as error:
        snapshot = _resolve_offline(repo, revision)
        if snapshot is None or snapshot.missing():
            raise explain(error, repo, revision) from error
        return snapshot
    except Exception as error:  # noqa: BLE001 - everything that a hub can do wrong
        raise explain(error, repo, revision) from error
    listed = [File(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else s.blob_id or "") for s in info.siblings]
    return Snapshot(repo, revision, info.sha, choose(listed, repo, revision))


def _resolve_offline(repo, revision):
    """A revision from what the cache knows, complete or not; None if it knows nothing."""
    try:
        commit = (_repo_folder(repo) / "refs" / revision).read_text(encoding="utf-8")
        tree = get_cached_repo_tree(repo, revision=revision)
    except (OSError, CachedRepoTreeNotFoundError):
        return None
    folder = _repo_folder(repo) / "snapshots" / commit
    listed = [File(f.path, f.size, _blob_of(folder / f.path) or f.blob_id) for f in tree]
    return Snapshot(repo, revision, commit, choose(listed, repo, revision))


def _blob_of(path):
    """Name of the blob that a file in a snapshot stands for, None if it is no link."""
    return Path(os.readlink(path)).name if path.is_symlink() else None


def choose(files, repo, revision):
    """The files of a revision that are loaded: config and weights, safetensors if there are any.

    files: all Files that it has.  Raises CheckpointError if there is no config, there are no weights, or a part of them is
    missing.
    """
    by_name = {file.name: file for file in files}
    if CONFIG not in by_name:
        raise fault("config", repo, revision)
    for whole, index, part in (SAFE, PICKLED):
        if whole in by_name:
            return (by_name[CONFIG], by_name[whole])
        if index in by_name:
            parts = {name: int(match[1]) for name in sorted(by_name) if (match := re.fullmatch(part, name))}
            wanted = max(parts.values(), default=0)
            if not parts or len(parts) != wanted:
                raise fault("part", repo, revision, index=index, found=len(parts), wanted=wanted or "its")
            return (by_name[CONFIG], by_name[index], *(by_name[name] for name in parts))
    found = ", ".join(sorted(by_name))
    raise fault("weights", repo, revision, safe=SAFE[0], pickled=PICKLED[0], found=found)


# Getting ---------------------------------------------------------------------------


def fetch(repo, revision):
    """Download what is missing of a revision into huggingface_hub's cache; returns its Snapshot.

    What other programs are downloading is waited for, not downloaded twice; what a killed
    one has left half-done is removed.  Raises CheckpointError.
    """
    snapshot = resolve(repo, revision)
    named = _repo_folder(repo) / "refs" / revision
    if not snapshot.missing() and named.is_file() and named.read_text(encoding="utf-8") == snapshot.commit:
        return snapshot
    clear_leftovers(repo)
    need = snapshot.left
    if need + SPARE > free_bytes(constants.HF_HUB_CACHE):
        raise explain(OSError(errno.ENOSPC, "disk full"), repo, revision, need)

    def download():
        # By commit, so that the name is written into the cache after the files: a name
        # without files would make huggingface_hub call the whole cache of the model corrupted.
        names = [file.name for file in snapshot.files]
        snapshot_download(repo, revision=snapshot.commit, allow_patterns=names, max_workers=4)
        HfApi().resolve_revision(repo, revision=revision)

    try:
        patiently(download, f"downloading {repo} at {revision}")
    except Exception as error:  # noqa: BLE001 - everything that a hub or a disk can do wrong
        raise explain(error, repo, revision, need) from error
    if missing := snapshot.missing():
        raise fault("incomplete", repo, revision, names=", ".join(file.name for file in missing))
    return snapshot


def verified(repo, revision):
    """fetch(), and every large file held against its published SHA-256; returns (Snapshot, {file: SHA-256}).

    huggingface_hub itself compares sizes only.  A file that differs is removed and
    downloaded once more.  Raises CheckpointError if it differs again.
    """
    for last in (False, True):
        snapshot = fetch(repo, revision)
        digests = {file.name: provenance.file_digest(snapshot.folder / file.name) for file in snapshot.weights}
        wrong = [f for f in snapshot.weights if f.sha256 and digests[f.name] != f.sha256]
        if not wrong:
            return snapshot, digests
        for file in wrong:
            path = snapshot.folder / file.name
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        names = ", ".join(file.name for file in wrong)
        if not last:
            print(f"{repo} at {revision}: the checksum of {names} is wrong; downloading it again", file=sys.stderr)
    raise fault("checksum", repo, revision, names=names)


def patiently(call, what):
    """call(), again after a while if the hub was busy, unreachable or cut the connection."""
    for wait in (*WAITS, None):
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - sorted below
            passing = _passing(error)
            if wait is None or passing is None:
                raise
            reason, asked = passing
            wait = max(wait, asked)
            print(f"{what}: {reason}; trying again in {wait} s", file=sys.stderr)
        time.sleep(wait)


# What went wrong -------------------------------------------------------------------


def fault_of(error):
    """What an error of huggingface_hub comes from: (a name in faults.yml, the exception that tells)."""
    cause = error
    while cause is not None:
        status = _status(cause)
        if isinstance(cause, RevisionNotFoundError):
            return "revision", cause
        if isinstance(cause, GatedRepoError) or status in (401, 403) and not isinstance(cause, RepositoryNotFoundError):
            return "gated", cause
        if isinstance(cause, RepositoryNotFoundError):
            return "repository", cause
        if isinstance(cause, OfflineModeIsEnabled):
            return "offline", cause
        if isinstance(cause, httpx2.TransportError):
            return "unreachable", cause
        if isinstance(cause, HfHubHTTPError) and status != 404:
            return "busy", cause
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return "full", cause
        if "Consistency check failed" in str(cause):
            return "short", cause
        if isinstance(cause, EntryNotFoundError) and not isinstance(cause, LocalEntryNotFoundError):
            return "unlisted", cause
        cause = cause.__cause__
    return "unknown", error


def _status(error):
    return getattr(getattr(error, "response", None), "status_code", None)


def _passing(error):
    """(in a few words, seconds to wait at least) of an error that may pass; None of one that will not."""
    name, cause = fault_of(error)
    if name == "unreachable":
        return f"no connection ({type(cause).__name__})", 0
    if name == "short":
        return "a file arrived shorter than announced", 0
    status = _status(cause)
    if name == "busy" and (status in (408, 429) or status >= 500):
        asked = cause.response.headers.get("Retry-After", "")
        return f"the hub answered {status}", int(asked) if asked.isdigit() else 0
    return None


def fault(name, repo, revision, /, **facts):
    """The CheckpointError of that name in faults.yml, which says what to do; facts: what its text names besides."""
    kind = {"unreachable": HubUnreachable, "busy": HubUnreachable, "full": DiskFull}.get(name, CheckpointError)
    facts |= {"repo": repo, "revision": revision, "where": f"{repo} at {revision}"}
    return kind(FAULTS[name].format(**facts, hub=constants.ENDPOINT, cache=cache_text(), tries=len(WAITS) + 1))


def explain(error, repo, revision, need=0):
    """What went wrong with a hub, its cache or the disk, as a CheckpointError; need: bytes that were to be downloaded."""
    name, cause = fault_of(error)
    facts = {"cause": cause, "kind": type(cause).__name__, "status": _status(cause)}
    if name == "revision":
        facts["nearest"] = _nearest_revisions(repo, revision)
    if name == "unlisted":
        facts["name"] = str(getattr(getattr(cause, "response", None), "url", "")).rsplit("/", 1)[-1]
    if name == "full":
        facts |= {"need": bytes_text(need), "free": bytes_text(free_bytes(constants.HF_HUB_CACHE))}
    return fault(name, repo, revision, **facts)


def _nearest_revisions(repo, revision):
    try:
        refs = HfApi().list_repo_refs(repo)
    except Exception:  # noqa: BLE001 - the message is as good as it can be
        return "See the repository for its branches."
    return nearest(revision, [ref.name for ref in [*refs.branches, *refs.tags]])


def cache_text():
    """The cache's folder, for messages."""
    return constants.HF_HUB_CACHE.replace(str(Path.home()), "~", 1)


def free_bytes(path):
    """Bytes free on the disk of a folder, which need not exist yet."""
    path = Path(path).absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


# Removing --------------------------------------------------------------------------


def evict(repo, revision):
    """Remove the weights of a revision from the cache; returns the bytes freed.

    Its config stays, and so does a file that another revision uses, too.
    """
    try:
        cache = scan_cache_dir()
    except CacheNotFound:
        return 0
    files = [
        file
        for cached in cache.repos
        if cached.repo_id == repo and cached.repo_type == "model"
        for of in cached.revisions
        if revision in of.refs
        for file in of.files
        if file.file_name != CONFIG
    ]
    strategy = cache.delete_files(*files)
    strategy.execute()
    return strategy.expected_freed_size


def clear_leftovers(repo):
    """Remove half-downloaded files that no living program writes to: a killed one cannot go on with them."""
    for path in (_repo_folder(repo) / "blobs").glob("*.incomplete"):
        # huggingface_hub holds this lock while it writes.
        with contextlib.suppress(Timeout), FileLock(_locks(repo) / f"{path.name.split('.')[0]}.lock", timeout=0):
            path.unlink(missing_ok=True)


def hold(repo, revision):
    """A lock on a revision in the cache: who holds it may load and evict it.  Freed by the system if a program dies."""
    _locks(repo).mkdir(parents=True, exist_ok=True)
    return FileLock(_locks(repo) / f"{revision.replace('/', '--')}.sweep.lock")
