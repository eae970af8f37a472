"""What the node must have beyond the bundle: worked out when it is made, looked for when it is installed."""

from __future__ import annotations

from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from specswitch.bundle.installer import lacking_here
from specswitch.bundle.needs import unfit, unmet
from specswitch.bundle.present import Present
from specswitch.bundle.target import Target

from .made_up import make_wheel

NODE = Target("3.12", "manylinux_2_34_x86_64")


def needed(tmp_path: Path, *needs: str) -> list[str]:
    wheel = make_wheel(tmp_path, "user", "1.0", needs=needs)
    there = {"old": Present(Version("1.0")), "local": Present(Version("2.0+cu130")), "unknown": Present(None)}
    present = {canonicalize_name(name): version for name, version in there.items()}
    found = unmet([wheel], {canonicalize_name("held")}, present, NODE)
    assert all(users == ["user"] for users in found.values())
    return list(found)


def test_a_requirement_counts_unless_the_bundle_or_the_node_meets_it(tmp_path: Path) -> None:
    assert needed(tmp_path, "Held>=9", "gone", "old>=1", "local==2.0", "unknown>5") == ["gone"]
    assert needed(tmp_path, "old>=1.1,<3", "local<2", "Gone_Too[extra]==3") == [
        "gone-too==3",
        "local<2",
        "old<3,>=1.1",
    ]


def test_a_version_in_the_bundle_that_another_of_its_packages_does_not_take_is_named(tmp_path: Path) -> None:
    needs = ("Held>=0.4.4", "right>=1", "absent>=9", "held>=9; sys_platform == 'win32'")
    wheel = make_wheel(tmp_path, "user", "1.0", needs=needs)
    versions = {canonicalize_name("held"): Version("0.4.2"), canonicalize_name("right"): Version("1.0")}
    assert unfit([wheel], versions, NODE) == {"held>=0.4.4": ["user"]}


def test_requirements_of_other_platforms_and_of_extras_do_not_count(tmp_path: Path) -> None:
    others = ("a; sys_platform == 'win32'", "b; extra == 'test'", "c; python_version < '3.12'")
    assert needed(tmp_path, *others, "d; python_version >= '3.12'") == ["d"]


def test_the_installer_names_what_this_python_lacks() -> None:
    needed = ("pytest>=1", "no-such-package!=2,>=1", "no-such-package", "neither~=1.0")
    assert lacking_here({"node_must_have": {need: ["x"] for need in needed}}) == [
        "neither",
        "no-such-package",
    ]
