#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs pingpong programs between the two devices of the VM: all of them with the first
# prefix, as ibv_, and then with the next.
set -e
for prefix; do
	for program in "rc_pingpong -n 20 -s 1000" "rc_pingpong -n 20 -s 100000 -c" "rc_pingpong -e -n 20 -s 200" \
		"uc_pingpong -n 20 -s 3000" "ud_pingpong -n 20 -s 700" "srq_pingpong -n 20 -s 500 -q 1"; do
		$prefix$program -d mlx5_0 -g 1 >/dev/null &
		server=$!
		sleep 2
		$prefix$program -d mlx5_1 -g 1 127.0.0.1
		wait $server
	done
done
