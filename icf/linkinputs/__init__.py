"""The inputs of a link: objects, archives, response files, link maps; begin with `icf.linkinputs.inputs`."""
