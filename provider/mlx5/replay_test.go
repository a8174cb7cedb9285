// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"syscall"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/oracle/replay"
)

// libmlx5 replays the vectors of libmlx5.
var libmlx5 = &replay.Driver{
	Driver:          mlx5.Driver{},
	Name:            "mlx5",
	Known:           known,
	InvalidIsENOMEM: true,
	Start: func(s *replay.Session) func() {
		r := &replayer{
			Session: s, xrcd: map[string]provider.XRCD{}, cqs: map[string]*cq{}, srqs: map[string]*srq{}, srqOf: map[string]*srq{}, qps: map[string]*qp{},
		}
		s.Command = r.command
		return r.replay
	},
}

// replayer has the provider repeat the calls of one recorded session.
type replayer struct {
	*replay.Session
	xrcd  map[string]provider.XRCD
	cqs   map[string]*cq
	srqs  map[string]*srq
	srqOf map[string]*srq // by QP
	qps   map[string]*qp
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
	sq, rq replay.Ring
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

func (r *replayer) mlx() *mlx5.Context { return r.Context.(*mlx5.Context) }

func (r *replayer) replay() {
	rec := r.Rec
	switch rec.Type {
	case "xrcd":
		x, err := r.mlx().OpenXRCD(-1, 0o100)
		r.Must(err)
		r.xrcd[rec.ID] = x
		r.Opened(x)
	case "cq":
		r.createCQ(rec)
	case "resize":
		r.resize(rec)
	case "srq":
		r.createSRQ(rec)
	case "qp":
		r.createQP(rec)
	case "modify":
		r.Modify(r.qps[rec.QP].p)
	case "set_ece":
		err := r.qps[rec.QP].p.(provider.ECEQP).SetECE(provider.ECE{VendorID: rec.Vendor, Options: rec.Options})
		if rec.RC == 0 && err != nil || rec.RC != 0 && !errors.Is(err, syscall.Errno(rec.RC)) {
			r.Differ("%v, want errno %d", err, rec.RC)
		}
	case "query_ece":
		e, err := r.qps[rec.QP].p.(provider.ECEQP).QueryECE()
		r.Must(err)
		if want := (provider.ECE{VendorID: rec.Vendor, Options: rec.Options}); e != want {
			r.Differ("ECE %+v, want %+v", e, want)
		}
	case "dct":
		if n := r.qps[rec.QP].p.Num(); n != rec.QPN {
			r.Differ("number %#x, want %#x", n, rec.QPN)
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
		r.Unknown()
	}
}

// command ends the ring of a CQ that is about to be resized.
func (r *replayer) command(c *replay.Call) {
	if c.Command == replay.ResizeCQ {
		r.endOfRing(uint32(binary.NativeEndian.Uint32(c.Attrs[abi.UVERBS_ATTR_CORE_IN][8:])))
	}
}

// newer reports whether the vectors are from a libmlx5 that takes the slots of an SRQ in the
// same order as purerdma. This is the order of a list that keeps no free slot back.
func (r *replayer) newer() bool { return !strings.HasPrefix(r.Head.RDMACore, "44.") }
