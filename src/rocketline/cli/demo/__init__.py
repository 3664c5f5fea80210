"""`rocketline demo`: servers, messages through them, and a pipeline on Spark, in about a minute."""
