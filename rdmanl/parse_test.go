// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"purerdma/abi"
)

// message encodes attributes as the kernel does.
func message() *request { return new(request) }

func (r *request) addU64(typ int, v uint64) *request {
	return r.add(typ, binary.NativeEndian.AppendUint64(nil, v))
}

func (r *request) addNested(typ int, inner *request) *request { return r.add(typ|nested, inner.body) }

// unknown adds an attribute that a future kernel may send.
func (r *request) unknown() *request { return r.add(9999, []byte{1, 2, 3}) }

// sockaddrIn encodes a struct sockaddr_in in the kernel's storage.
func sockaddrIn(ip string, port uint16) []byte {
	var sa abi.SockaddrStorage
	binary.NativeEndian.PutUint16(sa[:], abi.AF_INET)
	binary.BigEndian.PutUint16(sa[2:], port)
	copy(sa[4:], netip.MustParseAddr(ip).AsSlice())
	return sa[:]
}

func counters(pairs ...any) *request {
	table := message()
	for i := 0; i < len(pairs); i += 2 {
		table.addNested(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, message().
			addText(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, pairs[i].(string)).
			addU64(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, uint64(pairs[i+1].(int))))
	}
	return table
}

// parser is one parse function without its type.
type parser struct {
	name    string
	parse   func(value) (any, bool)
	message *request
	want    any
}

func of[T any](f func(value) (T, bool)) func(value) (any, bool) {
	return func(v value) (any, bool) {
		x, ok := f(v)
		return x, ok
	}
}

func always[T any](f func(value) T) func(value) (any, bool) {
	return func(v value) (any, bool) { return f(v), true }
}

var driverTable = message().addText(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "sqid").addU32(abi.RDMA_NLDEV_ATTR_DRIVER_U32, 7).
	addText(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "flags").addU8(abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE, 1).addU64(abi.RDMA_NLDEV_ATTR_DRIVER_U64, 0x10).
	addText(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "odp").addText(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "explicit").
	addText(abi.RDMA_NLDEV_ATTR_DRIVER_STRING, "delta").addU32(abi.RDMA_NLDEV_ATTR_DRIVER_S32, 0xffffffff)

var driverValues = []DriverValue{
	{Name: "sqid", N: 7, Kind: abi.RDMA_NLDEV_ATTR_DRIVER_U32},
	{Name: "flags", N: 0x10, Kind: abi.RDMA_NLDEV_ATTR_DRIVER_U64, Hex: true},
	{Name: "odp", Text: "explicit", Kind: abi.RDMA_NLDEV_ATTR_DRIVER_STRING},
	{Name: "delta", N: -1, Kind: abi.RDMA_NLDEV_ATTR_DRIVER_S32},
}

