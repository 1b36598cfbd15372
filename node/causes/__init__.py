"""What the end of a task's output says of why it failed: one bounded line without secrets. Pure.

Modules here see text only. They open no file and know no attempt, so that each kind of output is a case of a unit test.
"""
