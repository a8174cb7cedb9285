// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

// TestDevinfo compares the output and the status of ibv_devinfo with rdma-core's.
func TestDevinfo(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	one, two := hosts[0].Device, hosts[1].Device
	sameWords(t, "ibv_devinfo", "", "-l", "--list", "-v", "-v -d "+one, "--verbose --ib-dev="+two+" -i 1", "-d "+one+" -i 2", "-i 2 -v",
		"-i 0", "-d nosuch", "-x", "-x -l", "-l -x", "-d", "--ib", "-vd"+two)
}

func TestAsyncwatchWords(t *testing.T) {
	sameWords(t, "ibv_asyncwatch", "-h", "--help", "-x", "-d", "-d nosuch")
}

// TestAsyncwatch sets an interface down and up, and compares both programs' events.
func TestAsyncwatch(t *testing.T) {
	ours, theirs := tool(t, "ibv_asyncwatch")
	const name = "rxewatch"
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth-w"}, PeerName: "veth-x"}
	check := func(call string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
	}
	check("netlink.LinkAdd", netlink.LinkAdd(veth))
	defer netlink.LinkDel(veth)
	for _, end := range []string{veth.Name, veth.PeerName} {
		link, err := netlink.LinkByName(end)
		check("netlink.LinkByName", err)
		check("netlink.LinkSetUp", netlink.LinkSetUp(link))
	}
	driver := vmtest.Driver()
	if vmtest.Modeled() {
		driver = "rxe" // a PCI function has a device of its own
	}
	check("netlink.RdmaLinkAdd", netlink.RdmaLinkAdd(name, driver, veth.Name))
	defer netlink.RdmaLinkDel(name)
	ctx, cancel := context.WithCancel(t.Context())
	var watching []*pairing.Process
	defer func() {
		cancel() // deleting an rxe device waits for its users
		for _, p := range watching {
			p.Wait(toolLimit)
		}
	}()
	for _, program := range []pairing.Program{ours, theirs} {
		p, err := pairing.Start(ctx, program, "-d", name)
		check("pairing.Start", err)
		watching = append(watching, p)
	}
	await := func(want string) {
		t.Helper()
		for _, p := range watching {
			for start := time.Now(); !strings.Contains(p.Output().Stdout, want); time.Sleep(10 * time.Millisecond) {
				if time.Since(start) > startWait {
					t.Fatalf("output lacks %q: %v", want, p.Output())
				}
			}
		}
	}
	await(name + ": async event FD ")
	check("netlink.LinkSetDown", netlink.LinkSetDown(veth))
	await("  event_type IBV_EVENT_PORT_ERR (10), port 1\n")
	check("netlink.LinkSetUp", netlink.LinkSetUp(veth))
	await("  event_type IBV_EVENT_PORT_ACTIVE (9), port 1\n")
	time.Sleep(200 * time.Millisecond) // wait for further lines
	var lines [2]string
	for i, p := range watching {
		first, rest, _ := strings.Cut(p.Output().Stdout, "\n")
		if i == 0 && first != fmt.Sprintf("%s: async event FD -1", name) {
			t.Errorf("first line of the Go program = %q", first)
		}
		lines[i] = rest
	}
	if lines[0] != lines[1] {
		t.Errorf("Go:\n%sC:\n%s", lines[0], lines[1])
	}
}
