// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/erdma"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
	"purerdma/uverbs"
)

// replayer has the provider repeat the calls of one recorded session.
type replayer struct {
	*testing.T
	file    string
	head    *vector.Record
	batch   bool
	reports int

	k    *replay.Kernel
	rec  *vector.Record // being replayed
	ctx  provider.Context
	data *mem.Region // represents the vectors' data
	pd   provider.PD
	cqs  map[string]*cq
	qps  map[string]*qp
	all  []interface{ Close() error } // in the order of creation
}

// cq holds a CQ's state in the device.
type cq struct {
	p      provider.CQ
	ring   []byte
	record []byte
	pi     uint32 // completions ever added
}

type qp struct {
	p                      provider.QP
	sq, rq                 []byte
	sendRecord, recvRecord []byte
	cq                     *cq // of sends
}

// session replays a session.
func (r *replayer) session(s *vector.Session) {
	r.k = replay.NewKernel(s, abi.RDMA_DRIVER_ERDMA, "erdma_0", abi.ERDMA_ABI_VERSION)
	r.k.Answer = r.command
	r.cqs, r.qps = map[string]*cq{}, map[string]*qp{}
	r.rec = s.Records[0]
	var err error
	r.data, err = mem.Alloc(vector.DataLen)
	r.must(err)
	defer r.data.Free()
	f, err := uverbs.Open(r.k, r.k.Device())
	r.must(err)
	r.ctx, err = erdma.Driver{}.Open(f)
	r.must(err)
	for _, r.rec = range s.Records[1:] {
		if r.replay(); r.reports > maxReports {
			r.Fatalf("%d differences up to line %d, so the rest is not replayed", r.reports, r.rec.Line)
		}
	}
	for i := len(r.all) - 1; i >= 0; i-- {
		r.must(r.all[i].Close())
	}
	r.must(errors.Join(f.Close(), r.ctx.(*erdma.Context).Close()))
}

func (r *replayer) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s:%d: %v", r.file, r.rec.Line, err)
	}
}

// opened keeps an object until the end of the session.
func (r *replayer) opened(c interface{ Close() error }) { r.all = append(r.all, c) }

func (r *replayer) replay() {
	rec := r.rec
	switch rec.Type {
	case "pd":
		var err error
		r.pd, err = r.ctx.AllocPD()
		r.must(err)
		r.opened(r.pd)
	case "mr":
		m, err := r.ctx.RegMR(&provider.MRConfig{PD: r.pd, Mem: r.data.Bytes(), IOVA: rec.Addr, Access: provider.Access(rec.Access)})
		r.must(err)
		if m.LKey() != rec.LKey || m.RKey() != rec.RKey {
			r.differ("keys %#x, %#x", m.LKey(), m.RKey())
		}
		r.opened(m)
	case "cq":
		p, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: rec.CQE})
		r.must(err)
		r.opened(p)
		if p.Entries() != rec.Got {
			r.differ("%d entries, want %d", p.Entries(), rec.Got)
		}
		in := driverInput[abi.ErdmaUreqCreateCQ](r, replay.CreateCQ)
		r.cqs[rec.ID] = &cq{p: p, ring: in.QbufVA.Slice(p.Entries() * 32), record: in.DBRecordVA.Slice(8)}
	case "qp":
		r.createQP()
	case "modify":
		// On iWARP the connection manager moves QPs. The fake kernel takes any move.
		attr, mask := provider.QPAttr{State: replay.States[rec.State]}, provider.QPAttrMask(rec.Mask)
		if mask&provider.QPAttrPort != 0 {
			attr.Port = 1
		}
		r.must(r.qps[rec.QP].p.Modify(&attr, mask))
	case "send":
		r.send()
	case "recv":
		r.recv()
	case "poll":
		r.poll()
	case "many":
		r.many()
	case "event":
		r.cqs[rec.CQ].p.(provider.EventCounter).Event()
	case "arm":
		c := r.cqs[rec.CQ]
		r.poisonPages()
		r.must(c.p.Arm(rec.Solicited != 0))
		r.sameRecord(c.record)
		r.sameStores(rec.UAR)
	default:
		r.Fatalf("%s:%d: unknown record %q", r.file, rec.Line, rec.Type)
	}
}

