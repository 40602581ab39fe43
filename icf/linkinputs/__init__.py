"""What went into a link: objects, archives, response files, link maps; `icf.linkinputs.inputs` is the way in."""
