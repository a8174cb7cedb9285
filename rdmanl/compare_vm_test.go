// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rdmanl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"os/exec"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purerdma/abi"
	"purerdma/rdmanl"
)

// object is one object in the names and the notation of rdma(8).
type object map[string]string

// listing is one command of rdma(8), and its objects by this package.
type listing struct {
	args  string
	list  func(*rdmanl.Conn, []rdmanl.Device) ([]object, error)
	least int // number of objects in TestVMCompare
}

var listings = []listing{
	{"dev show", perDevice(listDevice), 2},
	{"link show", perDevice(listPorts), 2},
	{"resource show", listSummaries, 2},
	// Both ends of the connection, and ibv_rc_pingpong, have a QP, CQs and a PD.
	{"resource show qp", perDevice(listQPs), 3},
	{"resource show cm_id", perDevice(listCMIDs), 4}, // with two listeners
	{"resource show cq", perDevice(listCQs), 3},
	{"resource show mr", perDevice(listMRs), 2},
	{"resource show pd", perDevice(listPDs), 3},
	{"resource show ctx", perDevice(listContexts), 3},
	{"resource show srq", perDevice(listSRQs), 1},
	{"statistic show", perDevice(listHWCounters), 0},
	{"statistic qp mode", perDevice(listCounterSettings), 2},
	{"statistic qp show", perDevice(listCounters), 0},
	{"statistic mode supported", perDevice(listOptional), 0},
	{"system show", listSystem, 1},
}

// newerKeys are keys that older releases of rdma(8) do not print.
var newerKeys = []string{"monitor", "netdev_index", "parent", "privileged-qkey", "protocol", "subtype"}

// perDevice returns the objects of all devices.
func perDevice(list func(*rdmanl.Conn, rdmanl.Device) ([]object, error)) func(*rdmanl.Conn, []rdmanl.Device) ([]object, error) {
	return func(c *rdmanl.Conn, devices []rdmanl.Device) ([]object, error) {
		var all []object
		for _, d := range devices {
			objects, err := list(c, d)
			if err != nil {
				return nil, err
			}
			all = append(all, objects...)
		}
		return all, nil
	}
}

// head returns an object with the fields that each object of a device has.
func head(d rdmanl.Device) object {
	return object{"ifindex": fmt.Sprint(d.Index), "ifname": d.Name}
}

// set sets a field whose attribute the kernel sent.
func (o object) set(a rdmanl.Attributes, attr int, key string, value any) {
	if a.Has(attr) {
		o[key] = fmt.Sprint(value)
	}
}

func (o object) owner(a rdmanl.Attributes, owner rdmanl.Owner) {
	o.set(a, abi.RDMA_NLDEV_ATTR_RES_PID, "pid", owner.PID)
	if comm := owner.Comm(); comm != "" {
		o["comm"] = comm
	}
}

// driver sets the properties that only the driver defines. rdma(8) cuts each number to 32 bits in JSON, such as the address
// of a memory region of bnxt_re.
func (o object) driver(values []rdmanl.DriverValue) {
	for _, v := range values {
		key := "drv_" + v.Name
		if v.Kind == abi.RDMA_NLDEV_ATTR_DRIVER_STRING {
			o[key] = v.Text
		} else {
			o[key] = fmt.Sprint(int32(v.N))
		}
	}
}

func guid(n uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", n>>48, n>>32&0xffff, n>>16&0xffff, n&0xffff)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func listDevice(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	one, err := c.Device(d.Index)
	if err != nil {
		return nil, err
	}
	if diff := cmp.Diff(d, one); diff != "" {
		return nil, fmt.Errorf("Device(%d) differs from Devices(): %s", d.Index, diff)
	}
	o := head(d)
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE, "node_type", d.NodeType)
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL, "protocol", d.Protocol)
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_FW_VERSION, "fw", d.Firmware)
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_NODE_GUID, "node_guid", guid(d.NodeGUID))
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, "sys_image_guid", guid(d.SysImageGUID))
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_DEV_TYPE, "type", d.Type)
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_PARENT_NAME, "parent", d.Parent)
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_DEV_DIM, "adaptive-moderation", onOff(d.AdaptiveModeration))
	o.set(d.Attributes, abi.RDMA_NLDEV_ATTR_CAP_FLAGS, "caps", fmt.Sprint(bits.OnesCount64(d.Caps), " names"))
	return []object{o}, nil
}

