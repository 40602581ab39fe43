"""What perf is asked for, what keeps it from recording, and `icf record` as it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icf.cli import main
from icf.errors import IcfError
from tests.support.toolchain import compile_object, run, tool
from unwind.record.command import Wishes, perf_command
from unwind.record.frame_pointers import lacks_frame_pointers
from unwind.record.obstacles import check_rights, has_right, install_hint

MANY = "int x;\n" + "".join(
    f"__attribute__((noinline)) int f{n}(int a) {{ x += a; return x * {n}; }}\n" for n in range(20)
)
MANY += "int main(int c, char **) { return " + " + ".join(f"f{n}(c)" for n in range(20)) + "; }\n"
ICF = [sys.executable, "-m", "icf"]


@pytest.fixture
def recorder() -> list[str]:
    """Return the command `icf record`, where perf may record."""
    perf = tool("perf")
    if run(perf, "record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "--", "true", check=False).returncode:
        pytest.skip("perf may not record here")
    return [*ICF, "record"]


def test_the_command_of_perf() -> None:
    wishes = Wishes("out", "dwarf", "99", "cycles", "7", ("shop", "-x"))
    assert perf_command("/bin/perf", "perf version 6.1.187", "6.18.44-x", wishes) == (
        "/bin/perf record --buildid-mmap --namespaces -k mono --call-graph dwarf".split()
        + "-o out -F 99 -e cycles -p 7 -- shop -x".split()
    )
    old = perf_command("perf", "perf version 6.1", "5.10.0-8", Wishes("perf.data"))
    unprivileged = perf_command("perf", "perf version 6.1", "6.1", Wishes("perf.data", has_namespaces=False))
    assert unprivileged == "perf record --buildid-mmap -k mono --call-graph fp -o perf.data".split()
    assert old == "perf record --buildid-all -N --namespaces -k mono --call-graph fp -o perf.data".split()


def test_perf_is_in_a_package_of_the_system() -> None:
    assert install_hint({"ID": "debian"}) == "apt install linux-perf"
    assert install_hint({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}) == "dnf install perf"
    assert install_hint({}) == "perf is in the package linux-tools or perf"


def test_rights_are_looked_at_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unwind.record.obstacles.may_record_all", lambda: False)
    paranoid = tmp_path / "paranoid"
    paranoid.write_text("3\n")
    with pytest.raises(IcfError, match="perf may not record: kernel.perf_event_paranoid is 3"):
        check_rights("", str(paranoid))
    paranoid.write_text("2\n")
    assert check_rights("", str(paranoid)) == "kernel functions are not recorded: kernel.perf_event_paranoid is 2"
    paranoid.write_text("1\n")
    assert check_rights("", str(paranoid)) == ""
    with pytest.raises(IcfError, match="process 999999999: no such process"):
        check_rights("999999999", str(paranoid))
    with pytest.raises(IcfError, match="this kernel has no perf events"):
        check_rights("", str(tmp_path / "gone"))


def test_what_cannot_be_recorded_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "perf").write_text("#!/bin/sh\n")  # whose --version succeeds
    (tmp_path / "perf").chmod(0o755)
    (tmp_path / "directory").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["record", "-o", str(tmp_path / "directory"), "--", "perf"]) == 1
    assert capfd.readouterr().err.startswith(f"icf: error: {tmp_path / 'directory'}: is a directory\n")
    monkeypatch.setattr("unwind.record.obstacles.may_record_all", lambda: True)
    assert main(["record", "-o", str(tmp_path / "out"), "-p", "999999999"]) == 1
    assert capfd.readouterr().err == "icf: error: process 999999999: no such process\n"


def test_a_capability_is_enough() -> None:
    everybody, container = "         0          0 4294967295\n", "         0       1000          1\n"
    assert has_right({"CapEff": "0000004000000000"}, everybody) and has_right({"CapEff": "000001ffffffffff"}, everybody)
    assert not has_right({"CapEff": "0000000000000000"}, everybody) and not has_right({}, everybody)
    assert not has_right({"CapEff": "000001ffffffffff"}, container)


@pytest.mark.parametrize(("flag", "lacks"), [("-fno-omit-frame-pointer", False), ("-fomit-frame-pointer", True)])
def test_programs_without_frame_pointers_are_known(tmp_path: Path, flag: str, lacks: bool) -> None:
    run(tool("gcc"), compile_object(MANY, "-O1", flag), "-lstdc++", "-o", tmp_path / "program")
    assert lacks_frame_pointers(str(tmp_path / "program")) is lacks
    assert not lacks_frame_pointers("/etc/passwd")


def test_without_perf_a_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["record", "--", "program"]) == 1
    assert capfd.readouterr().err.startswith("icf: error: perf is not installed\nhint: ")
    assert main(["record", "--", "gone"]) == 1
    assert capfd.readouterr().err == "icf: error: gone: no such program\n"
    assert main(["record"]) == 2


@pytest.mark.slow
def test_output_and_status_are_those_of_the_program(tmp_path: Path, recorder: list[str]) -> None:
    out = tmp_path / "perf.data"
    result = run(*recorder, "-o", out, "--", "sh", "-c", "echo out; exit 7", check=False)
    assert (result.returncode, result.stdout) == (7, "out\n")
    assert out.read_bytes().startswith(b"PERFILE2")


@pytest.mark.slow
def test_a_process_without_capabilities_is_recorded(tmp_path: Path, recorder: list[str]) -> None:
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        pytest.skip("perf may not record here without capabilities")
    out = tmp_path / "perf.data"
    unprivileged = [tool("setpriv"), "--bounding-set=-all", "--inh-caps=-all"]
    result = run(*unprivileged, *recorder, "-o", out, "-e", "cpu-clock", "--", "sh", "-c", "exit 7", check=False)
    assert result.returncode == 7, result.stderr
    assert out.read_bytes().startswith(b"PERFILE2")


@pytest.mark.slow
def test_what_perf_refuses_is_reported(tmp_path: Path, recorder: list[str]) -> None:
    result = run(*recorder, "-e", "no-such-event", "-o", tmp_path / "p", "--", "true", check=False)
    assert result.returncode != 0
    assert "icf: error: perf has recorded nothing" in result.stderr
    assert "hint: -e cpu-clock needs no counters" in result.stderr


@pytest.mark.slow
def test_a_running_process_is_recorded_until_a_signal(tmp_path: Path, recorder: list[str]) -> None:
    out = tmp_path / "perf.data"
    target = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        recording = subprocess.Popen([*recorder, "-p", str(target.pid), "-o", str(out)], stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not (out.exists() and out.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        os.kill(recording.pid, signal.SIGINT)
        assert recording.wait(30) == 0
    finally:
        target.kill()
        target.wait()
    assert out.read_bytes().startswith(b"PERFILE2")
