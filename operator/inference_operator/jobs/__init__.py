"""Jobs that do something once for a resource: inspect its model, download it, verify its signature. Pure.

`task` says what a Job does and builds it, `attempts` when it is repeated, `result` how it fails, `record` where its
result is kept, and `state` puts them together. `inspection`, `download` and `verification` only say what differs.
"""
