"""What questions answer: rows, columns, notes and charts, declared once for every form."""
