// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"purerdma/abi"
	"purerdma/internal/enum"
)

// SRQ is a shared receive queue (RDMA_NLDEV_CMD_RES_SRQ_GET).
type SRQ struct {
	Attributes
	Number uint32
	Type   SRQType
	PD     uint32    // PD.Number
	CQ     uint32    // CQ.Number, for SRQXRC and SRQTagMatching
	QPs    []QPRange // QPs that receive from it
	Owner
	Driver []DriverValue
}

// QPRange is a range of numbers of QPs, both ends included.
type QPRange struct{ First, Last uint32 }

// SRQType is enum ib_srq_type of the kernel.
type SRQType uint8

// Types of SRQs.
const (
	SRQBasic       SRQType = abi.IB_UVERBS_SRQT_BASIC
	SRQXRC         SRQType = abi.IB_UVERBS_SRQT_XRC
	SRQTagMatching SRQType = abi.IB_UVERBS_SRQT_TM
)

// String returns the name of the type, as "BASIC".
func (t SRQType) String() string {
	return enum.Name(t, "SRQType", []string{"BASIC", "XRC", "TM"})
}

// SRQs lists the SRQs of a device (Linux 5.13).
func (c *Conn) SRQs(device uint32) ([]SRQ, error) {
	return objects(c, newRequest("list SRQs of", abi.RDMA_NLDEV_CMD_RES_SRQ_GET).device(device),
		abi.RDMA_NLDEV_ATTR_RES_SRQ, abi.RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, parseSRQ)
}

func parseSRQ(m value) (s SRQ, ok bool) {
	for attr, v := range m.attributes() {
		s.add(attr)
		s.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_SRQN:
			s.Number, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			s.Type = SRQType(v.u8())
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			s.PD = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_CQN:
			s.CQ = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_QP:
			for entry := range v.entries(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY) {
				if q, ok := parseQPRange(entry); ok {
					s.QPs = append(s.QPs, q)
				}
			}
		case abi.RDMA_NLDEV_ATTR_DRIVER:
			s.Driver = parseDriver(v)
		}
	}
	return s, ok
}

// parseQPRange reads one number or the two ends of a range.
func parseQPRange(m value) (q QPRange, ok bool) {
	for attr, v := range m.attributes() {
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_LQPN:
			return QPRange{v.u32(), v.u32()}, true
		case abi.RDMA_NLDEV_ATTR_MIN_RANGE:
			q.First = v.u32()
		case abi.RDMA_NLDEV_ATTR_MAX_RANGE:
			q.Last, ok = v.u32(), true
		}
	}
	return q, ok && q.First <= q.Last
}
