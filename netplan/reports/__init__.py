"""What an answer is and how it is shown: terminal, CSV, Markdown, JSON, HTML, XLSX."""
