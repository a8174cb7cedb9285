// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// command answers the commands that libbnxt_re does not send, and changes the inputs that intentionally differ from
// version 44.
func (r *replayer) command(c *replay.Call) {
	switch {
	case c.Write == abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE && c.Oracle == nil,
		c.Write == abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE && r.old:
		r.answerQuery(c)
	case c.Object == abi.BNXT_RE_OBJECT_GET_TOGGLE_MEM && (c.Method == abi.BNXT_RE_METHOD_RELEASE_TOGGLE_MEM || r.old):
		r.toggle(c)
	case c.Object == abi.BNXT_RE_OBJECT_ALLOC_PAGE && r.old:
		r.oldPage(c)
	case c.Command == replay.CreateAH:
		r.ahs++
		binary.NativeEndian.PutUint32(r.Kernel.Pages()[0][abi.BNXT_RE_AVID_OFFT:], 0x7700+r.ahs)
	case c.Command == replay.ResizeCQ:
		r.cutOff()
	}
	if c.Command == replay.CreateQP && !r.old {
		// Version 56 rounds the size of a request of variable size up to 32 bytes.
		in, _ := vector.Attr(c.Oracle.In, abi.UVERBS_ATTR_UHW_IN)
		own := c.Attrs[abi.UVERBS_ATTR_UHW_IN][32:36]
		r.slotsOfSQ = int(binary.NativeEndian.Uint32(own))
		if want := int(binary.NativeEndian.Uint32(in[32:])); r.is56 && want > r.slotsOfSQ {
			copy(own, in[32:36])
		}
	}
	if !r.old || c.Oracle == nil {
		return
	}
	switch c.Command {
	case replay.GetContext:
		delete(c.Attrs, abi.UVERBS_ATTR_UHW_IN)
	case replay.CreateCQ:
		// The library does not make small CQs larger.
		b, _ := vector.Attr(c.Oracle.In, abi.UVERBS_ATTR_CREATE_CQ_CQE)
		r.oldCQE = binary.NativeEndian.Uint32(c.Attrs[abi.UVERBS_ATTR_CREATE_CQ_CQE])
		c.Attrs[abi.UVERBS_ATTR_CREATE_CQ_CQE] = b
	case replay.CreateQP:
		// The library rounds the bytes of inline data up.
		b, _ := vector.Attr(c.Oracle.In, abi.UVERBS_ATTR_CREATE_QP_CAP)
		copy(c.Attrs[abi.UVERBS_ATTR_CREATE_QP_CAP][16:20], b[16:20])
	}
}

// answerQuery responds to the query of the device as the fake kernel does.
func (r *replayer) answerQuery(c *replay.Call) {
	a := abi.UverbsExQueryDeviceResp{ResponseLength: uint32(abi.Size[abi.UverbsExQueryDeviceResp]())}
	a.Base = abi.UverbsQueryDeviceResp{AtomicCap: 1, MaxSGE: 6, MaxQPWR: maxWR, MaxSRQWR: maxWR, MaxSRQSGE: 6}
	if r.chip("p7") && !r.old {
		a.Base.MaxSGE = 13
	}
	c.Oracle = &vector.Call{Out: map[string]vector.Hex{"1": abi.Bytes(&a)}}
}

// toggle answers commands for toggle pages. The library keeps them until the context ends, and version 44 has none.
func (r *replayer) toggle(c *replay.Call) {
	c.Oracle = &vector.Call{}
	if c.Method == abi.BNXT_RE_METHOD_GET_TOGGLE_MEM {
		r.newPage(c, "4099", "4101")
	}
}

// oldPage answers commands for pages, which version 44 does not send.
func (r *replayer) oldPage(c *replay.Call) {
	c.Oracle = &vector.Call{}
	r.newPage(c, "4099", "4100")
}

// newPage names a page in a response.
func (r *replayer) newPage(c *replay.Call, offset, length string) {
	r.pages++
	at, n := uint64(1)<<40+r.pages<<12, uint32(4096)
	c.Oracle.Out = map[string]vector.Hex{offset: abi.Bytes(&at), length: abi.Bytes(&n)}
}

// compareRequests compares the slots of requests. Version 44 stores zeros in the second slot of a SEND, and the operand
// of FETCH_ADD in the place of COMPARE_SWAP's. Its adapters then add something else.
func (r *replayer) compareRequests(q *qp, want, got []byte) {
	if r.old {
		want = bytes.Clone(want)
		for i, w := range r.Rec.WRs[:len(want)/(8*slot)] {
			b := want[8*slot*i:]
			switch provider.OpWrite + provider.SendOpcode(w.Opcode) {
			case provider.OpSend, provider.OpSendImm:
				if q.rc {
					replay.Fill(b[16:32], vector.Poison)
				}
			case provider.OpFetchAdd:
				copy(b[16:24], b[24:32])
				replay.Fill(b[24:32], vector.Poison)
			}
		}
	}
	r.Same("requests", want, got)
}

// compareReceives compares the slots of receives. Version 44 stores zeros in the second slot, and does not store the
// length of an empty element.
func (r *replayer) compareReceives(ring replay.Ring) {
	if r.old && ring.Slot == 128 && r.qps[r.Rec.On] != nil {
		var want []vector.Hex
		r.Must(json.Unmarshal(r.Rec.Slots, &want))
		for i, b := range want {
			replay.Fill(b[16:32], vector.Poison)
			if len(r.Rec.WRs[i].SGE) == 0 {
				replay.Fill(b[44:48], 0)
			}
			r.Same("slot", b, ring.Slots(r.Rec.At+uint32(i), 1))
		}
		return
	}
	r.CompareReceives(ring)
}

// compareSearch compares the entries of the search table. Version 44 stores the operation of the completion, and the slot
// of a request of fixed size. It does not know the table of messages.
func (r *replayer) compareSearch(q *qp, want, got []byte) {
	if r.old {
		if q.msn {
			return
		}
		want, got = bytes.Clone(want), bytes.Clone(got)
		for i := 0; i < len(want); i += q.entry {
			want[i+3], got[i+3] = 0, 0
			if q.entry == 16 {
				binary.LittleEndian.PutUint16(want[i+8:], binary.LittleEndian.Uint16(want[i+8:])/8)
			}
		}
	}
	r.Same("search table", want, got)
}

// compareBells compares the doorbells. Version 44 does not set the bits for a valid doorbell and for the pass around the
// ring. It rings for each poll and arms a CQ at the next poll. Version 56 copies the slots of a pushed request to places
// of which each is 2 bytes behind the one before.
func (r *replayer) compareBells() {
	want := r.Rec.UAR
	switch {
	case r.old:
		if r.Rec.Type == "poll" || r.Rec.Type == "arm" {
			return
		}
		var got []*vector.Store
		for _, s := range r.Stores() {
			if s.At == 0 {
				s.Bytes = s.Bytes[:8]
				s.Bytes[3] &^= 1
				s.Bytes[7] &^= 1 << 2
				got = append(got, s)
			}
		}
		if len(got) != len(want) || len(got) > 0 && (got[0].Mmap != want[0].Mmap || !bytes.Equal(got[0].Bytes, want[0].Bytes)) {
			r.Differ("doorbells %+v, want %+v", got, want)
		}
		return
	case r.is56 && r.Rec.Type == "send" && len(want) > 1:
		got := r.Stores()
		if len(got) != len(want) || got[1].At != want[1].At {
			r.Differ("%d pages of registers written, want %d", len(got), len(want))
			return
		}
		r.Same("register", want[0].Bytes, got[0].Bytes)
		return
	}
	r.CompareStores(want)
}
