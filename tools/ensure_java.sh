#!/bin/sh
# ensure_java.sh PYTHON: a Java that Spark can use, installed if this is Debian and we may.
set -eu
python=$1

if found=$("$python" -W ignore::RuntimeWarning:runpy -m headwater.engine.java 2>/dev/null); then
    echo "==> $found"
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "==> No Java 17 or newer: installing openjdk-17-jre-headless"
    # Some images lack this folder, and the package's man page links then fail to install.
    mkdir -p /usr/share/man/man1
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null ||
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null
fi
# Says what to install if there is still none.
"$python" -W ignore::RuntimeWarning:runpy -m headwater.engine.java
