"""Everything that runs inside SGLang's own processes; the only room that imports sglang."""
