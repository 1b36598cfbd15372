"""The store: what is in redis under which key, and one facade for each process that uses it.

Every write is one atomic step; steps of the master-agent are fenced by its lease. No other package spells a key or
talks to redis. Nothing here decides: the facades read and write what their process requests.
"""
