"""The image is built from its Dockerfile and started, without a container engine or its registry.

buildah makes it with chroot isolation; its base is what debootstrap makes of Debian's packages,
under the name that the Dockerfile begins with. What runs in it runs without a network, without
IPv6 and without any capability, as the unprivileged user, who owns the work folder alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import yaml
from traitlets.config.loader import PyFileConfigLoader

from lab_utils import __version__
from lab_utils.grading.cases import held_by_sources
from lab_utils.jupyter import command
from tests.called import call
from tests.used_checkout import context, tracked, used_checkout

ROOT: Final = Path(__file__).parents[1]
DOCKER: Final = ROOT / "docker"
NAME: Final = f"delivery-lab:{__version__}"
LIMIT_MB: Final = 1800
LEARNER: Final = 1000
WORK: Final = "/home/learner/work"
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
TOOLS: Final = ("buildah", "debootstrap", "docker-compose", "unshare")
# A network of its own: loopback, IPv4, and nothing else.
OFFLINE: Final = """
import fcntl, os, socket, struct, sys
open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w").write("1")
up = struct.pack("16sh", b"lo", 1)
fcntl.ioctl(socket.socket(), 0x8914, up)
os.execvp(sys.argv[1], sys.argv[1:])
"""

pytestmark = pytest.mark.timeout(1800)  # one of them builds the image
lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
Run = Callable[..., subprocess.CompletedProcess[str]]


class Store:
    """A store of images in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = [f"--root={folder}/root", f"--runroot={folder}/run", "--storage-driver=vfs"]

    def buildah(self, *arguments: str | Path, offline: bool = False) -> Any:
        """Run buildah on this store."""
        alone = ["unshare", "--net", "python3", "-c", OFFLINE] if offline else []
        return call([*alone, "buildah", *self.options, *arguments])

    def must(self, *arguments: str | Path) -> str:
        """Run buildah; return what it prints. What fails says why."""
        done = self.buildah(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
        return str(done.stdout).strip()

    def build(self, dockerfile: str, name: str, *more: str) -> None:
        """Build an image from the repository, in a checkout in which somebody has worked."""
        checkout = self.folder / "checkout"
        if not checkout.exists():
            used_checkout(checkout)
        dockerfile = str(checkout / dockerfile)
        options = ["--isolation=chroot", "--pull-never", "--file", dockerfile, "--tag", name]
        if CERTIFICATES.exists():
            options += ["--volume", f"{CERTIFICATES}:/run/ca.crt:ro"]
            options += ["--build-arg", "CERTIFICATES=/run/ca.crt"]
        self.must("bud", *options, *more, checkout)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store with the base image; it is removed in the end."""
    if lacking or os.geteuid() != 0:
        pytest.skip(f"debootstrap needs root, and what .ci/run installs; not here: {lacking}")
    with TemporaryDirectory(prefix="lab-test-", dir="/var/tmp") as place:
        store = Store(Path(place))
        base = re.findall(r"(?m)^FROM (\S+)", (DOCKER / "Dockerfile").read_text())[-1]
        suite = base.partition(":")[2].removesuffix("-slim")
        tree = Path(place) / "base"
        made = call(["debootstrap", "--variant=minbase", suite, tree])
        assert made.returncode == 0, made.stdout[-2000:]
        shutil.rmtree(tree / "var" / "cache" / "apt" / "archives")
        archive = Path(place) / "base.tar"
        assert call(["tar", "-C", tree, "-cf", archive, "."]).returncode == 0
        container = store.must("from", "scratch")
        store.must("add", "--quiet", container, archive, "/")
        store.must("commit", "--quiet", container, f"docker.io/library/{base}")
        store.must("rm", container)
        shutil.rmtree(tree)
        archive.unlink()
        yield store
        store.buildah("rm", "--all")
        store.buildah("rmi", "--all", "--force")


@pytest.fixture(scope="module")
def image(store: Store) -> Store:
    """The store with the lab's image."""
    store.build("docker/Dockerfile", NAME)
    return store


@pytest.fixture(scope="module")
def container(image: Store) -> str:
    """A container of that image."""
    return image.must("from", "--pull-never", NAME)


@pytest.fixture
def work(image: Store) -> Path:
    """An empty volume for the work folder."""
    work = Path(image.folder) / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    os.chown(work, LEARNER, LEARNER)
    return work


@pytest.fixture
def run(image: Store, container: str, work: Path) -> Run:
    """Runs a command in the container, behind the limits of a hub."""

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = image.buildah(
            "run", "--isolation=chroot", "--cap-drop=all", "--volume", f"{work}:{WORK}",
            container, "--", *command, offline=True,
        )  # fmt: skip
        return done

    return run


@pytest.mark.install
def test_the_image_is_small(image: Store, container: str) -> None:
    """Everything in the image takes less than 1.8 GB."""
    mounted = Path(image.must("mount", container))
    size = ["du", "--apparent-size", "--block-size=MB", "--one-file-system"]
    used = int(call([*size, "-s", mounted]).stdout.partition("MB")[0])
    parts = call([*size, "--max-depth=2", mounted]).stdout

    assert used < LIMIT_MB, parts


# What of the repository an image needs.
WANTED: Final = re.compile(
    r"(lab_utils|labs(?!/recorded)|benchmarks)/|lab$|docker/start|docker/hub/.*(lock|json)"
    r"|requirements\.lock|pyproject|LICENSE"
)


def test_its_files_are_a_list(tmp_path: Path) -> None:
    """Whatever lies in a checkout, an image is built from the same files, which git knows."""
    assert set(filter(WANTED.match, tracked())) == context(used_checkout(tmp_path))


@pytest.mark.install
def test_it_has_these_files(run: Run) -> None:
    """What .dockerignore lets through is in the image, may be read there, and nothing else is."""
    skipped = "! -path 'env/*' ! -path 'cache/*' ! -name '*.pyc'"
    found = run("sh", "-c", f"cd /opt/lab && find * -type f -readable {skipped}").stdout

    assert set(filter(WANTED.match, tracked())) == set(found.splitlines())


@pytest.mark.install
def test_all_is_well_in_it(run: Run) -> None:
    """./lab doctor finds everything there: jars, template, archive; what no seat needs is not."""
    done = run("/opt/lab/docker/start", "doctor", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}

    assert 0 == done.returncode, done.stderr
    assert {"Chromium", "Kafka 3.9's jars"} == {name for name, row in rows.items() if not row["ok"]}


@pytest.mark.install
def test_the_archive_is_valid_in_it(run: Run) -> None:
    """The JVM maps the archive that was made while the image was built; it refuses another.

    That of Spark is there.
    """
    code = """
import subprocess, sys
from lab_utils.audit.spark_server import class_archive
from lab_utils.machine.quick_start import quick_kafka
kafka = quick_kafka()
command = kafka.tool("kafka.Kafka", "--version")
command[1:1] = ["-Xshare:on"]
done = subprocess.run(command, capture_output=True, text=True)
there = kafka.archive.exists() and class_archive().exists()
print(there, done.returncode, done.stdout, done.stderr)
"""
    done = run("python", "-c", code)

    assert "True 0 " == done.stdout[:7], done.stdout + done.stderr


@pytest.mark.install
def test_only_the_work_folder_is_written(run: Run) -> None:
    """The learner owns the work folder, and nothing else that outlives the container."""
    folders = f"{WORK} /home/learner /opt/lab /opt/lab/cache /usr/local"
    loop = f"for folder in {folders}; do touch $folder/mine 2>/dev/null && echo $folder; done; true"

    assert f"{WORK}\n" == run("sh", "-c", loop).stdout


@pytest.mark.install
def test_work_survives(run: Run, work: Path) -> None:
    """The notebooks are put into the work folder; one that is there already stays as it is."""
    mine = work / "03_why_did_the_order_arrive_twice.ipynb"
    mine.write_text("my work")
    done = run("/opt/lab/docker/start", "jupyter", "--version")

    assert 0 == done.returncode, done.stderr
    assert "my work" == mine.read_text()
    assert (work / "00_where_is_my_message.ipynb").exists()


GRADE: Final = """
from pathlib import Path
from lab_utils.grading.cases import exercises
from lab_utils.grading.notebook import instructor_notebook, notebook_text, read_source
labs = Path("/opt/lab/labs")
(source,) = labs.glob("source/03_*.py")
notebook = instructor_notebook(read_source(source), "03", exercises("03", labs))
Path(source.stem + ".ipynb").write_text(notebook_text(notebook))
"""


@pytest.mark.install
def test_it_grades(run: Run, work: Path) -> None:
    """The solved lab 03 gets full points in it, without a network."""
    made = run("python", "-c", GRADE)
    assert made.returncode == 0, made.stderr
    name = next(work.glob("03_*.ipynb")).name
    done = run("/opt/lab/lab", "grade", f"{WORK}/{name}", "--out", f"{WORK}/grades")
    assert done.returncode == 0, done.stdout + done.stderr
    (graded,) = json.loads((work / "grades" / "results.json").read_text())["submissions"]

    assert graded["possible"] == graded["points"], done.stdout


@pytest.mark.install
def test_a_seat_has_no_solutions(store: Store) -> None:
    """An image for seats has the notebooks and their checks, and no solution in any layer."""
    store.build("docker/Dockerfile", "seat", "--build-arg", "SOLUTIONS=no", "--target", "files")
    labs = Path(store.must("mount", store.must("from", "--pull-never", "seat"))) / "opt/lab/labs"
    files = (path for path in labs.rglob("*") if path.is_file() and path.suffix != ".pyc")
    names = {path.relative_to(labs).as_posix() for path in files}
    wanted = re.compile(r"labs/((further/)?\d\d_.*ipynb|checks/|Claims)")
    handed_out = set(filter(wanted.match, tracked()))
    handed_out |= {f"labs/checks/lab{lab}.py" for lab in held_by_sources(ROOT / "labs")}
    store.must("rm", "--all")

    assert handed_out == {f"labs/{name}" for name in names}


@pytest.mark.install
def test_a_hub_can_start_it(image: Store) -> None:
    """The hub's image is the lab's with JupyterHub's single-user server; no version changed."""
    image.build("docker/hub/Dockerfile", "delivery-lab-hub")
    container = image.must("from", "--pull-never", "delivery-lab-hub")
    command = ["run", "--isolation=chroot", container, "--", "/opt/lab/docker/start"]
    version = image.must(*command, "jupyterhub-singleuser", "--version")
    image.must(*command, "doctor")
    image.must(*command, "sh", "-c", "git --version")  # nbgitpuller runs it
    image.must("rm", container)

    assert f"jupyterhub=={version} " in (DOCKER / "hub" / "requirements.lock").read_text()


@pytest.mark.install
@pytest.mark.skipif(bool(lacking), reason=f"not here, but .ci/run installs: {lacking}")
def test_compose_reads_it() -> None:
    """Compose itself reads compose.yaml, and understands what it says."""
    command = ["docker-compose", "--file", str(DOCKER / "compose.yaml"), "--profile", "postgres"]
    read = call([*command, "config"])
    services = yaml.safe_load(read.stdout)["services"]

    assert (0, "") == (read.returncode, read.stderr)
    assert ["lab", "postgres"] == sorted(services)
    assert ["127.0.0.1:8888:8888/tcp"] == services["lab"]["ports"]


def test_the_lab_can_enter_the_database() -> None:
    """The profile's PostgreSQL and the lab have one password; the address in the file is right."""
    text = (DOCKER / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    lab, database = (services[name]["environment"] for name in ("lab", "postgres"))
    address = f"postgresql://{database['POSTGRES_USER']}@postgres/{database['POSTGRES_DB']}"

    assert lab["PGPASSWORD"] == database["POSTGRES_PASSWORD"]
    assert f"LAB_DATABASE={address} " in text
    assert "${LAB_DATABASE:-}" == lab["LAB_DATABASE"]


def test_only_loopback_is_published() -> None:
    """Every port of the compose file is published on loopback."""
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()

    assert [] == [port for one in services for port in one["ports"]
                  if not port.startswith("127.0.0.1:")]  # fmt: skip


def test_one_version() -> None:
    """The README, Compose and what a hub is made of name the image of this version."""
    files = [ROOT / "README.md", DOCKER / "compose.yaml", *sorted((DOCKER / "hub").iterdir())]
    named = re.findall(
        r"delivery-lab(?:-hub)?:([\d.]+\d)", "".join(path.read_text() for path in files)
    )

    assert {__version__} == set(named)


@pytest.mark.parametrize("spawner", ["docker", "kube"])
def test_the_hubs_configurations_are_read(spawner: str) -> None:
    """JupyterHub's own loader reads each; a seat has 2 GB and the work folder."""
    path = DOCKER / "hub" / f"{spawner}spawner_config.py"
    config = PyFileConfigLoader(str(path)).load_config()
    seat = config["DockerSpawner" if spawner == "docker" else "KubeSpawner"]

    assert ("2G", WORK) == (seat["mem_limit"], seat["notebook_dir"])
    # Each spawner gives it to the image's entry point, which is docker/start.
    assert ["jupyterhub-singleuser"] == seat["cmd"]


def test_a_hub_tells_jupyterlab_the_same() -> None:
    """A hub's JupyterLab has the settings that ./lab up gives: it asks the internet for nothing."""
    text = (DOCKER / "hub" / "jupyter_server_config.json").read_text()
    ours = command(Path("work"), 0, browser=False)
    given = [one.removeprefix("--LabApp.").split("=") for one in ours if "--LabApp." in one]
    wanted = dict(given) | {"app_settings_dir": "/opt/lab/lab_utils/jupyter_settings"}

    assert wanted == {name: str(value) for name, value in json.loads(text)["LabApp"].items()}


def test_binder_has_the_same_environment() -> None:
    """Binder's environment is conda's, from the place where Binder reads it."""
    ours, binders = (
        yaml.safe_load((ROOT / folder / "environment.yml").read_text())["dependencies"]
        for folder in (".", "binder")
    )

    assert {"pip": ["-r ../requirements.lock"]} == binders.pop()
    assert ours[:-1] == binders
