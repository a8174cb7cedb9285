// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/mlx5"
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
	env     map[string]string
	reports int

	k       *replay.Kernel
	ctx     *mlx5.Context
	current *vector.Record  // being replayed
	srqOf   map[string]*srq // by QP
	data    *mem.Region     // represents the vectors' data
	pds     map[string]provider.PD
	mws     map[uint32]provider.MWType // by key
	xrcd    map[string]provider.XRCD
	cqs     map[string]*cq
	srqs    map[string]*srq
	qps     map[string]*qp
	ahs     map[string]holder
	all     []interface{ Close() error } // in the order of creation
}

// cq holds a CQ's state in the device.
type cq struct {
	p       *mlx5.CQ
	ex      bool
	wcFlags uint64
	ring    []byte
	size    int    // of an entry
	db      []byte // doorbell record
	pi      uint32 // completions ever added
}

type qp struct {
	p      provider.QP
	uidx   uint32
	sq, rq []byte
	rqSlot int
	db     []byte
	cq     *cq // of sends
}

type srq struct {
	p      provider.SRQ
	uidx   uint32
	ring   []byte
	stride int
	db     []byte
	next   uint16            // slot that is posted next
	posted map[uint16]bool   // purerdma's slots that are not completed
	ours   map[uint16]uint16 // purerdma's slots by the oracle's slots
}

type holder struct{ ah provider.AH }

func (h holder) ProviderAH() provider.AH { return h.ah }

// session replays a session.
func (r *replayer) session(s *vector.Session) {
	r.env = s.Records[0].Env
	r.k = replay.NewKernel(s, abi.RDMA_DRIVER_MLX5, "mlx5_0", abi.MLX5_IB_UVERBS_ABI_VERSION)
	r.k.Answer = r.compareCommand
	r.pds, r.mws, r.xrcd = map[string]provider.PD{}, map[uint32]provider.MWType{}, map[string]provider.XRCD{}
	r.srqOf = map[string]*srq{}
	r.cqs, r.srqs, r.qps, r.ahs = map[string]*cq{}, map[string]*srq{}, map[string]*qp{}, map[string]holder{}
	var err error
	if r.data, err = mem.Alloc(vector.DataLen); err != nil {
		r.Fatalf("mem.Alloc(vector.DataLen): %v", err)
	}
	defer r.data.Free()
	f, err := uverbs.Open(r.k, r.k.Device())
	if err != nil {
		r.Fatalf("uverbs.Open: %v", err)
	}
	ctx, err := mlx5.Driver{}.Open(f)
	if err != nil {
		r.Fatalf("Driver.Open: %v", err)
	}
	r.ctx = ctx.(*mlx5.Context)
	for _, rec := range s.Records[1:] {
		r.current = rec
		r.replay(rec)
		if r.Failed() && r.reports > 10*maxReports {
			r.Fatalf("%d differences up to line %d, so the rest is not replayed", r.reports, rec.Line)
		}
	}
	r.current = nil
	for i := len(r.all) - 1; i >= 0; i-- {
		if err := r.all[i].Close(); err != nil {
			r.Errorf("Close of a %T: %v", r.all[i], err)
		}
	}
	if err := errors.Join(f.Close(), r.ctx.Close()); err != nil {
		r.Errorf("File.Close and Context.Close: %v", err)
	}
}

// opened keeps an object until the end of the session.
func (r *replayer) opened(c interface{ Close() error }) { r.all = append(r.all, c) }

