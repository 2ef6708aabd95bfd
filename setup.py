"""Build in a temporary folder: `pip install .` leaves no `build` that tools take for the package."""

import tempfile

from setuptools import setup

with tempfile.TemporaryDirectory() as folder:
    setup(script_name="setup.py", options={"build": {"build_base": folder}})
