dump absent
