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

// This file is all that is known and meant to be other than with libmlx5.

// known are inputs of commands that are other than libmlx5's, or of no account.
var known = map[replay.Command]map[uint16]bool{
	// What the kernel hands back in events, of which libmlx5's is an address; and the
	// file that it gives them to, which these tests have not.
	replay.CreateCQ: {
		abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE: true,
		abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD:    true,
		// libibverbs asks for timestamps, which mlx5 has in every completion.
		abi.UVERBS_ATTR_CREATE_CQ_FLAGS: true,
	},
	replay.CreateQP:  {abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE: true, abi.UVERBS_ATTR_CREATE_QP_EVENT_FD: true},
	replay.CreateSRQ: {abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE: true, abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD: true},
}

// bytesOf is a part of one input of a command.
type bytesOf struct {
	attr     uint16
	from, to int
}

// replace returns got with the bytes of want where they may differ.
func (b bytesOf) replace(attr uint16, want, got []byte) []byte {
	if attr != b.attr || b.to == 0 || b.to > min(len(want), len(got)) {
		return got
	}
	got = append([]byte(nil), got...)
	copy(got[b.from:b.to], want[b.from:b.to])
	return got
}

// knownBytes are parts of inputs that are other than libmlx5's. The inputs of commands
// that were once write(2) begin behind the address of the answer.
var knownBytes = map[replay.Command]bytesOf{
	// libmlx5 asks for a context with DEVX (MLX5_IB_ALLOC_UCTX_DEVX), and then for one
	// without if it gets none. Nothing here needs it.
	replay.GetContext: {abi.UVERBS_ATTR_UHW_IN, 8, 12},
	// The address of the memory, which the vectors have as its offset.
	replay.RegMR: {abi.UVERBS_ATTR_CORE_IN, 0, 8},
	// The kernel makes nothing of an address handle's user handle, which is an address
	// of libibverbs's; ours is 0.
	replay.CreateAH: {abi.UVERBS_ATTR_CORE_IN, 0, 8},
}

// resized says whether a resized CQ must have published its consumer index as libmlx5
// has. It counts the entry that ends the old ring, and tells the device with the next
// poll; we tell it at once.
func resized(want, got uint32) bool { return got == want || got == want+1 }

// header returns a request to a device that wants the beginning of a packet inline.
// libmlx5 reads it from the memory that the elements name; with us the program gives
// it.
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

// meant returns what of completion i of libmlx5 ours must have. The extended interface
// gives the length of every request, and no flags; the other the length of READs and
// atomics, and whether a request had immediate data. Ours is the latter's.
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

// receive changes a receive as libmlx5 completes it into ours. libmlx5 takes the fields
// of InfiniBand from the CQE on Ethernet, too, where the kernel has its own rules: no
// LIDs, and the priority of the VLAN for a service level. And libmlx5 takes them, with the
// peer's QP number, from the bytes of the message if these lie in their place. cqe is nil
// if it is not known which one it was.
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

// ours returns what must stand in the place of the oracle's WQEs, or of the copy of one
// in a register. ibv_wr_... leaves the immediate of operations that have none as it was,
// we store 0 there. And libmlx5 puts the elements of an LSO whose header goes on at the
// start of the ring some segments too far behind it, where the WQE's length says that it
// has ended.
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

// ethHeader is where in a WQE the header of an LSO begins.
const ethHeader = 30

// lsoWrapped moves the elements of an LSO to where they belong.
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

// unread says whether the memory that a completion brings data for is not compared:
// libmlx5 44 takes the 64 bytes of READs and atomics from one byte beside them.
func (r *replayer) unread(rec *vector.Record) bool {
	for _, e := range rec.CQEs {
		op := e.Bytes[len(e.Bytes)-1]
		if !r.newer() && len(e.Bytes) == 128 && op>>4 == 0 && op>>2&3 == 2 {
			return true
		}
	}
	return false
}

// ringOfGood returns what must go to the register when the request with index bad of a
// list is refused. libmlx5 rings with what stands in the place of that one's WQE, which
// was not posted; we ring with the last good one, or by BlueFlame if it is the only one.
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
