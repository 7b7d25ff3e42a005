from tests.apiserver.conftest import account, kubernetes, operator, workspace  # noqa
