"""The router's configuration, as the operator renders it, in the HAProxy of the router's image.

Engines are stand-ins that are as slow and die as suddenly as a test needs, names come from a DNS server of the test's
own, and everything listens on loopback: what takes a cluster minutes takes seconds here.
"""
