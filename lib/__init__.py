"""The shared library of the executable paper "When do attention circuits form?".

Data flows one way: panel -> models -> capture -> heads -> findings -> story and
figures (inside the notebooks) -> run -> book.  Nothing downstream is imported
upstream.
"""
