"""Checkpoints from a model hub: which files a revision has, into huggingface_hub's own cache, and out again.

Nothing here is read by torch: lib.panels.checkpoints loads what fetch() has put into the cache.  What can
go wrong with a hub, a cache or a disk is said in one place, explain().
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


# Asking ----------------------------------------------------------------------------


def resolve(repo, revision):
    """The commit and the files of a revision; without a connection, from the cache.

    Never another revision than the one that is named.  Raises CheckpointError.
    """
    try:
        try:
            info = patiently(
                lambda: HfApi().model_info(repo, revision=revision, files_metadata=True), f"asking for {repo}"
            )
        except (OfflineModeIsEnabled, httpx2.TransportError):
            return _resolve_offline(repo, revision)
        listed = [File(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else s.blob_id or "") for s in info.siblings]
        return Snapshot(repo, revision, info.sha, choose(listed, f"{repo} at {revision}"))
    except CheckpointError:
        raise
    except Exception as error:  # noqa: BLE001 - everything that a hub can do wrong
        raise explain(error, repo, revision) from error


def _resolve_offline(repo, revision):
    """A revision from what the cache knows; re-raises what is in the air if it knows nothing."""
    asked = sys.exception()
    try:
        commit = (_repo_folder(repo) / "refs" / revision).read_text(encoding="utf-8")
        tree = get_cached_repo_tree(repo, revision=revision)
    except (OSError, CachedRepoTreeNotFoundError):
        raise asked from None
    folder = _repo_folder(repo) / "snapshots" / commit
    listed = [File(f.path, f.size, _blob_of(folder / f.path) or f.blob_id) for f in tree]
    snapshot = Snapshot(repo, revision, commit, choose(listed, f"{repo} at {revision}"))
    if snapshot.missing():
        raise asked
    return snapshot


def _blob_of(path):
    """Name of the blob that a file in a snapshot stands for, None if it is no link."""
    return Path(os.readlink(path)).name if path.is_symlink() else None


def choose(files, what):
    """The files that are loaded: config and weights, safetensors if there are any.

    files: all Files of a revision; what: "repository at revision", for messages.
    Raises CheckpointError if there is no config, there are no weights, or a part of them is missing.
    """
    by_name = {file.name: file for file in files}
    if CONFIG not in by_name:
        raise CheckpointError(f"{what} has no {CONFIG}: it is no checkpoint of transformers; correct the panel")
    for whole, index, part in (SAFE, PICKLED):
        if whole in by_name:
            return (by_name[CONFIG], by_name[whole])
        if index in by_name:
            parts = {name: int(match[1]) for name in sorted(by_name) if (match := re.fullmatch(part, name))}
            wanted = max(parts.values(), default=0)
            if not parts or len(parts) != wanted:
                raise CheckpointError(
                    f"{what} lacks a part of its weights: {index} is there with {len(parts)} of {wanted or 'its'} parts; "
                    "choose another revision"
                )
            return (by_name[CONFIG], by_name[index], *(by_name[name] for name in parts))
    raise CheckpointError(f"{what} holds no weights ({SAFE[0]} or {PICKLED[0]}); found {', '.join(sorted(by_name))}")


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
    cache = Path(constants.HF_HUB_CACHE)
    need = snapshot.size - snapshot.bytes_present()
    if need + SPARE > free_bytes(cache):
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
    if snapshot.missing():
        raise CheckpointError(
            f"{repo} at {revision} is incomplete in the cache: {', '.join(f.name for f in snapshot.missing())} missing; run again"
        )
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
    raise CheckpointError(
        f"{repo} at {revision}: {names} does not have the checksum that the hub publishes, in two downloads; "
        "a proxy or the hub's copy may be damaged. It was removed from the cache: run again later"
    )


def patiently(call, what):
    """call(), again after a while if the hub was busy, unreachable or cut the connection."""
    for wait in (*WAITS, None):
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - sorted below
            again = _retry_after(error)
            if wait is None or again is None:
                raise
            wait = max(wait, again)
            print(f"{what}: {_reason(error)}; trying again in {wait} s", file=sys.stderr)
        time.sleep(wait)


def _causes(error):
    while error is not None:
        yield error
        error = error.__cause__


def _retry_after(error):
    """Seconds a hub asks to wait after an error that may pass; None for one that will not."""
    for cause in _causes(error):
        if isinstance(cause, OfflineModeIsEnabled):
            return None
        if isinstance(cause, HfHubHTTPError):
            status, headers = cause.response.status_code, cause.response.headers
            asked = headers.get("Retry-After", "")
            return (int(asked) if asked.isdigit() else 0) if status in (408, 429) or status >= 500 else None
        if isinstance(cause, httpx2.TransportError) or "Consistency check failed" in str(cause):
            return 0
    return None


def _reason(error):
    """A failure of the hub in a few words."""
    for cause in _causes(error):
        if isinstance(cause, HfHubHTTPError):
            return f"the hub answered {cause.response.status_code}"
        if isinstance(cause, httpx2.TransportError):
            return f"no connection ({type(cause).__name__})"
        if "Consistency check failed" in str(cause):
            return "a file arrived shorter than announced"
    return f"{type(error).__name__}"


def explain(error, repo, revision, need=0):
    """What went wrong with a hub, its cache or the disk, as a CheckpointError that says what to do."""
    where = f"{repo} at {revision}"
    kept = "what is finished is kept: run again"
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(cause, RevisionNotFoundError):
            return CheckpointError(f"{repo} has no revision {revision!r}. {_nearest_revisions(repo, revision)}")
        if isinstance(cause, GatedRepoError) or status in (401, 403) and not isinstance(cause, RepositoryNotFoundError):
            return CheckpointError(
                f"{repo} is gated ({status}): ask for access at {constants.ENDPOINT}/{repo}, then log in with "
                "`hf auth login` or set HF_TOKEN"
            )
        if isinstance(cause, RepositoryNotFoundError):
            return CheckpointError(
                f"{constants.ENDPOINT} has no repository {repo} that you may read ({status}): correct 'hub' in the panel, "
                "or log in with `hf auth login` if it is private"
            )
        if isinstance(cause, OfflineModeIsEnabled):
            return CheckpointError(
                f"{where} is not complete in the cache ({_cache_text()}) and HF_HUB_OFFLINE is set: unset it, or fetch "
                "the revision on a machine with a connection and copy the cache"
            )
        if isinstance(cause, httpx2.TransportError):
            return HubUnreachable(
                f"{where}: {constants.ENDPOINT} cannot be reached ({type(cause).__name__}: {cause}); {kept}"
            )
        if isinstance(cause, HfHubHTTPError) and status != 404:
            return HubUnreachable(f"{where}: the hub still answers {status} after {len(WAITS) + 1} tries; {kept} later")
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            free = free_bytes(Path(constants.HF_HUB_CACHE))
            return DiskFull(
                f"{where}: the disk is full: {bytes_text(need)} to download and {bytes_text(free)} free at {_cache_text()}. "
                "Make room, use --evict, or set HF_HOME to a folder on a larger disk"
            )
        if "Consistency check failed" in str(cause):
            return CheckpointError(
                f"{where}: a file still arrives shorter than announced after {len(WAITS) + 1} tries; {kept} later"
            )
        if isinstance(cause, EntryNotFoundError) and not isinstance(cause, LocalEntryNotFoundError):
            name = str(getattr(response, "url", "")).rsplit("/", 1)[-1]
            return CheckpointError(f"{where} lists {name} but the hub does not have it; choose another revision")
    return CheckpointError(f"{where} could not be fetched: {type(error).__name__}: {error}")


def _nearest_revisions(repo, revision):
    try:
        refs = HfApi().list_repo_refs(repo)
    except Exception:  # noqa: BLE001 - the message is as good as it can be
        return "See the repository for its branches."
    return nearest(revision, [ref.name for ref in [*refs.branches, *refs.tags]])


def _cache_text():
    home = str(Path.home())
    return constants.HF_HUB_CACHE.replace(home, "~", 1)


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
    locks = Path(constants.HF_HUB_CACHE) / ".locks" / _repo_folder(repo).name
    for path in (_repo_folder(repo) / "blobs").glob("*.incomplete"):
        # huggingface_hub holds this lock while it writes.
        with contextlib.suppress(Timeout), FileLock(locks / f"{path.name.split('.')[0]}.lock", timeout=0):
            path.unlink(missing_ok=True)


def hold(repo, revision):
    """A lock on a revision in the cache: who holds it may load and evict it.  Freed by the system if a program dies."""
    folder = Path(constants.HF_HUB_CACHE) / ".locks" / _repo_folder(repo).name
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{revision.replace('/', '--')}.sweep.lock")
