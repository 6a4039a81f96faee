"""How invented user turns begin: a first word or two, so that a model does not always ask the same thing."""

from __future__ import annotations

from anyorder.models.tokenizer import Tokenizer

OPENINGS = (
    "Write", "Explain", "Describe", "What is", "How do I", "How does", "Why is", "Why do", "Can you", "Give me", "List",
    "Compare", "Tell me about", "Summarize", "Help me", "Create", "Suggest", "What are", "Is it", "When did", "Who was",
    "Where can", "Could you", "I want to", "I need", "Please", "Translate", "Rewrite", "Calculate", "Solve", "Find",
    "If", "A", "In", "My", "Which", "Define", "Teach me", "Imagine", "Fix", "Convert", "Plan", "Design", "Name",
    "What should I", "How can I", "How many", "Write a Python function", "Write a short story", "Write a poem",
    "Write an email", "Write code", "Write a SQL query", "Outline", "Show me", "Let's", "Hi", "Hello", "Do you",
    "Are there", "What would", "What happens", "What's the difference between",
)  # fmt: skip
TOPICS = (
    "music", "history", "science", "cooking", "a city", "health", "animals", "the ocean", "space", "school", "work",
    "money", "a friend", "computers", "numbers", "a function", "a list", "sports", "the weather", "art", "travel",
    "a book", "language", "plants", "time", "the human body", "trees", "energy", "the law", "love", "sleep", "games",
    "water", "a machine", "the brain", "an algorithm", "a string", "a triangle", "probability", "fractions",
)  # fmt: skip


def texts() -> list[str]:
    """Every opening with every topic, and half as many openings alone."""
    with_topic = [f"{opening} about {topic}" for opening in OPENINGS for topic in TOPICS]
    return with_topic + list(OPENINGS) * (len(TOPICS) // 2)


def encoded(tokenizer: Tokenizer, starters: list[str]) -> list[list[int]]:
    """As token ids, for `selftext.invent`."""
    return [tokenizer.encode_text(text) for text in starters]
