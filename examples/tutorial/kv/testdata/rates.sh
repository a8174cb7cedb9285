#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Prints the rates of two programs in turn, without and with a delay on the wire of the
# micro-VM: rates.sh before after [runs]
for delay in 0 1ms; do
	[ $delay = 0 ] || for dev in eth8 eth9; do
		tc qdisc replace dev $dev root netem delay $delay limit 100000 || exit 1
	done
	for n in 1 16 100; do
		for run in $(seq "${3:-3}"); do
			for program in "$1" "$2"; do
				echo "delay $delay, ${program##*/}, $("$program" -bench $n -for 2s)" || exit 1
			done
		done
	done
done
