#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs in both virtual machines of rdmavm -driver bnxt_re -hosts 2 -vms. Its arguments are prefixes of programs, "" for the
# programs of rdma-core. The programs of each prefix run against the programs of each prefix. perftest runs against itself.
. "$(dirname "$0")"/../../pairing/meet.sh
. "$(dirname "$0")"/../../pairing/meetverbs.sh

for s; do
	for c; do
		port=$((port + 1))
		meet "${s}rping -s -a $first -p $port -C 20 -S 1000 -v -V" "${c}rping -c -a $first -I $second -p $port -C 20 -S 1000 -V"
		port=$((port + 1))
		meet "${s}ucmatose -b $first -p $port -C 20 -S 1000" "${c}ucmatose -s $first -b $second -p $port -C 20 -S 1000"
		meet "${s}udaddy -b $first -C 20 -S 500" "${c}udaddy -s $first -b $second -C 20 -S 500"
		for p in "rc -c -n 100 -s 100000" "rc -e -n 100" "ud -c -n 100 -s 1000" "srq -n 100 -q 8" "srq -e -n 100"; do
			verbs ${s}ibv_${p%% *}_pingpong ${c}ibv_${p%% *}_pingpong -g ${p#* }
		done
	done
done
# -F ignores the clock of an emulated processor.
for p in "send_bw" "send_bw -c UD -s 1024" "send_lat" "write_bw" "write_lat" "read_bw" "read_lat" "atomic_bw" "atomic_lat"; do
	args=
	if [ "$p" != "${p#* }" ]; then args=${p#* }; fi
	verbs ib_${p%% *} ib_${p%% *} -x -F -n 100 $args
done
stop_servers
