// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"fmt"

	"purerdma/abi"
	"purerdma/internal/enum"
)

// HWCounter is one counter of a port's hardware, or of a software device. The driver chooses the names.
type HWCounter struct {
	Name  string
	Value uint64
}

// HWCounters returns the counters of a port (RDMA_NLDEV_CMD_STAT_GET). The values include all Counters
// of the port, also the deleted ones. Optional counters that are off are missing. A driver without
// counters returns EINVAL.
func (c *Conn) HWCounters(device, port uint32) ([]HWCounter, error) {
	m, err := c.get(newRequest("get counters of", abi.RDMA_NLDEV_CMD_STAT_GET).device(device).port(port))
	if err != nil {
		return nil, err
	}
	var all []HWCounter
	for table := range m.entries(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS) {
		all = append(all, parseHWCounters(table)...)
	}
	return all, nil
}

func parseHWCounters(table value) []HWCounter {
	var all []HWCounter
	for entry := range table.entries(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY) {
		var h HWCounter
		for attr, v := range entry.attributes() {
			switch attr {
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME:
				h.Name = v.text()
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE:
				h.Value = v.number()
			}
		}
		all = append(all, h)
	}
	return all
}

// HWCounterStatus describes one counter of a port.
type HWCounterStatus struct {
	Name     string
	Index    uint32
	Optional bool // can be turned on and off by SetOptionalCounters
	Enabled  bool
}

// HWCounterStatus lists the counters of a port, also the optional counters that are off
// (RDMA_NLDEV_CMD_STAT_GET_STATUS, Linux 5.16).
func (c *Conn) HWCounterStatus(device, port uint32) ([]HWCounterStatus, error) {
	m, err := c.get(newRequest("get the status of counters of", abi.RDMA_NLDEV_CMD_STAT_GET_STATUS).device(device).port(port))
	if err != nil {
		return nil, err
	}
	return parseStatus(m), nil
}

func parseStatus(m value) []HWCounterStatus {
	var all []HWCounterStatus
	for table := range m.entries(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS) {
		for entry := range table.entries(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY) {
			s := HWCounterStatus{Enabled: true}
			for attr, v := range entry.attributes() {
				switch attr {
				case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME:
					s.Name = v.text()
				case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX:
					s.Index = v.u32()
				case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC:
					s.Optional, s.Enabled = true, v.flag()
				}
			}
			all = append(all, s)
		}
	}
	return all
}

// SetOptionalCounters turns on the optional counters of a port with the given indexes, and turns off
// all other optional counters (RDMA_NLDEV_CMD_STAT_SET, Linux 5.16). An index of a counter that is not
// optional returns EINVAL.
func (c *Conn) SetOptionalCounters(device, port uint32, indexes ...uint32) error {
	table := new(request)
	for _, i := range indexes {
		table.addU32(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, i)
	}
	_, err := c.get(newRequest("set optional counters of", abi.RDMA_NLDEV_CMD_STAT_SET).device(device).port(port).
		add(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS|nested, table.body))
	return err
}

// nested marks an attribute that consists of attributes (NLA_F_NESTED).
const nested = 1 << 15

// Counter is a set of hardware counters for some QPs of a port (RDMA_NLDEV_CMD_STAT_GET). mlx5 has them.
type Counter struct {
	Attributes
	Number uint32
	Port   uint32
	Mode   CounterMode
	QPType QPType // of all its QPs, if CounterByQPType is set
	Owner         // of all its QPs, if CounterByPID is set
	QPs    []uint32
	Values []HWCounter
}

// CounterMode is the way in which QPs get their Counter (enum rdma_nl_counter_mode of the kernel).
type CounterMode uint32

// Modes of counters.
const (
	CounterNone   CounterMode = abi.RDMA_COUNTER_MODE_NONE
	CounterAuto   CounterMode = abi.RDMA_COUNTER_MODE_AUTO   // the kernel binds new QPs
	CounterManual CounterMode = abi.RDMA_COUNTER_MODE_MANUAL // BindQP binds them
)

// String returns the name of the mode, as "auto".
func (m CounterMode) String() string {
	return enum.Name(m, "CounterMode", []string{"none", "auto", "manual"})
}

// CounterMask selects the properties that the QPs of one Counter have in common in CounterAuto (enum
// rdma_nl_counter_mask of the kernel).
type CounterMask uint32

// Properties of QPs.
const (
	CounterByQPType CounterMask = abi.RDMA_COUNTER_MASK_QP_TYPE
	CounterByPID    CounterMask = abi.RDMA_COUNTER_MASK_PID
)

// Counters lists the Counters of a port. If a Counter has more than about 2,500 QPs, it is larger than
// a message of a list, and the kernel's answer does not end. The call then returns EMSGSIZE and closes
// the Conn.
func (c *Conn) Counters(device, port uint32) ([]Counter, error) {
	return objects(c, newRequest("list counters of", abi.RDMA_NLDEV_CMD_STAT_GET).device(device).port(port).forQPs(),
		abi.RDMA_NLDEV_ATTR_STAT_COUNTER, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, parseCounter)
}

// forQPs adds the kind of objects that are counted.
func (r *request) forQPs() *request {
	return r.addU32(abi.RDMA_NLDEV_ATTR_STAT_RES, abi.RDMA_NLDEV_ATTR_RES_QP)
}

