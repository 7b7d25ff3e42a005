"""What is asked, what there is, and what sizing makes of both."""
