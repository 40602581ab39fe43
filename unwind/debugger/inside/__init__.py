"""What runs inside of debuggers: standard library only, Python 3.8 and later (`unwind.debugger`)."""
