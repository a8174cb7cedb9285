// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/internal/nldev"
)

// addResources counts what the kernel has per device, as rdma resource show does.
func addResources(count map[string]int) error {
	devices, err := nldev.Resources()
	for device, kinds := range devices {
		for kind, n := range kinds {
			count["kernel "+device+" "+kind] = int(n)
		}
	}
	return err
}

// CMIDs returns how many IDs of the connection manager are bound to the host's
// device: one more when a server has begun to listen on its address.
func (h Host) CMIDs(t testing.TB) uint64 {
	t.Helper()
	devices, err := nldev.Resources()
	if err != nil {
		t.Fatal(err)
	}
	return devices[h.Device]["cm_id"]
}

// Unplug removes a host's RDMA device and returns when the kernel has finished,
// which is when every process has let go of it.
func (h Host) Unplug() error { return netlink.RdmaLinkDel(h.Device) }

// Plug makes a host's RDMA device again and waits until it has its addresses.
func (h Host) Plug(t testing.TB) {
	t.Helper()
	if err := netlink.RdmaLinkAdd(h.Device, Driver(), h.Interface); err != nil {
		t.Fatalf("make %s again: %v", h.Device, err)
	}
	// Index 0 is the link-local address; the last one to come is IPv6. iWARP has one
	// GID, the hardware address.
	path := "/sys/class/infiniband/" + h.Device + "/ports/1/gids/2"
	if Driver() == "siw" {
		path = "/sys/class/infiniband/" + h.Device + "/ports/1/gids/0"
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if gid, err := os.ReadFile(path); err == nil && string(gid) != "0000:0000:0000:0000:0000:0000:0000:0000\n" {
			return
		}
	}
	t.Fatalf("%s did not get its GIDs", h.Device)
}
