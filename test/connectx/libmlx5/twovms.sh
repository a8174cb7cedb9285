#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs in both virtual machines of rdmavm -hosts 2 -vms: each of the programs named, all
# of which are rping, serves in the first, and each is a client of it in the second.
set -e
address() {
	printf '%s\n' $RDMAVM_HOSTS | sed -n "$1p" | cut -d, -f3
}
first=$(address 1) second=$(address 2) port=7200
for server; do
	for client; do
		port=$((port + 1))
		if [ "$RDMAVM_HOST" = 0 ]; then
			"$server" -s -a "$first" -p $port -C 20 -S 1000 -v -V >/dev/null
			continue
		fi
		tries=0
		until "$client" -c -a "$first" -I "$second" -p $port -C 20 -S 1000 -V; do
			tries=$((tries + 1))
			[ $tries -lt 100 ] # until then the server may be on its way
			sleep 0.2
		done
		echo "$client has spoken with $server"
	done
done
