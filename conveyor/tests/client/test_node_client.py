"""The Node client, unchanged: `node_client.test.mjs` under node's own test runner, against the servers of the other tests."""

import os
import subprocess
import zipfile
from pathlib import Path

from conftest import DEADLINE_S, INLINE_TASKS_MAX, KEYS, VARIABLES, Conveyor, ScriptedGateway

TESTS = Path(__file__).with_name("node_client.test.mjs")


def test_the_node_client(demo: Conveyor, scripted: tuple[Conveyor, ScriptedGateway], tmp_path: Path):
    conveyor, gateway = scripted
    # Not skipped without the client: a test that did not run has not passed.
    assert os.environ.get("NODE_CLIENT"), "it must name the folder of the client; `cargo xtask test --only client` sets it"
    environment = VARIABLES | {
        "CONVEYOR_URL": conveyor.url,
        "CONVEYOR_DEMO_URL": demo.url,
        "GATEWAY_URL": gateway.url,
        # Nobody else makes signing keys with this key.
        "API_KEY": KEYS[3],
        "INLINE_TASKS_MAX": str(INLINE_TASKS_MAX),
        "FOLDER": str(tmp_path),
    }
    node = subprocess.run(
        ["node", "--test", "--test-reporter", "spec", str(TESTS)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S,
    )
    assert node.returncode == 0, node.stdout
    for name in ("one.zip", "two.zip", "three.zip"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert archive.testzip() is None
            assert len(archive.namelist()) == 3
