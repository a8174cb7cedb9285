#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs in both virtual machines of rdmavm -hosts 2 -vms. Its arguments are test programs. The tests below have a server
# in the first virtual machine and a client in the second.
set -e
for program; do
	"$program" -test.v -test.count=1 -test.timeout=60m -test.run '^TestVM(HTTP|RPC|TLS|Reader|Relay|Interop|Benchmark|Redis|Postgres)$' >/tmp/said 2>&1 || {
		cat /tmp/said
		exit 1
	}
	grep -E '^--- |^ok|^PASS' /tmp/said
	if ! grep -q '^--- PASS' /tmp/said || grep -q -e '--- SKIP' /tmp/said; then
		echo "$program: no test ran, or one was skipped" >&2
		exit 1
	fi
done
