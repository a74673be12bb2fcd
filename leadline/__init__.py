"""Leadline sounds language models: it scores the answers of LLM and RAG systems, and says how sure it is."""
