#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs in both virtual machines of rdmavm -hosts 2 -vms: the first serves, the second has
# the clients. Its arguments are prefixes of programs, "" for those of rdma-core: those
# of each meet those of each, and then rdma-core's and perftest's, which have no other.
. "$(dirname "$0")"/../../pairing/meet.sh
. "$(dirname "$0")"/../../pairing/meetverbs.sh

for s; do
	for c; do
		port=$((port + 1))
		meet "${s}rping -s -a $first -p $port -C 20 -S 1000 -v -V" "${c}rping -c -a $first -I $second -p $port -C 20 -S 1000 -V"
		port=$((port + 1))
		meet "${s}ucmatose -b $first -p $port -C 20 -S 1000" "${c}ucmatose -s $first -b $second -p $port -C 20 -S 1000"
		port=$((port + 1))
		# rdma-core's ends well though it is refused, and prints a shortest time that
		# nothing has set.
		attend "${s}cmtime -b $first -p $port" "${c}cmtime -s $first -b $second -p $port -c 100" 1000000000.00
		meet "${s}udaddy -b $first -C 20 -S 500" "${c}udaddy -s $first -b $second -C 20 -S 500"
		for p in "rc -c -n 100 -s 100000" "rc -e -n 100" "uc -c -n 100 -s 3000" "ud -c -n 100 -s 1000" "srq -n 100 -q 8" "srq -e -n 100"; do
			verbs ${s}ibv_${p%% *}_pingpong ${c}ibv_${p%% *}_pingpong -g ${p#* }
		done
	done
done
port=$((port + 1))
meet "rstream -b $first -p $port -S 4096 -C 100 -I 5 -T r" "rstream -s $first -p $port -S 4096 -C 100 -I 5 -T r"
verbs ibv_xsrq_pingpong ibv_xsrq_pingpong -g -n 100
# -F: an emulated processor's clock is not believed.
for p in "send_bw" "send_bw -c UD -s 1024" "send_bw -c XRC" "send_lat" "write_bw" "write_lat" "read_bw" "read_lat" "atomic_bw" "atomic_lat"; do
	args=
	if [ "$p" != "${p#* }" ]; then args=${p#* }; fi
	verbs ib_${p%% *} ib_${p%% *} -x -F -n 100 $args
done
stop_servers
