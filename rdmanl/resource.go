// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"fmt"
	"os"
	"strings"

	"purerdma/abi"
)

// Summary counts the objects of a device (RDMA_NLDEV_CMD_RES_GET).
type Summary struct {
	Device     uint32 // index
	DeviceName string
	Kinds      []Count // in the kernel's order
}

// Count is the number of objects of one kind, "pd", "cq", "qp", "cm_id", "mr", "ctx" or "srq".
type Count struct {
	Kind string
	N    uint64
	Max  uint64 // limit of the device, 0 if the kernel does not report it (Linux 7.3)
}

// N returns the number of objects of a kind.
func (s Summary) N(kind string) uint64 {
	for _, c := range s.Kinds {
		if c.Kind == kind {
			return c.N
		}
	}
	return 0
}

// Summaries counts the objects of all devices.
func (c *Conn) Summaries() ([]Summary, error) {
	return list(c, newRequest("count resources", abi.RDMA_NLDEV_CMD_RES_GET), func(m value) []Summary {
		if s, ok := parseSummary(m); ok {
			return []Summary{s}
		}
		return nil
	})
}

func parseSummary(m value) (s Summary, ok bool) {
	for attr, v := range m.attributes() {
		switch attr {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			s.Device = v.u32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			s.DeviceName = v.text()
		case abi.RDMA_NLDEV_ATTR_RES_SUMMARY:
			for entry := range v.entries(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY) {
				var n Count
				for attr, v := range entry.attributes() {
					switch attr {
					case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME:
						n.Kind = v.text()
					case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR:
						n.N = v.number()
					case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX:
						n.Max = v.number()
					}
				}
				s.Kinds = append(s.Kinds, n)
			}
		}
	}
	return s, s.DeviceName != ""
}

// Owner is the creator of an object. It is zero if the process has ended.
type Owner struct {
	// PID is the ID of the thread that made the object, in the reader's PID namespace. In programs with
	// one thread it is the process ID. It is 0 for an object of the kernel.
	PID    uint32
	Kernel string // part of the kernel, as "ib_core", or "" for an object of a process
}

// Comm returns the name of the process from /proc/PID/comm, which may have ended since, or Kernel. It
// returns "" if neither exists.
func (o Owner) Comm() string {
	if o.PID == 0 {
		return o.Kernel
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", o.PID))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}

func (o *Owner) parse(attr int, v value) {
	switch attr {
	case abi.RDMA_NLDEV_ATTR_RES_PID:
		o.PID = v.u32()
	case abi.RDMA_NLDEV_ATTR_RES_KERN_NAME:
		o.Kernel = v.text()
	}
}

// DriverValue is one property of an object that only its driver defines.
type DriverValue struct {
	Name string
	Text string // of a string
	N    int64  // of a signed number, or an unsigned number as its bits
	// Kind is the type of the value: abi.RDMA_NLDEV_ATTR_DRIVER_STRING, _S32, _U32, _S64 or _U64.
	Kind int
	Hex  bool // whether the driver suggests to print the number in hexadecimal
}

// String returns "name value".
func (d DriverValue) String() string {
	switch {
	case d.Kind == abi.RDMA_NLDEV_ATTR_DRIVER_STRING:
		return d.Name + " " + d.Text
	case d.Hex && d.Kind == abi.RDMA_NLDEV_ATTR_DRIVER_S32:
		return fmt.Sprintf("%s %#x", d.Name, uint32(d.N))
	case d.Hex:
		return fmt.Sprintf("%s %#x", d.Name, uint64(d.N))
	case d.Kind == abi.RDMA_NLDEV_ATTR_DRIVER_U64:
		return fmt.Sprintf("%s %d", d.Name, uint64(d.N))
	}
	return fmt.Sprintf("%s %d", d.Name, d.N)
}

// parseDriver reads the table of a driver's properties: for each a name, possibly the base, and the
// value.
func parseDriver(table value) []DriverValue {
	var all []DriverValue
	var d DriverValue
	for attr, v := range table.attributes() {
		switch {
		case d.Name == "":
			if attr != abi.RDMA_NLDEV_ATTR_DRIVER_STRING || v.text() == "" {
				return all
			}
			d.Name = v.text()
			continue
		case attr == abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE:
			d.Hex = v.u8() == abi.RDMA_NLDEV_PRINT_TYPE_HEX
			continue
		case attr == abi.RDMA_NLDEV_ATTR_DRIVER_STRING:
			d.Text = v.text()
		case attr == abi.RDMA_NLDEV_ATTR_DRIVER_S32:
			d.N = int64(int32(v.u32()))
		case attr == abi.RDMA_NLDEV_ATTR_DRIVER_U32, attr == abi.RDMA_NLDEV_ATTR_DRIVER_S64, attr == abi.RDMA_NLDEV_ATTR_DRIVER_U64:
			d.N = int64(v.number())
		}
		d.Kind = attr
		all = append(all, d)
		d = DriverValue{}
	}
	return all
}

// objects runs a request for the objects of one kind. Each message has a table of entries. parse
// returns false for an entry that is no object.
func objects[T any](c *Conn, r *request, table, entry int, parse func(value) (T, bool)) ([]T, error) {
	return list(c, r, func(m value) []T {
		var all []T
		for t := range m.entries(table) {
			for e := range t.entries(entry) {
				if o, ok := parse(e); ok {
					all = append(all, o)
				}
			}
		}
		return all
	})
}