func (r *replayer) replay(rec *vector.Record) {
	switch rec.Type {
	case "pd":
		p, err := r.ctx.AllocPD()
		r.must(err)
		r.pds[rec.ID] = p
		r.opened(p)
	case "mr":
		m, err := r.ctx.RegMR(&provider.MRConfig{PD: r.pds["pd0"], Mem: r.data.Bytes(), IOVA: rec.Addr, Access: provider.Access(rec.Access)})
		r.must(err)
		if m.LKey() != rec.LKey || m.RKey() != rec.RKey {
			r.differ(rec, "keys %#x, %#x", m.LKey(), m.RKey())
		}
		r.opened(m)
	case "mw":
		var typ provider.MWType
		r.must(json.Unmarshal(rec.Kind, &typ))
		m, err := r.ctx.AllocMW(r.pds["pd0"], typ)
		r.must(err)
		r.mws[m.RKey()] = typ
		r.opened(m)
	case "xrcd":
		x, err := r.ctx.OpenXRCD(-1, 0o100)
		r.must(err)
		r.xrcd[rec.ID] = x
		r.opened(x)
	case "ah":
		r.createAH(rec)
	case "cq":
		r.createCQ(rec)
	case "resize":
		r.resize(rec)
	case "srq":
		r.createSRQ(rec)
	case "qp":
		r.createQP(rec)
	case "modify":
		attr, mask := provider.QPAttr{State: replay.States[rec.State]}, provider.QPAttrMask(rec.Mask)
		if mask&provider.QPAttrPort != 0 {
			attr.Port = 1
		}
		if mask&provider.QPAttrQKey != 0 {
			attr.QKey = 0x11111111
		}
		if err := r.qps[rec.QP].p.Modify(&attr, mask); (err == nil) != (rec.RC == 0) {
			r.differ(rec, "%v, want errno %d", err, rec.RC)
		}
	case "set_ece":
		err := r.qps[rec.QP].p.(provider.ECEQP).SetECE(provider.ECE{VendorID: rec.Vendor, Options: rec.Options})
		if rec.RC == 0 && err != nil || rec.RC != 0 && !errors.Is(err, syscall.Errno(rec.RC)) {
			r.differ(rec, "%v, want errno %d", err, rec.RC)
		}
	case "query_ece":
		e, err := r.qps[rec.QP].p.(provider.ECEQP).QueryECE()
		r.must(err)
		if want := (provider.ECE{VendorID: rec.Vendor, Options: rec.Options}); e != want {
			r.differ(rec, "ECE %+v, want %+v", e, want)
		}
	case "dct":
		if n := r.qps[rec.QP].p.Num(); n != rec.QPN {
			r.differ(rec, "number %#x, want %#x", n, rec.QPN)
		}
	case "send":
		r.send(rec)
	case "bind":
		r.bind(rec)
	case "recv":
		if s := r.srqs[rec.On]; s != nil {
			r.srqRecv(rec, s)
		} else {
			r.recv(rec, r.qps[rec.On])
		}
	case "reposted":
		r.reposted(rec)
	case "poll":
		r.poll(rec)
	case "many":
		if s := r.srqs[rec.On]; s != nil {
			r.manyReceives(rec, s)
		} else {
			r.many(rec)
		}
	case "arm":
		r.arm(rec)
	default:
		r.Fatalf("%s:%d: unknown record %q", r.file, rec.Line, rec.Type)
	}
}

func (r *replayer) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s:%d: %v", r.file, r.current.Line, err)
	}
}

// refused reports whether an object could not be created. The result must agree with the
// oracle's.
func (r *replayer) refused(rec *vector.Record, err error) bool {
	r.Helper()
	if (err == nil) != (rec.RC == 0) {
		r.differ(rec, "%v, want errno %d: %+v", err, rec.RC, rec.Cap)
	}
	return err != nil
}

// compareCommand compares the input of a command. The device is opened before the first record,
// and objects are closed after the last one.
func (r *replayer) compareCommand(c *replay.Call) {
	if c.Command == replay.ResizeCQ {
		r.endOfRing(uint32(binary.NativeEndian.Uint32(c.Attrs[abi.UVERBS_ATTR_CORE_IN][8:])))
	}
	if c.Oracle == nil {
		return
	}
	rec := r.current
	if rec == nil {
		rec = r.head
	}
	for id, want := range c.Oracle.In {
		got := c.Attrs[attrID(id)]
		if c.Object == abi.UVERBS_OBJECT_DEVICE && attrID(id) == abi.UVERBS_ATTR_CORE_IN {
			want, got = want[8:], got[8:] // skip the address of the response, which is an attribute
		}
		got = knownBytes[c.Command].replace(attrID(id), want, got)
		if known[c.Command][attrID(id)] || sameInput(want, got) {
			continue
		}
		r.differ(rec, "command %+v, attribute %s: %s", c.Command, id, replay.Diff(want, got))
	}
	for id, got := range c.Attrs {
		if _, ok := vector.Attr(c.Oracle.In, id); !ok && len(bytes.Trim(got, "\x00")) > 0 {
			r.differ(rec, "command %+v: attribute %d, which libmlx5 does not give: %x", c.Command, id, got)
		}
	}
}

func attrID(s string) uint16 {
	var id uint16
	if err := json.Unmarshal([]byte(s), &id); err != nil {
		panic(err)
	}
	return id
}

// address replaces an address in the vectors.
const address = 0xadd7e55000000000

// sameInput compares inputs. An address in the provider's input may differ from the oracle's
// address. A shorter input is extended with zeros.
func sameInput(want, got []byte) bool {
	n := (max(len(want), len(got)) + 7) &^ 7
	want, got = append([]byte(nil), want...), append([]byte(nil), got...)
	want, got = append(want, make([]byte, n-len(want))...), append(got, make([]byte, n-len(got))...)
	for i := 0; i < n; i += 8 {
		w, g := binary.NativeEndian.Uint64(want[i:]), binary.NativeEndian.Uint64(got[i:])
		if w != g && (w != address || g == 0 || g%8 != 0) {
			return false
		}
	}
	return true
}

// newer reports whether the vectors are from a libmlx5 that takes the slots of an SRQ in the
// same order as purerdma. This is the order of a list that keeps no free slot back.
func (r *replayer) newer() bool { return !strings.HasPrefix(r.head.RDMACore, "44.") }

// driverInput returns the driver's input of the last command of a kind.
func driverInput[T any](r *replayer, c replay.Command) *T {
	in := r.k.Last(c).Attrs[abi.UVERBS_ATTR_UHW_IN]
	full := make([]byte, max(len(in), abi.Size[T]()))
	copy(full, in)
	return abi.View[T](full)
}
