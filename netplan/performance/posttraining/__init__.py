"""Post-training by reinforcement: lengths of answers, rollouts, weights sent, one step."""
