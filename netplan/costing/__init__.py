"""What the network costs and draws: price books, power books, bills of materials."""
