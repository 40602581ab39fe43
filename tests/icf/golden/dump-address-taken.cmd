dump --address-taken program
