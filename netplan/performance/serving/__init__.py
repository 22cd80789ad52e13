"""How long requests take on clusters that serve: prompts, tokens, drafts."""
