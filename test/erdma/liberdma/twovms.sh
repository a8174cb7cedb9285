#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs in both virtual machines of rdmavm -driver erdma -hosts 2 -vms. Its arguments are prefixes of programs, "" for the
# programs of rdma-core. The programs of each prefix run against the programs of each prefix. perftest runs against itself.
. "$(dirname "$0")"/../../pairing/meet.sh

for s; do
	for c; do
		port=$((port + 1))
		meet "${s}rping -s -a $first -p $port -C 20 -S 1000 -v -V" "${c}rping -c -a $first -I $second -p $port -C 20 -S 1000 -V"
		port=$((port + 1))
		meet "${s}ucmatose -b $first -p $port -C 20 -S 1000" "${c}ucmatose -s $first -b $second -p $port -C 20 -S 1000"
		port=$((port + 1))
		# rdma-core's cmtime succeeds even if it is refused. It prints an initial value as the shortest time then.
		attend "${s}cmtime -b $first -p $port" "${c}cmtime -s $first -b $second -p $port -c 100" 1000000000.00
		for flags in "-S 4096 -C 100 -I 5 -T r" "-S 65536 -C 50 -I 5 -T n"; do
			port=$((port + 1))
			meet "${s}rstream -b $first -p $port $flags" "${c}rstream -s $first -p $port $flags"
		done
		port=$((port + 1))
		meet "${s}riostream -b $first -p $port -S 4096 -C 50 -I 5" "${c}riostream -s $first -p $port -S 4096 -C 50 -I 5"
	done
done
# -F ignores the clock of an emulated processor.
for p in "send_bw -n 100" "write_bw -n 100 -q 4 -s 1000" "read_bw -n 20 -s 4194304 -o 16"; do
	port=$((port + 1)) args="-R -F -d $device -p $port ${p#* }"
	meet "ib_${p%% *} $args" "ib_${p%% *} $args $first"
done
stop_servers
