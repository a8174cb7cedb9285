// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"encoding/binary"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// This file lists all known and intended differences from libmlx5.

// known lists the inputs of commands that differ from libmlx5's inputs, or that have no effect.
var known = []replay.Known{
	// libibverbs requests timestamps, which mlx5 has in every completion.
	{Command: replay.CreateCQ, Attr: abi.UVERBS_ATTR_CREATE_CQ_FLAGS},
	// libmlx5 requests a context with DEVX (MLX5_IB_ALLOC_UCTX_DEVX), and after a failure a
	// context without it. purerdma does not need DEVX.
	{Command: replay.GetContext, Attr: abi.UVERBS_ATTR_UHW_IN, From: 8, To: 12},
}

// resized reports whether a resized CQ has published a valid consumer index, compared with
// libmlx5's index. libmlx5 counts the entry that ends the old ring, and publishes this with the
// next poll. purerdma publishes it at once.
func resized(want, got uint32) bool { return got == want || got == want+1 }

// header returns a request for a device that requires the beginning of a packet inline. libmlx5
// reads it from the memory of the elements. With purerdma, the program passes it in Header.
func header(wr provider.SendWR, n uint32) provider.SendWR {
	if wr.InlineData != nil || len(wr.Header) > 0 {
		return wr
	}
	sg := wr.SGList
	wr.SGList = nil
	for _, e := range sg {
		k := min(n, e.Length)
		for i := range uint64(k) {
			wr.Header = append(wr.Header, vector.DataByte(e.Addr-vector.Data+i))
		}
		n -= k
		e.Addr, e.Length = e.Addr+uint64(k), e.Length-k
		wr.SGList = append(wr.SGList, e)
	}
	return wr
}

// meant returns the fields of libmlx5's completion i that purerdma's completion must have.
// libmlx5's extended interface returns the length of every request, and no flags. The other
// interface returns the length of READs and atomics, and whether a request had immediate data,
// as purerdma does.
func meant(rec *vector.Record, i int, ex bool) *vector.WC {
	w := rec.WCs[i]
	if w.Opcode == nil {
		return w
	}
	c := *w
	if *w.Opcode >= uint64(provider.WCRecv) {
		var cqe []byte
		if len(rec.CQEs) == len(rec.WCs) {
			cqe = rec.CQEs[i].Bytes
		}
		receive(&c, cqe)
		return &c
	}
	if !ex {
		return w
	}
	c.Flags = nil
	if *w.Opcode != uint64(provider.WCRead) {
		c.ByteLen = nil
	}
	return &c
}

// receive changes a receive as libmlx5 completes it into a receive as purerdma does. On
// Ethernet, libmlx5 also takes the fields of InfiniBand from the CQE. The kernel has its own
// rules there: no LIDs, and the priority of the VLAN as the service level. If the message's
// bytes are in the place of these fields and of the peer's QP number, libmlx5 takes them from
// these bytes. cqe is nil if the CQE of the completion is not known.
func receive(c *vector.WC, cqe []byte) {
	zero := uint64(0)
	c.SLID, c.PathBits, c.SL = &zero, &zero, nil
	if cqe == nil {
		c.SrcQP, c.Flags = nil, nil
		return
	}
	last := cqe[len(cqe)-cqeBytes:]
	if scattered := last[cqeOwner]>>2&3 == 1; scattered {
		flags := *c.Flags &^ uint64(provider.WCGRH)
		c.SrcQP, c.SL, c.Flags = &zero, &zero, &flags
	} else {
		priority := uint64(0)
		if last[cqeL3Type]&1 != 0 {
			priority = uint64(last[cqeVLAN] >> 5)
		}
		c.SL = &priority
	}
}

// ours returns the bytes that must replace the oracle's WQEs, or the copy of one in a register.
// ibv_wr_... does not change the immediate of operations without one, while purerdma stores 0
// there. If the header of an LSO continues at the start of the ring, libmlx5 puts the elements
// some segments too far behind it. They are then beyond the length of the WQE.
func (r *replayer) ours(rec *vector.Record, ring int, want, got []byte) []byte {
	if w := rec.WRs; len(w) == 1 && w[0].Op == "TSO" && (int(rec.At)*64)%ring+ethHeader+len(w[0].Hdr) > ring {
		return lsoWrapped(want, w[0])
	}
	if rec.API != "ibv_wr" || len(want) < 16 || len(got) < 16 {
		return want
	}
	if w := append([]byte(nil), want...); binary.BigEndian.Uint32(w[12:]) == vector.Poison*0x01010101 && binary.BigEndian.Uint32(got[12:]) == 0 {
		copy(w[12:16], got[12:16])
		return w
	}
	return want
}

// ethHeader is the offset of the header of an LSO in a WQE.
const ethHeader = 30

// lsoWrapped moves the elements of an LSO to their correct position.
func lsoWrapped(want []byte, w *vector.WR) []byte {
	at, n := (ethHeader+len(w.Hdr)+15)&^15, 16*len(w.SGE)
	from := at
	for from+n < len(want) && want[from+4] == vector.Poison { // the key of an element
		from += 16
	}
	moved := append([]byte(nil), want[:at]...)
	moved = append(moved, want[from:from+n]...)
	for len(moved) < len(want) {
		moved = append(moved, vector.Poison)
	}
	return moved
}

// unread reports whether the memory that gets a completion's data is not compared. libmlx5 44
// copies the 64 bytes of READs and atomics from an address that is off by one byte.
func (r *replayer) unread(rec *vector.Record) bool {
	for _, e := range rec.CQEs {
		op := e.Bytes[len(e.Bytes)-1]
		if !r.newer() && len(e.Bytes) == 128 && op>>4 == 0 && op>>2&3 == 2 {
			return true
		}
	}
	return false
}

// ringOfGood returns the value that must be stored into the register when the request with
// index bad of a list is refused. libmlx5 rings with the bytes at the position of the refused
// request's WQE, which was not posted. purerdma rings with the last valid request, or with
// BlueFlame if it is the only one.
func ringOfGood(s *vector.Store, wqe []byte, bad int, blueFlame bool) *vector.Store {
	last, size := wqe, 0
	for at := wqe; len(at) > 0; at = at[size:] {
		last, size = at, (int(at[7]&0x3f)*16+63)&^63
	}
	if ds := int(last[7] & 0x3f); bad != 1 || !blueFlame || ds < 2 || ds > 16 {
		last = last[:8]
	}
	return &vector.Store{Mmap: s.Mmap, At: s.At, Bytes: last}
}
