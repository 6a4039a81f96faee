"""What an answer's text holds besides its words: reasoning and tool calls, told apart while the text grows. No HTTP."""
