"""What the name server answers: one module per subject, one method per request code, one dict from code to method."""
