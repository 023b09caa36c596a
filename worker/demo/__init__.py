"""
The demo: real LangGraph agents and a real worker on private servers, with thresholds of seconds.

Start with `play.py`; `agents.py` is the application that uses the saver.
"""
