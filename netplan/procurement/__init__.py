"""What a buyer and an installer are given: the procurement report, made from other answers."""
