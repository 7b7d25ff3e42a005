#!/bin/sh
# As the official image's: options are HAProxy's, and HAProxy runs as a master with workers in the foreground.
set -eu
case "${1-}" in
-*) set -- haproxy "$@" ;;
esac
if [ "${1-}" = haproxy ]; then
    shift
    set -- haproxy -W -db "$@"
fi
exec "$@"
