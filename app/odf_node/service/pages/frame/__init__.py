"""What all pages are made of: templates, their frame, cells, pictures, Markdown."""
