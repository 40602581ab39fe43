"""In place of `unwind.arrow.reading`: what a damaged file makes of pyarrow."""

import os

os.abort()
