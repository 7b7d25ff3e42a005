"""Debian packages are installed by several processes of the tests at once, on a machine that has none of them yet."""

from concurrent.futures import ThreadPoolExecutor

from e2e.localkube import debian_packages

INSTALLED = "dpkg"
"""A package that each Debian has: apt-get locks its lists and dpkg also for it."""


def test_two_installations_at_once_wait_for_each_other() -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(debian_packages.install, [INSTALLED]) for _ in range(2)]:
            done.result()
