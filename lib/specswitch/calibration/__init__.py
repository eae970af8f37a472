"""Where does speculation stop paying on this machine? Step times by batch size, and the table they give a server."""
