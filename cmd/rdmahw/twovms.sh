#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs in both virtual machines of rdmavm -hosts 2 -vms. Its arguments are the test program of this directory, and rdmahw. The
# tests run "rdmahw serve" in the first virtual machine and "rdmahw run -peer" in the second.
set -e
RDMAHW=$2 "$1" -test.v -test.count=1 -test.timeout=60m -test.run '^TestVM(Peer|SilentPeer)$' >/tmp/said 2>&1 || {
	cat /tmp/said
	exit 1
}
grep -E '^--- |^PASS| passed, ' /tmp/said
if [ "$(grep -c '^--- PASS' /tmp/said)" != 2 ]; then
	echo "$1: want two tests" >&2
	exit 1
fi