func (r *replayer) createQP() {
	rec := r.rec
	q := &qp{cq: r.cqs[rec.SCQ]}
	var err error
	q.p, err = r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: q.cq.p, RecvCQ: r.cqs[rec.RCQ].p, Cap: replay.Cap(rec.Cap), SignalAll: rec.SigAll != 0})
	r.must(err)
	r.opened(q.p)
	r.qps[rec.ID] = q
	if q.p.Num() != rec.QPN {
		r.differ("number %#x, want %#x", q.p.Num(), rec.QPN)
	}
	in := driverInput[abi.ErdmaUreqCreateQP](r, replay.CreateQP)
	blocks, slots := 4*q.p.Cap().SendWR, q.p.Cap().RecvWR
	buf := in.QbufVA.Slice(int(in.QbufLen))
	q.sq, q.rq = buf[:blocks*32], buf[(blocks*32+4095)&^4095:][:slots*32]
	records := in.DBRecordVA.Slice(16)
	q.sendRecord, q.recvRecord = records[:8], records[8:]
	if got, asked := q.p.Cap(), replay.Cap(rec.GotCap); got.SendWR < asked.SendWR || got.RecvWR < asked.RecvWR || got.SendSGE < asked.SendSGE || got.RecvSGE < asked.RecvSGE || got.Inline < asked.Inline {
		r.differ("capacities %+v, want at least %+v", got, asked)
	}
}

// command compares the input of a command.
func (r *replayer) command(c *replay.Call) {
	switch c.Write {
	case abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		// liberdma does not query the device when it is opened.
		a := abi.UverbsExQueryDeviceResp{ResponseLength: uint32(abi.Size[abi.UverbsExQueryDeviceResp]()), Base: abi.UverbsQueryDeviceResp{AtomicCap: 1}}
		c.Oracle = &vector.Call{Out: map[string]vector.Hex{"1": abi.Bytes(&a)}}
		return
	}
	if c.Oracle == nil {
		return
	}
	for id, want := range c.Oracle.In {
		var attr uint16
		r.must(json.Unmarshal([]byte(id), &attr))
		got := c.Attrs[attr]
		if c.Object == abi.UVERBS_OBJECT_DEVICE && attr == abi.UVERBS_ATTR_CORE_IN {
			want, got = want[8:], got[8:] // skip the address of the response, which is an attribute
		}
		if known[c.Command][attr] || sameInput(want, got) {
			continue
		}
		r.differ("command %+v, attribute %s: %s", c.Command, id, replay.Diff(want, got))
	}
}

// known lists the inputs of commands that differ from liberdma's inputs. They are the handles
// and files of events, the address of memory, and the completion channel, which the test does not have.
var known = map[replay.Command]map[uint16]bool{
	replay.CreateCQ: {
		abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE: true, abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD: true, abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL: true,
	},
	replay.CreateQP: {abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE: true, abi.UVERBS_ATTR_CREATE_QP_EVENT_FD: true},
	replay.RegMR:    {abi.UVERBS_ATTR_CORE_IN: true},
}

// address replaces an address in the vectors.
const address = 0xadd7e55000000000

// sameInput compares inputs. An address in the provider's input may differ from the oracle's address. A
// shorter input is extended with zeros.
func sameInput(want, got []byte) bool {
	n := (max(len(want), len(got)) + 7) &^ 7
	want, got = append(bytes.Clone(want), make([]byte, n-len(want))...), append(bytes.Clone(got), make([]byte, n-len(got))...)
	for i := 0; i < n; i += 8 {
		w, g := binary.NativeEndian.Uint64(want[i:]), binary.NativeEndian.Uint64(got[i:])
		if w != g && (w != address || g == 0 || g%8 != 0) {
			return false
		}
	}
	return true
}

// driverInput returns the driver's input of the last command of a kind.
func driverInput[T any](r *replayer, c replay.Command) *T {
	in := r.k.Last(c).Attrs[abi.UVERBS_ATTR_UHW_IN]
	full := make([]byte, max(len(in), abi.Size[T]()))
	copy(full, in)
	return abi.View[T](full)
}
