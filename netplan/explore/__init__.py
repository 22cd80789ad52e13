"""The local what-if page: a state that is a link, its views, and the server that shows them."""
