"""What `import asr` gives, and what it costs."""

import subprocess
import sys

import asr


def test_public_names_are_found_where_they_are_defined():
    assert all(getattr(asr, name) is not None for name in asr.__all__)
    assert set(dir(asr)) == set(asr.__all__)


def test_importing_the_package_loads_no_torch():
    code = (
        "import sys, asr, asr.text, asr.manifest, asr.tokenizer, asr.events; asr.Final\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
