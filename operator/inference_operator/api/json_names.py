"""The JSON names of fields: camelCase, with units as they are written."""

from pydantic.alias_generators import to_camel


def json_name(name: str) -> str:
    """The JSON name of a field.

    Examples:
        >>> json_name("kv_cache_gib")
        'kvCacheGiB'
    """
    return to_camel(name).replace("Gib", "GiB").replace("Urls", "URLs")
