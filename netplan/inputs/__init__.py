"""What an input is: how its text is read, its unit and range, the words that it chooses from."""
