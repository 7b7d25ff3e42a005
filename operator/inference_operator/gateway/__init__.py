"""ModelGateways: which names there are, where their requests go, the objects of a gateway and its status."""
