dump gcc45
