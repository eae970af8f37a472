"""What a GPU node without network needs, in one folder that can be carried there in chunks."""