var parsers = []parser{
	{"Device", of(parseDevice), message().
		addU32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 3).addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, "rxe0").addU32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).
		addU64(abi.RDMA_NLDEV_ATTR_CAP_FLAGS, 1<<40).addText(abi.RDMA_NLDEV_ATTR_FW_VERSION, "16.1").unknown().
		addU64(abi.RDMA_NLDEV_ATTR_NODE_GUID, 0x1122334455667788).addU64(abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, 9).
		addU8(abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE, 1).addU8(abi.RDMA_NLDEV_ATTR_DEV_DIM, 1).addText(abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce").
		addU8(abi.RDMA_NLDEV_ATTR_DEV_TYPE, 1).addText(abi.RDMA_NLDEV_ATTR_PARENT_NAME, "mlx5_0").addU8(abi.RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE, 1),
		Device{Index: 3, Name: "rxe0", Ports: 1, Caps: 1 << 40, Firmware: "16.1", NodeGUID: 0x1122334455667788, SysImageGUID: 9, NodeType: NodeCA,
			AdaptiveModeration: true, Protocol: "roce", Type: DeviceSMI, Parent: "mlx5_0", NameAssigned: NameByUser}},
	{"Port", of(parsePort), message().
		addU32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 3).addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0").addU32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 2).
		addU8(abi.RDMA_NLDEV_ATTR_PORT_STATE, 4).addU8(abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, 5).addU64(abi.RDMA_NLDEV_ATTR_CAP_FLAGS, 6).
		addU64(abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX, 0xfe80<<48).addU32(abi.RDMA_NLDEV_ATTR_LID, 8).addU32(abi.RDMA_NLDEV_ATTR_SM_LID, 9).
		addU8(abi.RDMA_NLDEV_ATTR_LMC, 1).unknown().addU32(abi.RDMA_NLDEV_ATTR_NDEV_INDEX, 7).addText(abi.RDMA_NLDEV_ATTR_NDEV_NAME, "eth7"),
		Port{Device: 3, DeviceName: "mlx5_0", Number: 2, State: PortActive, PhysState: PhysLinkUp, Caps: 6, SubnetPrefix: 0xfe80 << 48, LID: 8, SMLID: 9, LMC: 1,
			Ifindex: 7, Interface: "eth7"}},
	{"Chardev", of(parseChardev), message().
		addU64(abi.RDMA_NLDEV_ATTR_CHARDEV, 231<<8|192).addU64(abi.RDMA_NLDEV_ATTR_CHARDEV_ABI, 2).addText(abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs0").
		addU32(abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 14),
		Chardev{Name: "uverbs0", Number: 231<<8 | 192, ABIVersion: 2, DriverID: abi.RDMA_DRIVER_RXE}},
	{"System", always(parseSystem), message().addU8(abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0).addU8(abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1).
		addU8(abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, 1).addU8(abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, 1),
		System{CopyOnFork: true, PrivilegedQKey: true, Monitor: true}},
	{"old System", always(parseSystem), message(), System{SharedNetNS: true}},
	{"Summary", of(parseSummary), message().addU32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 1).addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, "rxe0").
		addNested(abi.RDMA_NLDEV_ATTR_RES_SUMMARY, message().
			addNested(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, message().addText(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, "qp").
				addU64(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, 3).addU64(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX, 9).unknown()).
			addNested(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, message().addText(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, "cq").
				addU64(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, 1<<33))),
		Summary{Device: 1, DeviceName: "rxe0", Kinds: []Count{{Kind: "qp", N: 3, Max: 9}, {Kind: "cq", N: 1 << 33}}}},
	{"QP", of(parseQP), message().addU32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17).addU32(abi.RDMA_NLDEV_ATTR_RES_PDN, 4).
		addU32(abi.RDMA_NLDEV_ATTR_RES_PID, 42).addU32(abi.RDMA_NLDEV_ATTR_RES_RQPN, 18).addU32(abi.RDMA_NLDEV_ATTR_RES_RQ_PSN, 19).
		addU32(abi.RDMA_NLDEV_ATTR_RES_SQ_PSN, 20).addU8(abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, 2).addU8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 2).
		addU8(abi.RDMA_NLDEV_ATTR_RES_STATE, 3).addText(abi.RDMA_NLDEV_ATTR_RES_SUBTYPE, "DCI").unknown().addNested(abi.RDMA_NLDEV_ATTR_DRIVER, driverTable),
		QP{Number: 17, Port: 1, Type: QPRC, Subtype: "DCI", State: QPRTS, RemoteNumber: 18, RecvPSN: 19, SendPSN: 20, MigState: MigArmed, PD: 4,
			Owner: Owner{PID: 42}, Driver: driverValues}},
	{"CMID", of(parseCMID), message().addU32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17).addU8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 2).
		addU32(abi.RDMA_NLDEV_ATTR_RES_PS, abi.RDMA_PS_TCP).addU8(abi.RDMA_NLDEV_ATTR_RES_STATE, 5).unknown().
		add(abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR, sockaddrIn("10.0.0.1", 7471)).add(abi.RDMA_NLDEV_ATTR_RES_DST_ADDR, sockaddrIn("10.0.0.2", 4000)).
		addU32(abi.RDMA_NLDEV_ATTR_RES_CM_IDN, 12).addText(abi.RDMA_NLDEV_ATTR_RES_KERN_NAME, "nvme_rdma"),
		CMID{Number: 12, Port: 1, QP: 17, QPType: QPRC, PortSpace: PortSpaceTCP, State: CMConnect, Local: netip.MustParseAddrPort("10.0.0.1:7471"),
			Remote: netip.MustParseAddrPort("10.0.0.2:4000"), Owner: Owner{Kernel: "nvme_rdma"}}},
	{"CQ", of(parseCQ), message().addU32(abi.RDMA_NLDEV_ATTR_RES_CQE, 255).addU64(abi.RDMA_NLDEV_ATTR_RES_USECNT, 2).addU8(abi.RDMA_NLDEV_ATTR_RES_POLL_CTX, 3).
		addU8(abi.RDMA_NLDEV_ATTR_DEV_DIM, 1).addU32(abi.RDMA_NLDEV_ATTR_RES_CQN, 8).addU32(abi.RDMA_NLDEV_ATTR_RES_CTXN, 5).addU32(abi.RDMA_NLDEV_ATTR_RES_PID, 42),
		CQ{Number: 8, Entries: 255, Users: 2, PollContext: PollUnboundWorkqueue, AdaptiveModeration: true, Context: 5, Owner: Owner{PID: 42}}},
	{"MR", of(parseMR), message().addU32(abi.RDMA_NLDEV_ATTR_RES_RKEY, 1).addU32(abi.RDMA_NLDEV_ATTR_RES_LKEY, 2).addU64(abi.RDMA_NLDEV_ATTR_RES_IOVA, 3).
		addU64(abi.RDMA_NLDEV_ATTR_RES_MRLEN, 4).addU32(abi.RDMA_NLDEV_ATTR_RES_MRN, 5).addU32(abi.RDMA_NLDEV_ATTR_RES_PDN, 6),
		MR{Number: 5, RKey: 1, LKey: 2, IOVA: 3, Length: 4, PD: 6}},
	{"PD", of(parsePD), message().addU32(abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, 1).addU32(abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY, 2).
		addU64(abi.RDMA_NLDEV_ATTR_RES_USECNT, 3).addU32(abi.RDMA_NLDEV_ATTR_RES_PDN, 4).addU32(abi.RDMA_NLDEV_ATTR_RES_CTXN, 5),
		PD{Number: 4, Users: 3, LocalDMALKey: 1, UnsafeGlobalRKey: 2, Context: 5}},
	{"Context", of(parseContext), message().addU32(abi.RDMA_NLDEV_ATTR_RES_CTXN, 5).addU32(abi.RDMA_NLDEV_ATTR_RES_PID, 42), Context{Number: 5, Owner: Owner{PID: 42}}},
	{"SRQ", of(parseSRQ), message().addU32(abi.RDMA_NLDEV_ATTR_RES_SRQN, 1).addU8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 1).addU32(abi.RDMA_NLDEV_ATTR_RES_PDN, 2).
		addU32(abi.RDMA_NLDEV_ATTR_RES_CQN, 3).addNested(abi.RDMA_NLDEV_ATTR_RES_QP, message().
		addNested(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, message().addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17)).
		addNested(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, message().addU32(abi.RDMA_NLDEV_ATTR_MIN_RANGE, 20).addU32(abi.RDMA_NLDEV_ATTR_MAX_RANGE, 24)).
		addNested(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, message().addU32(abi.RDMA_NLDEV_ATTR_MIN_RANGE, 30).addU32(abi.RDMA_NLDEV_ATTR_MAX_RANGE, 29))),
		SRQ{Number: 1, Type: SRQXRC, PD: 2, CQ: 3, QPs: []QPRange{{17, 17}, {20, 24}}}},
	{"Counter", of(parseCounter), message().addU32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).addU32(abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, 4).
		addU32(abi.RDMA_NLDEV_ATTR_STAT_MODE, 1).addU8(abi.RDMA_NLDEV_ATTR_RES_TYPE, 2).addU32(abi.RDMA_NLDEV_ATTR_RES_PID, 42).
		addNested(abi.RDMA_NLDEV_ATTR_RES_QP, message().addNested(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, message().addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 17))).
		addNested(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, counters("out_of_buffer", 3, "out_of_sequence", 0)),
		Counter{Number: 4, Port: 1, Mode: CounterAuto, QPType: QPRC, Owner: Owner{PID: 42}, QPs: []uint32{17}, Values: []HWCounter{{"out_of_buffer", 3}, {"out_of_sequence", 0}}}},
	{"MRCounters", of(parseMRCounters), message().addU32(abi.RDMA_NLDEV_ATTR_RES_MRN, 5).addNested(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, counters("page_faults", 2)),
		MRCounters{MR: 5, Values: []HWCounter{{"page_faults", 2}}}},
	{"HWCounterStatus", always(parseStatus), message().addNested(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, message().
		addNested(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, message().addText(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "sent").
			addU32(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, 0)).
		addNested(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, message().addText(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, "cnp").
			addU32(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, 1).addU8(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, 0))),
		[]HWCounterStatus{{Name: "sent", Enabled: true}, {Name: "cnp", Index: 1, Optional: true}}},
	{"CounterSettings", always(parseSettings), message().addU32(abi.RDMA_NLDEV_ATTR_STAT_MODE, 1).addU32(abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, 3).
		addU8(abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, 1), CounterSettings{Mode: CounterAuto, Mask: CounterByQPType | CounterByPID, Optional: true}},
	{"Event", of(parseEvent), message().addU8(abi.RDMA_NLDEV_ATTR_EVENT_TYPE, 2).addU32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 3).addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, "rxe0").
		addU32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, 1).addU32(abi.RDMA_NLDEV_ATTR_NDEV_INDEX, 7).addText(abi.RDMA_NLDEV_ATTR_NDEV_NAME, "eth7"),
		Event{Type: EventNetDevAttach, Device: 3, DeviceName: "rxe0", Port: 1, Ifindex: 7, Interface: "eth7"}},
}

