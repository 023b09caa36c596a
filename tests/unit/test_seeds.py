"""What an address with several hosts says, and the address of each server behind it."""

import pytest

from saver.seeds import Seeds


@pytest.mark.parametrize(
    ("url", "hosts", "service", "first"),
    [
        ("redis+cluster://:p%40@a:1,b", (("a", 1), ("b", 6379)), "", "redis://:p%40@a:1/"),
        ("rediss+cluster://u:p@a/0?ssl_ca_certs=/ca", (("a", 6379),), "", "rediss://u:p@a:6379/0?ssl_ca_certs=%2Fca"),
        ("redis+sentinel://[::1],b:2/main/3", (("::1", 26379), ("b", 2)), "main", "redis://[::1]:26379/3"),
        ("redis+sentinel://a/main?sentinel_password=x&db=2", (("a", 26379),), "main", "redis://a:26379/?db=2"),
    ],
)
def test_an_address_is_read_as_it_is_meant(
    url: str, hosts: tuple[tuple[str, int], ...], service: str, first: str
) -> None:
    seeds = Seeds.from_url(url)

    assert (seeds.hosts, seeds.service) == (hosts, service)
    assert seeds.url_of(seeds.hosts[0]) == first


def test_sentinels_have_a_password_of_their_own() -> None:
    seeds = Seeds.from_url("redis+sentinel://u:p@a/main?sentinel_username=s&sentinel_password=q%40")

    assert seeds.sentinel == {"username": "s", "password": "q@"}