func listPorts(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	ports, err := c.Ports(d.Index)
	var all []object
	for _, p := range ports {
		one, err := c.Port(d.Index, p.Number)
		if err != nil {
			return nil, err
		}
		if diff := cmp.Diff(p, one); diff != "" {
			return nil, fmt.Errorf("Port(%d, %d) differs from Ports(): %s", d.Index, p.Number, diff)
		}
		o := head(d)
		o["port"] = fmt.Sprint(p.Number)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX, "subnet_prefix", guid(p.SubnetPrefix))
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_LID, "lid", p.LID)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_SM_LID, "sm_lid", p.SMLID)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_LMC, "lmc", p.LMC)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_PORT_STATE, "state", p.State)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, "physical_state", p.PhysState)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_NDEV_NAME, "netdev", p.Interface)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_NDEV_INDEX, "netdev_index", p.Ifindex)
		o.set(p.Attributes, abi.RDMA_NLDEV_ATTR_CAP_FLAGS, "caps", fmt.Sprint(bits.OnesCount64(p.Caps), " names"))
		all = append(all, o)
	}
	return all, err
}

func listSummaries(c *rdmanl.Conn, _ []rdmanl.Device) ([]object, error) {
	summaries, err := c.Summaries()
	var all []object
	for _, s := range summaries {
		o := object{"ifindex": fmt.Sprint(s.Device), "ifname": s.DeviceName}
		for _, k := range s.Kinds {
			o[k.Kind] = fmt.Sprint(k.N)
		}
		all = append(all, o)
	}
	return all, err
}

func listQPs(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	qps, err := c.QPs(d.Index)
	var all []object
	for _, q := range qps {
		o := head(d)
		a := q.Attributes
		o.set(a, abi.RDMA_NLDEV_ATTR_PORT_INDEX, "port", q.Port)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_LQPN, "lqpn", q.Number)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_RQPN, "rqpn", q.RemoteNumber)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_TYPE, "type", q.Type)
		if q.Type == rdmanl.QPDriver {
			o.set(a, abi.RDMA_NLDEV_ATTR_RES_SUBTYPE, "subtype", q.Subtype)
		}
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_STATE, "state", q.State)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_RQ_PSN, "rq-psn", q.RecvPSN)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_SQ_PSN, "sq-psn", q.SendPSN)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, "path-mig-state", q.MigState)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_PDN, "pdn", q.PD)
		o.owner(a, q.Owner)
		o.driver(q.Driver)
		all = append(all, o)
	}
	return all, err
}

func listCMIDs(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	ids, err := c.CMIDs(d.Index)
	var all []object
	for _, id := range ids {
		o := head(d)
		a := id.Attributes
		o.set(a, abi.RDMA_NLDEV_ATTR_PORT_INDEX, "port", id.Port)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_CM_IDN, "cm-idn", id.Number)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_LQPN, "lqpn", id.QP)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_TYPE, "qp-type", id.QPType)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_STATE, "state", id.State)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_PS, "ps", id.PortSpace)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR, "src-addr", address(id.Local))
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_DST_ADDR, "dst-addr", address(id.Remote))
		o.owner(a, id.Owner)
		o.driver(id.Driver)
		all = append(all, o)
	}
	return all, err
}

// address formats an address like rdma(8), without brackets and zone.
func address(a netip.AddrPort) string {
	return fmt.Sprintf("%v:%d", a.Addr().WithZone(""), a.Port())
}

func listCQs(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	cqs, err := c.CQs(d.Index)
	var all []object
	for _, q := range cqs {
		o := head(d)
		a := q.Attributes
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_CQN, "cqn", q.Number)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_CQE, "cqe", q.Entries)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_USECNT, "users", q.Users)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_POLL_CTX, "poll-ctx", q.PollContext)
		o.set(a, abi.RDMA_NLDEV_ATTR_DEV_DIM, "adaptive-moderation", onOff(q.AdaptiveModeration))
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_CTXN, "ctxn", q.Context)
		o.owner(a, q.Owner)
		o.driver(q.Driver)
		all = append(all, o)
	}
	return all, err
}

func listMRs(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	mrs, err := c.MRs(d.Index)
	var all []object
	for _, m := range mrs {
		o := head(d)
		a := m.Attributes
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_MRN, "mrn", m.Number)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_RKEY, "rkey", m.RKey)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_LKEY, "lkey", m.LKey)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_IOVA, "iova", m.IOVA)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_MRLEN, "mrlen", m.Length)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_PDN, "pdn", m.PD)
		o.owner(a, m.Owner)
		o.driver(m.Driver)
		all = append(all, o)
	}
	return all, err
}

func listPDs(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	pds, err := c.PDs(d.Index)
	var all []object
	for _, p := range pds {
		o := head(d)
		a := p.Attributes
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_PDN, "pdn", p.Number)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, "local_dma_lkey", p.LocalDMALKey)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_USECNT, "users", p.Users)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY, "unsafe_global_rkey", p.UnsafeGlobalRKey)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_CTXN, "ctxn", p.Context)
		o.owner(a, p.Owner)
		o.driver(p.Driver)
		all = append(all, o)
	}
	return all, err
}

