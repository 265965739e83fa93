"""Order caches: the index files that GPT-NeoX and Megatron leave beside their data, read, written and checked."""
