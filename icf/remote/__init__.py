"""Files from servers, found by what identifies them: debuginfod, symbol servers, published symcaches."""
