"""The JSON names of fields: camelCase, with units as they are written."""

from pydantic.alias_generators import to_camel


def json_name(name: str) -> str:
    return to_camel(name).replace("Gib", "GiB").replace("Urls", "URLs")
