"""An authority of the test's own, and certificates for 127.0.0.1 and for another host."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[server]
subjectAltName = {name_kind}:{name}
"""


@dataclass
class Authority:
    """Signs certificates; files stand beside each other as `<name>.crt` and `<name>.key`."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "authority.crt"

    def make(self) -> None:
        self._openssl("authority", "authority", "-x509", "-extensions", "authority")

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate of a server and its key."""
        signing = ("-x509", "-extensions", "server", "-CA", "authority.crt", "-CAkey", "authority.key")
        self._openssl(name, name, *signing)
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    def _openssl(self, file: str, name: str, *arguments: str) -> None:
        kind = "IP" if name[0].isdigit() else "DNS"
        (self.directory / f"{file}.cnf").write_text(_CONFIG.format(name=name, name_kind=kind))
        command = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2"]
        command += ["-config", f"{file}.cnf", "-keyout", f"{file}.key", "-out", f"{file}.crt", *arguments]
        subprocess.run(command, cwd=self.directory, check=True, capture_output=True)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that nobody else trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = Authority(tmp_path / "tls")
    made.directory.mkdir()
    made.make()
    return made
