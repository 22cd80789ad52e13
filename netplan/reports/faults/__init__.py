"""What breaks, what it costs, what to keep in spare: failures on fabrics, side by side."""