func listContexts(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	contexts, err := c.Contexts(d.Index)
	var all []object
	for _, x := range contexts {
		o := head(d)
		o.set(x.Attributes, abi.RDMA_NLDEV_ATTR_RES_CTXN, "ctxn", x.Number)
		o.owner(x.Attributes, x.Owner)
		o.driver(x.Driver)
		all = append(all, o)
	}
	return all, err
}

func listSRQs(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	srqs, err := c.SRQs(d.Index)
	var all []object
	for _, s := range srqs {
		o := head(d)
		a := s.Attributes
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_SRQN, "srqn", s.Number)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_TYPE, "type", s.Type)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_PDN, "pdn", s.PD)
		o.set(a, abi.RDMA_NLDEV_ATTR_RES_CQN, "cqn", s.CQ)
		var qps []string
		for _, r := range s.QPs {
			if r.First == r.Last {
				qps = append(qps, fmt.Sprint(r.First))
			} else {
				qps = append(qps, fmt.Sprintf("%d-%d", r.First, r.Last))
			}
		}
		if len(qps) > 0 {
			o["lqpn"] = strings.Join(qps, ",")
		}
		o.owner(a, s.Owner)
		o.driver(s.Driver)
		all = append(all, o)
	}
	return all, err
}

// perPort returns an object for each port. An object of nil is left out.
func perPort(d rdmanl.Device, list func(o object, port uint32) ([]object, error)) ([]object, error) {
	var all []object
	for port := uint32(1); port <= d.Ports; port++ {
		o := head(d)
		o["port"] = fmt.Sprint(port)
		objects, err := list(o, port)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

func listHWCounters(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	return perPort(d, func(o object, port uint32) ([]object, error) {
		values, err := c.HWCounters(d.Index, port)
		if errors.Is(err, syscall.EINVAL) {
			return nil, nil // the driver has no counters
		}
		delete(o, "ifindex")
		o.values(values)
		return []object{o}, err
	})
}

func (o object) values(values []rdmanl.HWCounter) {
	for _, v := range values {
		o[v.Name] = fmt.Sprint(v.Value)
	}
}

func listCounterSettings(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	return perPort(d, func(o object, port uint32) ([]object, error) {
		s, err := c.CounterSettings(d.Index, port)
		o["mode"] = "qp auto off"
		if s.Mode == rdmanl.CounterAuto {
			var by []string
			if s.Mask&rdmanl.CounterByQPType != 0 {
				by = append(by, "type")
			}
			if s.Mask&rdmanl.CounterByPID != 0 {
				by = append(by, "pid")
			}
			o["mode"] = "qp auto " + strings.Join(by, ",") + " on"
		}
		return []object{o}, err
	})
}

func listCounters(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	return perPort(d, func(_ object, port uint32) ([]object, error) {
		counters, err := c.Counters(d.Index, port)
		var all []object
		for _, n := range counters {
			o := head(d)
			o.set(n.Attributes, abi.RDMA_NLDEV_ATTR_PORT_INDEX, "port", n.Port)
			o.set(n.Attributes, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, "cntn", n.Number)
			o.set(n.Attributes, abi.RDMA_NLDEV_ATTR_RES_TYPE, "qp-type", n.QPType)
			o.owner(n.Attributes, n.Owner)
			o.values(n.Values)
			var qps []string
			for _, q := range n.QPs {
				qps = append(qps, fmt.Sprint(q))
			}
			o["lqpn"] = strings.Join(qps, ",")
			all = append(all, o)
		}
		return all, err
	})
}

func listOptional(c *rdmanl.Conn, d rdmanl.Device) ([]object, error) {
	return perPort(d, func(o object, port uint32) ([]object, error) {
		list, err := c.HWCounterStatus(d.Index, port)
		if errors.Is(err, syscall.EINVAL) {
			return nil, nil // the driver has no counters
		}
		var names []string
		for _, s := range list {
			if s.Optional {
				names = append(names, s.Name)
			}
		}
		if len(names) == 0 {
			return nil, err
		}
		delete(o, "ifindex")
		o["supported optional-counters"] = strings.Join(names, ",")
		return []object{o}, err
	})
}

func listSystem(c *rdmanl.Conn, _ []rdmanl.Device) ([]object, error) {
	s, err := c.System()
	o := object{"netns": "exclusive", "copy-on-fork": onOff(s.CopyOnFork), "privileged-qkey": onOff(s.PrivilegedQKey), "monitor": onOff(s.Monitor)}
	if s.SharedNetNS {
		o["netns"] = "shared"
	}
	return []object{o}, err
}

// rdma runs rdma(8) and returns its objects. It fails for a driver without counters.
func rdma(t *testing.T, l listing) []object {
	t.Helper()
	var stdout, stderr bytes.Buffer
	details := "-d"
	if strings.HasPrefix(l.args, "resource show ") {
		details = "-dd" // also prints what only the driver defines
	}
	cmd := exec.Command("rdma", append([]string{"-j", details}, strings.Fields(l.args)...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !strings.HasPrefix(l.args, "statistic") {
		t.Fatalf("rdma -j %s %s: %v: %s", details, l.args, err, stderr.String())
	}
	if l.args == "system show" { // not JSON in all releases: "netns shared copy-on-fork on"
		words := strings.Fields(stdout.String())
		if len(words) == 0 || len(words)%2 != 0 {
			t.Fatalf("rdma -j -d %s printed %q, want names and values", l.args, stdout.String())
		}
		o := object{}
		for pair := range slices.Chunk(words, 2) {
			o[pair[0]] = pair[1]
		}
		return []object{o}
	}
	objects, err := parseRDMA(stdout.Bytes())
	if err != nil {
		t.Fatalf("rdma -j %s %s: %v in its output %s; %s", details, l.args, err, stdout.String(), stderr.String())
	}
	return objects
}

// hexKeys are numbers that rdma(8) prints as hexadecimal strings.
var hexKeys = []string{"rkey", "lkey", "iova", "local_dma_lkey", "unsafe_global_rkey"}

// parseRDMA decodes the arrays of objects in an output. Some releases print a single object without an
// array.
func parseRDMA(out []byte) ([]object, error) {
	var all []object
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	for dec.More() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		if raw[0] != '[' {
			raw = slices.Concat([]byte("["), raw, []byte("]"))
		}
		var list []map[string]any
		inner := json.NewDecoder(bytes.NewReader(raw))
		inner.UseNumber()
		if err := inner.Decode(&list); err != nil {
			return nil, err
		}
		for _, fields := range list {
			o := object{}
			for key, v := range fields {
				text, err := notation(key, v)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", key, err)
				}
				o[key] = text
			}
			if len(o) > 0 {
				all = append(all, o)
			}
		}
	}
	return all, nil
}

// notation converts a value of JSON.
func notation(key string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		if slices.Contains(hexKeys, key) {
			n, err := strconv.ParseUint(strings.TrimPrefix(v, "0x"), 16, 64)
			return fmt.Sprint(n), err
		}
		if key == "comm" {
			return strings.Trim(v, "[]"), nil
		}
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return onOff(v), nil
	case []any:
		if key == "caps" {
			return fmt.Sprint(len(v), " names"), nil
		}
		var list []string
		for _, e := range v {
			list = append(list, fmt.Sprint(e))
		}
		return strings.Join(list, ","), nil
	}
	return "", fmt.Errorf("unexpected value %v", v)
}

// difference compares lists of objects in any order.
func difference(a, b []object) string { return cmp.Diff(sorted(a), sorted(b)) }

// sorted sorts by the numbers that identify an object.
func sorted(list []object) []object {
	key := func(o object) string {
		k := o["ifname"] + " " + o["port"]
		for _, name := range []string{"lqpn", "cm-idn", "cqn", "mrn", "pdn", "ctxn", "srqn", "cntn"} {
			k += fmt.Sprintf(" %10s", o[name])
		}
		return k
	}
	list = slices.Clone(list)
	sort.SliceStable(list, func(i, j int) bool { return key(list[i]) < key(list[j]) })
	return list
}

// checkSame compares the objects with rdma's. Keys that the release of rdma does not know are left out.
func checkSame(t *testing.T, l listing, ours, theirs []object) {
	t.Helper()
	known := map[string]bool{}
	for _, o := range theirs {
		for key := range o {
			known[key] = true
		}
	}
	if l.args == "resource show qp" && !detailedRDMA(t) {
		ours = slices.DeleteFunc(slices.Clone(ours), isDriverQP)
	}
	for _, o := range ours {
		maps.DeleteFunc(o, func(key, _ string) bool { return !known[key] && slices.Contains(newerKeys, key) })
	}
	if diff := cmp.Diff(sorted(theirs), sorted(ours)); diff != "" {
		t.Errorf("objects of %q differ (-rdma +ours):\n%s", l.args, diff)
	}
}

func fields(list []object) int {
	n := 0
	for _, o := range list {
		n += len(o)
	}
	return n
}
