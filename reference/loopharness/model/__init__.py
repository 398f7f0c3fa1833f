"""The model side: chunks, failures, the LLM service and a scripted adapter."""
