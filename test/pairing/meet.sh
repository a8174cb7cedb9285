# SPDX-License-Identifier: Apache-2.0
#
# Functions for scripts that run in both virtual machines of rdmavm -hosts 2 -vms. The first has the servers, the second
# has the clients. A script reads this file with ".", and ends with the function stop_servers.
set -e
host() { # field N of host M
	printf '%s\n' $RDMAVM_HOSTS | sed -n "$2p" | cut -d, -f"$1"
}
first=$(host 3 1) second=$(host 3 2)
own=$((RDMAVM_HOST + 1))
device=$(host 1 $own) address=$(host 3 $own)
servers=

# The port of the next meeting.
port=7200
# meet runs "SERVER ARGS" in the first virtual machine, and "CLIENT ARGS" in the second. It fails if the client's output
# contains the third argument. A client that is refused because its server does not listen yet is started again. It must
# make one connection first, because a server that gets a part of its connections fails.
meet() {
	if [ "$RDMAVM_HOST" = 0 ]; then
		$1 >/tmp/served 2>&1 || {
			cat /tmp/served
			exit 1
		}
		return
	fi
	tries=0
	until $2 >/tmp/said 2>&1 && { [ -z "$3" ] || ! grep -q "$3" /tmp/said; }; do
		tries=$((tries + 1))
		if [ $tries -ge 100 ]; then # The server may not listen yet.
			cat /tmp/said
			exit 1
		fi
		sleep 0.2
	done
	echo "$2: succeeded with $1"
}

# attend is meet with a server that serves until it is stopped.
attend() {
	if [ "$RDMAVM_HOST" = 1 ]; then
		meet "$1" "$2" "$3"
		return
	fi
	$1 >/dev/null &
	servers="$servers $!"
}

# stop_servers stops the servers of attend. When the last meeting is over, all meetings are over.
stop_servers() {
	for pid in $servers; do kill "$pid"; done
}
