// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// OverRDMA runs a function that transfers at least size bytes between the hosts. It checks by the kernel's
// counters that the RDMA devices have carried the bytes, and that TCP has carried none.
//
//	rxe      the packets that the devices sent, and the bytes that their interfaces sent. No message may have
//	         found the receives of its peer used up (RNR): the protocols of this module have credits
//	mlx5     the bytes that the ports sent
//	bnxt_re  the bytes of RDMA that the devices sent
//	siw      the bytes that the interfaces sent. iWARP is TCP, so run must leave its connections open: the
//	         process must have no TCP socket.
//	erdma    nothing. The process must have no TCP socket, and the interfaces must send fewer bytes.
//
// With rdmavm -vms, it counts what the device of this virtual machine sends and receives.
func OverRDMA(t testing.TB, size int64, run func()) {
	t.Helper()
	before := carried(t)
	run()
	grown := carried(t)
	for name := range grown {
		grown[name] -= before[name]
	}
	for _, problem := range notOverRDMA(Driver(), size, grown) {
		t.Errorf("%s for %d bytes", problem, size)
	}
	if IWARP() {
		for _, s := range tcpSockets(t) {
			t.Errorf("the process has a TCP socket: %s", s)
		}
	}
}

// notOverRDMA returns the counters that a transfer of size bytes by RDMA does not have. grown has the growth of the
// counters of carried.
func notOverRDMA(driver string, size int64, grown map[string]int64) (problems []string) {
	least, most := map[string]int64{}, map[string]int64{}
	switch driver {
	case "rxe":
		const mtu = 4096 // the largest of RoCE
		least["packets"], least["interface"] = size/mtu, size
		most["TCP"], most["RNR"] = 0, 0
	case "mlx5", "bnxt_re":
		least["port"] = size
		most["TCP"] = 0
	case "siw":
		least["interface"] = size
	case "erdma":
		most["interface"] = size - 1
	default:
		return []string{"unknown driver " + driver}
	}
	for name, want := range least {
		if grown[name] < want {
			problems = append(problems, fmt.Sprintf("%s counters grew by %d, want at least %d", name, grown[name], want))
		}
	}
	for name, want := range most {
		if grown[name] > want {
			problems = append(problems, fmt.Sprintf("%s counters grew by %d, want at most %d", name, grown[name], want))
		}
	}
	return problems
}

// carried returns the counters of sending, each summed over all hosts, and the number of RNR NAKs that devices of rxe
// have sent or received. With rdmavm -vms it adds the counters of receiving, because the other host has a kernel of its
// own.
func carried(t testing.TB) map[string]int64 {
	t.Helper()
	sum := map[string]int64{"TCP": tcpSegments(t)}
	directions := []string{"tx_bytes"}
	if TwoVMs() {
		directions = append(directions, "rx_bytes")
	}
	for _, h := range Hosts(t, 2) {
		if TwoVMs() && !h.Here() {
			continue
		}
		for _, d := range directions {
			sum["interface"] += readCounter(t, "/sys/class/net/"+h.Interface+"/statistics/"+d)
		}
	}
	switch Driver() {
	case "rxe":
		sum["packets"] = Counter(t, "hw_counters/sent_pkts")
		if TwoVMs() {
			sum["packets"] += Counter(t, "hw_counters/rcvd_pkts")
		}
		sum["RNR"] = RNRs(t)
	case "mlx5":
		words := Counter(t, "counters/port_xmit_data")
		if TwoVMs() {
			words += Counter(t, "counters/port_rcv_data")
		}
		sum["port"] = 4 * words // words have 4 bytes
	case "bnxt_re":
		sum["port"] = Counter(t, "hw_counters/tx_bytes")
		if TwoVMs() {
			sum["port"] += Counter(t, "hw_counters/rx_bytes")
		}
	}
	return sum
}

// RNRs returns the number of RNR NAKs that all devices have sent or received, because a message found no posted receive.
// It is 0 on other drivers than rxe, which do not count them.
func RNRs(t testing.TB) int64 {
	t.Helper()
	if Driver() != "rxe" {
		return 0
	}
	return Counter(t, "hw_counters/send_rnr_err") + Counter(t, "hw_counters/rcvd_rnr_err")
}

// Here reports whether the host is of this virtual machine.
func (h Host) Here() bool {
	_, err := os.Stat("/sys/class/net/" + h.Interface)
	return err == nil
}

// Counter returns the sum of a counter of the ports of all RDMA devices. name is relative to the port's
// directory in sysfs.
func Counter(t testing.TB, name string) (sum int64) {
	t.Helper()
	files, _ := filepath.Glob("/sys/class/infiniband/*/ports/1/" + name)
	if len(files) == 0 {
		t.Fatalf("Counter(%q): driver %s has no such counter", name, Driver())
	}
	for _, f := range files {
		sum += readCounter(t, f)
	}
	return sum
}

func readCounter(t testing.TB, file string) int64 {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read a counter: %v", err)
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		t.Fatalf("counter %s: %v", file, err)
	}
	return n
}

// tcpSegments returns the number of TCP segments that the kernel has sent (RFC 4022, tcpOutSegs).
func tcpSegments(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		t.Fatalf("read the counters of TCP: %v", err)
	}
	n, err := outSegs(string(b))
	if err != nil {
		t.Fatalf("/proc/net/snmp: %v", err)
	}
	return n
}

// outSegs returns OutSegs from the contents of /proc/net/snmp. It has a line with the names of the
// counters and one with their values.
func outSegs(snmp string) (int64, error) {
	var names []string
	for line := range strings.Lines(snmp) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "Tcp:":
		case names == nil:
			names = fields
		default:
			for i, name := range names {
				if name == "OutSegs" && i < len(fields) {
					return strconv.ParseInt(fields[i], 10, 64)
				}
			}
		}
	}
	return 0, fmt.Errorf("no counter Tcp: OutSegs")
}

// tcpSockets returns the TCP sockets of this process, as lines of /proc/net/tcp.
func tcpSockets(t testing.TB) (found []string) {
	t.Helper()
	open := map[string]bool{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("list the descriptors: %v", err)
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open[name] = true
		}
	}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			t.Fatalf("list the TCP sockets: %v", err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			const inode = 9 // column
			if fields := strings.Fields(lines.Text()); len(fields) > inode && open["socket:["+fields[inode]+"]"] {
				found = append(found, lines.Text())
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
	}
	return found
}
