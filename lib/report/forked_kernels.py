"""Notebook kernels that are forks of a process which has imported already what notebooks import.

Starting Python and importing pandas, matplotlib and IPython costs a run of this book more
than all it computes.
"""

import contextlib
import multiprocessing
import os
import sys

from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner


@contextlib.contextmanager
def forked_kernel():
    """A kernel manager class, for papermill, of one kernel: this process, forked now, before it has threads or a loop.

    The kernel ends with the block, and with this process if that is killed.
    """
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_become_kernel, args=(receiving, sending))
    process.start()
    receiving.close()

    class Provisioner(LocalProvisioner):
        async def launch_kernel(self, cmd, **kwargs):
            sending.send((cmd, kwargs["env"], kwargs.get("cwd", os.getcwd())))
            self.process, self.pid = _Process(process), process.pid
            return self.connection_info

        async def wait(self):  # its own looks every tenth of a second
            return self.process.wait()

    class Manager(AsyncKernelManager):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.provisioner = Provisioner(kernel_id="forked", kernel_spec=self.kernel_spec, parent=self)

    try:
        yield Manager
    finally:
        sending.close()
        process.kill()
        process.join()


class _Process:
    """A multiprocessing.Process under the names of subprocess.Popen, which is what a provisioner handles."""

    stdin = stdout = stderr = None

    def __init__(self, process):
        self.process = process

    def poll(self):
        return self.process.exitcode

    def wait(self):
        self.process.join()
        return self.process.exitcode

    def send_signal(self, signum):
        if self.process.is_alive():
            os.kill(self.process.pid, signum)

    def kill(self):
        self.process.kill()

    def terminate(self):
        self.process.terminate()


def _become_kernel(receiving, sending):
    import pandas
    from ipykernel.kernelapp import IPKernelApp

    sending.close()  # so that the other end closes with the process that holds it
    try:
        command, environment, folder = receiving.recv()
    except EOFError:  # nobody wants a kernel any more
        return
    os.setsid()  # Ctrl-C is the parent's business
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    pandas.options.display.max_columns = 20  # as in any kernel: it was imported outside of one
    arguments = command[command.index("ipykernel_launcher") + 1 :]
    # A kernel ends with its parent if it knows it; what ipykernel read of the environment is from before the fork.
    sys.argv[1:] = [*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
    IPKernelApp.launch_instance()
