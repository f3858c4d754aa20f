"""`rlx view`: what runs leave behind, on a local web page."""
