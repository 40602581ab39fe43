import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8] | memoryview
I32 = NDArray[np.int32] | memoryview
U32 = NDArray[np.uint32] | memoryview

def spread(rows: U32, answers: I32, verdicts: U8, texts: I32, valid: U8, candidate_starts: I32) -> int: ...
def spread_candidates(rows: U32, answers: I32, candidates: I32, found: I32) -> int: ...