func parseCounter(m value) (c Counter, ok bool) {
	for attr, v := range m.attributes() {
		c.add(attr)
		c.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID:
			c.Number, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			c.Port = v.u32()
		case abi.RDMA_NLDEV_ATTR_STAT_MODE:
			c.Mode = CounterMode(v.u32())
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			c.QPType = QPType(v.u8())
		case abi.RDMA_NLDEV_ATTR_RES_QP:
			for entry := range v.entries(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY) {
				for qpn := range entry.entries(abi.RDMA_NLDEV_ATTR_RES_LQPN) {
					c.QPs = append(c.QPs, qpn.u32())
				}
			}
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
			c.Values = parseHWCounters(v)
		}
	}
	return c, ok
}

// CounterSettings is the way in which the QPs of a port get their Counters.
type CounterSettings struct {
	Mode CounterMode
	Mask CounterMask // of CounterAuto
	// Optional includes the optional counters in the Counters of CounterAuto (Linux 7.3).
	Optional bool
}

// CounterSettings returns the settings of a port (RDMA_NLDEV_CMD_STAT_GET). A driver without Counters
// returns EOPNOTSUPP.
func (c *Conn) CounterSettings(device, port uint32) (CounterSettings, error) {
	// The kernel does not look at the value of the mode.
	m, err := c.get(newRequest("get counter settings of", abi.RDMA_NLDEV_CMD_STAT_GET).device(device).port(port).
		addU32(abi.RDMA_NLDEV_ATTR_STAT_MODE, abi.RDMA_COUNTER_MODE_MANUAL).forQPs())
	if err != nil {
		return CounterSettings{}, err
	}
	return parseSettings(m), nil
}

func parseSettings(m value) (s CounterSettings) {
	for attr, v := range m.attributes() {
		switch attr {
		case abi.RDMA_NLDEV_ATTR_STAT_MODE:
			s.Mode = CounterMode(v.u32())
		case abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK:
			s.Mask = CounterMask(v.u32())
		case abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED:
			s.Optional = v.flag()
		}
	}
	return s
}

// SetCounterAuto makes the kernel bind each new QP of a port to a Counter of the QPs that have the
// properties of mask in common (RDMA_NLDEV_CMD_STAT_SET). A zero mask turns this off. Existing QPs keep
// their Counters. optional is CounterSettings.Optional. Kernels before Linux 7.3 refuse it with EINVAL.
// The kernel returns EBUSY in CounterManual.
func (c *Conn) SetCounterAuto(device, port uint32, mask CounterMask, optional bool) error {
	r := newRequest("set counter settings of", abi.RDMA_NLDEV_CMD_STAT_SET).device(device).port(port).forQPs().
		addU32(abi.RDMA_NLDEV_ATTR_STAT_MODE, abi.RDMA_COUNTER_MODE_AUTO).
		addU32(abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, uint32(mask))
	if optional {
		r.addU8(abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, 1)
	}
	_, err := c.get(r)
	return err
}

// NewCounter is the number that makes BindQP create a Counter.
const NewCounter = 0

// BindQP binds a QP to a Counter of its port, and returns the Counter's number
// (RDMA_NLDEV_CMD_STAT_SET). NewCounter creates one. The port changes to CounterManual. The kernel
// deletes a Counter when its last QP leaves it.
func (c *Conn) BindQP(device, port, qp, counter uint32) (uint32, error) {
	r := newRequest("bind", abi.RDMA_NLDEV_CMD_STAT_SET).device(device).port(port).forQPs().
		addU32(abi.RDMA_NLDEV_ATTR_STAT_MODE, abi.RDMA_COUNTER_MODE_MANUAL).addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, qp)
	if counter != NewCounter {
		r.addU32(abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter)
	}
	r.object = fmt.Sprintf("QP %d of %s", qp, r.object)
	m, err := c.get(r)
	if err != nil {
		return 0, err
	}
	for id := range m.entries(abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID) {
		return id.u32(), nil
	}
	return 0, r.wrap(errNoAnswer)
}

// UnbindQP takes a QP out of a Counter in CounterManual (RDMA_NLDEV_CMD_STAT_DEL).
func (c *Conn) UnbindQP(device, port, qp, counter uint32) error {
	r := newRequest("unbind", abi.RDMA_NLDEV_CMD_STAT_DEL).device(device).port(port).forQPs().
		addU32(abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter).addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, qp)
	r.object = fmt.Sprintf("QP %d of %s", qp, r.object)
	_, err := c.get(r)
	return err
}

// MRCounters are the counters of one memory region, for example of its page faults on mlx5.
type MRCounters struct {
	MR     uint32 // MR.Number
	Values []HWCounter
}

// MRCounters lists the counters of all memory regions of a device (RDMA_NLDEV_CMD_STAT_GET). Memory
// regions without counters have no Values.
func (c *Conn) MRCounters(device uint32) ([]MRCounters, error) {
	r := newRequest("list MR counters of", abi.RDMA_NLDEV_CMD_STAT_GET).device(device).
		addU32(abi.RDMA_NLDEV_ATTR_STAT_RES, abi.RDMA_NLDEV_ATTR_RES_MR)
	return objects(c, r, abi.RDMA_NLDEV_ATTR_RES_MR, abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, parseMRCounters)
}

func parseMRCounters(m value) (c MRCounters, ok bool) {
	for attr, v := range m.attributes() {
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_MRN:
			c.MR, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
			c.Values = parseHWCounters(v)
		}
	}
	return c, ok
}