// TestParse compares each parsed struct with the attributes of its message. Each field is checked,
// because the structs have no zero field where the message has an attribute.
func TestParse(t *testing.T) {
	for _, p := range parsers {
		got, ok := p.parse(p.message.body)
		if !ok {
			t.Errorf("parse%s(message) = _, false, want true", p.name)
		}
		if diff := cmp.Diff(p.want, got, cmpopts.IgnoreTypes(Attributes{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("parse%s(message) differs (-want +got):\n%s", p.name, diff)
		}
		// A message that ends early, at any byte, must not cause a panic.
		for n := range p.message.body {
			p.parse(p.message.body[:n])
		}
	}
}

// TestNoObject checks that a message without the number or the name of its object is no object.
func TestNoObject(t *testing.T) {
	for _, p := range parsers {
		switch p.want.(type) {
		case System, []HWCounterStatus, CounterSettings:
			continue
		}
		if got, ok := p.parse(message().unknown().body); ok {
			t.Errorf("parse%s(unknown attribute) = %+v, true, want false", p.name, got)
		}
	}
}

func TestAttributes(t *testing.T) {
	q, _ := parseQP(message().addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, 0).addU32(abi.RDMA_NLDEV_ATTR_RES_RQPN, 0).add(255, nil).add(256, nil).body)
	for attr, want := range map[int]bool{abi.RDMA_NLDEV_ATTR_RES_LQPN: true, abi.RDMA_NLDEV_ATTR_RES_RQPN: true, abi.RDMA_NLDEV_ATTR_RES_PDN: false, 255: true, 256: false, -1: false} {
		if got := q.Has(attr); got != want {
			t.Errorf("Has(%d) = %v, want %v", attr, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, tc := range []struct {
		v    value
		want uint64
	}{
		{value{5}, 5}, {binary.NativeEndian.AppendUint16(nil, 500), 500}, {binary.NativeEndian.AppendUint32(nil, 1<<30), 1 << 30},
		{binary.NativeEndian.AppendUint64(nil, 1<<60), 1 << 60}, {nil, 0}, {value{1, 2, 3}, 0},
	} {
		if got := tc.v.number(); got != tc.want {
			t.Errorf("value(%x).number() = %d, want %d", []byte(tc.v), got, tc.want)
		}
	}
}

func TestDriverValueString(t *testing.T) {
	want := []string{"sqid 7", "flags 0x10", "odp explicit", "delta -1"}
	for i, d := range driverValues {
		if got := d.String(); got != want[i] {
			t.Errorf("%+v.String() = %q, want %q", d, got, want[i])
		}
	}
}

// FuzzParse runs each parser on messages that no kernel sends. The number of parsed objects is bounded
// by the size of the message.
func FuzzParse(f *testing.F) {
	for _, p := range parsers {
		f.Add([]byte(p.message.body))
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		total := 0
		for _, val := range value(m).attributes() {
			total += attrHeader + len(val)
		}
		if total > len(m) {
			t.Errorf("attributes of %d bytes have %d bytes", len(m), total)
		}
		for _, p := range parsers {
			p.parse(m)
		}
		if n := len(parseDriver(m)); n*2*attrHeader > len(m) {
			t.Errorf("parseDriver(%d bytes) has %d values", len(m), n)
		}
		if n := len(parseHWCounters(m)); n*attrHeader > len(m) {
			t.Errorf("parseHWCounters(%d bytes) has %d counters", len(m), n)
		}
	})
}
