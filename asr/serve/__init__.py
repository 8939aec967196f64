"""A server: sound comes in by any of several protocols, and goes out as one stream of segments that each one words.

`engine` advances streams, `session` is one client's, `service` lets clients in, each protocol is a file.
"""
