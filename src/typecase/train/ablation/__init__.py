"""Ablation: the same model trained on several data recipes with several seeds at equal tokens, and what that says of them."""
