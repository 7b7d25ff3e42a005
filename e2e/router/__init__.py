"""Tests of the operator's router configuration with HAProxy of the router's image, without a cluster.

The engines are stand-ins that are slow or die as a test needs. A DNS server of the test resolves their name. Everything
listens on loopback, so that a test takes seconds instead of minutes.
"""
