"""Fixtures of all tests, one module per subject."""

pytest_plugins = [
    "tests.fix_servers",
    "tests.fix_proxy",
    "tests.fix_tiers",
    "tests.fix_worker",
    "tests.fix_doctor",
    "tests.fix_nodes",
    "tests.fix_tls",
    "tests.faults.caller",
    "tests.faults.mover",
    "tests.fix_sentinel",
    "tests.fix_cluster",
]
