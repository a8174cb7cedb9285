// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"purerdma/abi"
	"purerdma/internal/enum"
)

// QP is a queue pair (RDMA_NLDEV_CMD_RES_QP_GET).
type QP struct {
	Attributes
	Number       uint32
	Port         uint32 // 0 before the QP has a port
	Type         QPType
	Subtype      string // of QPDriver, as "DCI" (Linux 6.11)
	State        QPState
	RemoteNumber uint32 // of the peer's QP, for RC and UC
	RecvPSN      uint32 // next packet sequence number, for RC and UC
	SendPSN      uint32
	MigState     MigState // for RC, UC and XRC
	PD           uint32   // PD.Number, for a QP of a process
	Owner
	Driver []DriverValue
}

// QPType is the transport service of a QP (enum ib_qp_type of the kernel).
type QPType uint8

// Transport services.
const (
	QPSMI       QPType = 0 // subnet management
	QPGSI       QPType = 1 // general services, as the connection manager's datagrams
	QPRC        QPType = abi.IB_UVERBS_QPT_RC
	QPUC        QPType = abi.IB_UVERBS_QPT_UC
	QPUD        QPType = abi.IB_UVERBS_QPT_UD
	QPRawPacket QPType = abi.IB_UVERBS_QPT_RAW_PACKET
	QPXRCSend   QPType = abi.IB_UVERBS_QPT_XRC_INI
	QPXRCRecv   QPType = abi.IB_UVERBS_QPT_XRC_TGT
	QPDriver    QPType = abi.IB_UVERBS_QPT_DRIVER // defined by the driver
)

// String returns the name of the service, as "RC".
func (t QPType) String() string { return enum.Name(t, "QPType", qpTypes[:]) }

var qpTypes = [...]string{QPSMI: "SMI", QPGSI: "GSI", QPRC: "RC", QPUC: "UC", QPUD: "UD", QPRawPacket: "RAW_PACKET",
	QPXRCSend: "XRC_INI", QPXRCRecv: "XRC_TGT", QPDriver: "DRIVER"}

// QPState is the state of a QP (enum ib_qp_state of the kernel).
type QPState uint8

// States of a QP.
const (
	QPReset QPState = iota
	QPInit
	QPRTR // ready to receive
	QPRTS // ready to send
	QPSQD // send queue drains
	QPSQE // send queue error
	QPErr
)

// String returns the name of the state, as "RTS".
func (s QPState) String() string {
	return enum.Name(s, "QPState", []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"})
}

// MigState is the state of path migration (enum ib_mig_state of the kernel).
type MigState uint8

// States of path migration.
const (
	MigMigrated MigState = iota
	MigRearm
	MigArmed
)

// String returns the name of the state, as "ARMED".
func (s MigState) String() string {
	return enum.Name(s, "MigState", []string{"MIGRATED", "REARM", "ARMED"})
}

// QPs lists the QPs of a device, including QPs of type QPDriver. The driver reads the attributes of each QP, on hardware by a
// firmware command.
func (c *Conn) QPs(device uint32) ([]QP, error) {
	// Since Linux 6.11 the kernel omits QPs of QPDriver without this attribute (RESTRACK_DD). Older kernels ignore it.
	r := newRequest("list QPs of", abi.RDMA_NLDEV_CMD_RES_QP_GET).device(device).addU8(abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS, 1)
	return objects(c, r,
		abi.RDMA_NLDEV_ATTR_RES_QP, abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, parseQP)
}

func parseQP(m value) (q QP, ok bool) {
	for attr, v := range m.attributes() {
		q.add(attr)
		q.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_LQPN:
			q.Number, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			q.Port = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			q.Type = QPType(v.u8())
		case abi.RDMA_NLDEV_ATTR_RES_SUBTYPE:
			q.Subtype = v.text()
		case abi.RDMA_NLDEV_ATTR_RES_STATE:
			q.State = QPState(v.u8())
		case abi.RDMA_NLDEV_ATTR_RES_RQPN:
			q.RemoteNumber = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_RQ_PSN:
			q.RecvPSN = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_SQ_PSN:
			q.SendPSN = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE:
			q.MigState = MigState(v.u8())
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			q.PD = v.u32()
		case abi.RDMA_NLDEV_ATTR_DRIVER:
			q.Driver = parseDriver(v)
		}
	}
	return q, ok
}
