# SPDX-License-Identifier: Apache-2.0
#
# Functions for scripts with programs that use RoCE without the connection manager. A script reads meet.sh first.

# The index of the device's RoCE v2 address in its table of GIDs.
gid=$(
	cd /sys/class/infiniband/"$device"/ports/1
	mapped=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(echo "$address" | tr . ' '))
	for i in $(cd gids && grep -l "^$mapped\$" *); do
		if grep -q v2 gid_attrs/types/"$i"; then echo "$i"; fi
	done
)

# verbs runs two programs that exchange addresses over TCP: SERVER CLIENT GIDFLAG ARGS
verbs() {
	port=$((port + 1)) server=$1 client=$2 flag=$3
	shift 3
	meet "$server -d $device $flag $gid -p $port $*" "$client -d $device $flag $gid -p $port $* $first"
}
