# Installs a program: FILE is an archive of Python modules with __main__.py and requirements.txt. The copy is checked, and the copy runs.
file=$1 into=$2 sha256=$3
rm -rf "$into"/*
mkdir "$into/lib" "$into/tmp"
cp "$file" "$into/tmp/program.tar.xz"
if ! echo "$sha256  $into/tmp/program.tar.xz" | sha256sum --check --status; then
    echo "the program in the ConfigMap is not the one that this pod was made for, whose SHA-256 is $sha256: it was not started" >&2
    exit 1
fi
python3 -m tarfile --extract "$into/tmp/program.tar.xz" "$into/lib"
HOME="$into/tmp" TMPDIR="$into/tmp" python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check \
    --require-hashes --no-deps --only-binary=:all: --target="$into/lib" --requirement="$into/lib/requirements.txt"
rm -r "$into/tmp"
