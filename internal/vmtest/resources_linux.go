// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/rdmanl"
)

// summaries counts the kernel's objects of each device, as rdma resource show does.
func summaries() ([]rdmanl.Summary, error) {
	c, err := rdmanl.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Summaries()
}

// addResources counts the kernel's objects of each device.
func addResources(count map[string]int) error {
	list, err := summaries()
	for _, s := range list {
		for _, k := range s.Kinds {
			count["kernel "+s.DeviceName+" "+k.Kind] = int(k.N)
		}
	}
	return err
}

// CMIDs returns the number of connection manager IDs that are bound to the host's device.
func (h Host) CMIDs(t testing.TB) uint64 {
	t.Helper()
	list, err := summaries()
	if err != nil {
		t.Fatalf("summaries(): %v", err)
	}
	for _, s := range list {
		if s.DeviceName == h.Device {
			return s.N("cm_id")
		}
	}
	return 0
}

// Listeners returns the number of those IDs that listen. A server binds its ID first, and
// requests are refused until it listens.
func (h Host) Listeners(t testing.TB) (n int) {
	t.Helper()
	c, err := rdmanl.Dial()
	if err != nil {
		t.Fatalf("rdmanl.Dial: %v", err)
	}
	defer c.Close()
	devices, err := c.Devices()
	if err != nil {
		t.Fatalf("Conn.Devices: %v", err)
	}
	for _, d := range devices {
		if d.Name != h.Device {
			continue
		}
		ids, err := c.CMIDs(d.Index)
		if err != nil {
			t.Fatalf("Conn.CMIDs(%d): %v", d.Index, err)
		}
		for _, id := range ids {
			if id.State == rdmanl.CMListen {
				n++
			}
		}
	}
	return n
}

// Unplug removes a host's RDMA device and returns when the kernel has finished. Before Linux 7.3 the kernel
// waits on rxe and siw until every process has released the device, and before 6.12 on erdma.
func (h Host) Unplug() error {
	switch Driver() {
	case "mlx5", "bnxt_re":
		// Programs may post until the kernel takes their register pages, after it has destroyed their QPs.
		if err := h.TryFault("removing", 1); err != nil {
			return err
		}
		return errors.Join(h.auxiliary("unbind"), h.TryFault("removing", 0))
	case "erdma":
		return h.adapter("unbind")
	}
	return netlink.RdmaLinkDel(h.Device)
}

// halves has the name of a card's RDMA half on the auxiliary bus, without its number, and the name of its driver.
var halves = map[string][2]string{
	"mlx5":    {"mlx5_core.rdma", "mlx5_ib.rdma"},
	"bnxt_re": {"bnxt_en.rdma", "bnxt_re.rdma"},
}

// auxiliary unbinds the RDMA half of a card from its driver, or binds it again.
func (h Host) auxiliary(verb string) error {
	half := halves[Driver()]
	list, err := filepath.Glob("/sys/class/net/" + h.Interface + "/device/" + half[0] + ".*")
	if err != nil || len(list) != 1 {
		return fmt.Errorf("%d RDMA halves of %s, not one (%v)", len(list), h.Interface, err)
	}
	return os.WriteFile("/sys/bus/auxiliary/drivers/"+half[1]+"/"+verb, []byte(filepath.Base(list[0])), 0)
}

// adapter unbinds the host's eRDMA adapter from its driver, or binds it again. The adapters have the order
// of their hosts.
func (h Host) adapter(verb string) error {
	ends, err := Ends()
	if err != nil {
		return err
	}
	vendors, err := filepath.Glob("/sys/bus/pci/devices/*/vendor")
	if err != nil {
		return err
	}
	var adapters []string
	for _, v := range vendors {
		if id, err := os.ReadFile(v); err == nil && string(id) == "0x1ded\n" {
			adapters = append(adapters, filepath.Base(filepath.Dir(v)))
		}
	}
	i := slices.Index(ends, h)
	if i < 0 || i >= len(adapters) {
		return fmt.Errorf("no adapter of %s among %q", h.Device, adapters)
	}
	return os.WriteFile("/sys/bus/pci/drivers/erdma/"+verb, []byte(adapters[i]), 0)
}

// lastGID has the index of the last GID for each driver. Index 0 is the link-local address, and the last
// index is the IPv6 address. Cards have each GID twice, for both versions of RoCE. iWARP has one GID, the
// hardware address.
var lastGID = map[string]string{"rxe": "2", "siw": "0", "mlx5": "5", "erdma": "0", "bnxt_re": "5"}

// Plug creates a host's RDMA device again and waits until the device has its addresses.
func (h Host) Plug(t testing.TB) {
	t.Helper()
	if err := h.TryPlug(); err != nil {
		t.Fatalf("TryPlug(%s): %v", h.Device, err)
	}
}

// TryPlug is Plug for programs.
func (h Host) TryPlug() error {
	var err error
	switch Driver() {
	case "mlx5", "bnxt_re":
		err = h.auxiliary("bind")
	case "erdma":
		err = h.adapter("bind")
	default:
		err = netlink.RdmaLinkAdd(h.Device, Driver(), h.Interface)
	}
	if err != nil {
		return err
	}
	return h.awaitAddresses()
}

// awaitAddresses waits until the host's device has the GIDs of its addresses.
func (h Host) awaitAddresses() error {
	path := "/sys/class/infiniband/" + h.Device + "/ports/1/gids/" + lastGID[Driver()]
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if gid, err := os.ReadFile(path); err == nil && string(gid) != "0000:0000:0000:0000:0000:0000:0000:0000\n" {
			return nil
		}
	}
	return errors.New("the device has not got its GIDs")
}
