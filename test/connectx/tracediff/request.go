// SPDX-License-Identifier: Apache-2.0

package tracediff

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// key is a key of the trace, with its number in order of appearance and its first address.
type key struct {
	number int
	first  uint64
}

// address formats an address.
func (q *queue) address(k uint32, addr uint64) string {
	e, ok := q.keys[k]
	if !ok {
		e = key{len(q.keys), addr}
		q.keys[k] = e
	}
	return fmt.Sprintf("key %d%+d", e.number, int64(addr-e.first))
}

// names contains the names of the operations.
var names = map[uint64]string{
	prm.WQENop: "NOP", prm.WQESendInv: "SEND_INV", prm.WQEWrite: "WRITE", prm.WQEWriteImm: "WRITE_IMM", prm.WQESend: "SEND",
	prm.WQESendImm: "SEND_IMM", prm.WQERead: "READ", prm.WQECompare: "COMPARE", prm.WQEFetchAdd: "FETCH_ADD", prm.WQEUMR: "UMR",
}

// requestWords describes a work request.
func (q *queue) requestWords(w []byte) (string, error) {
	if len(w) < prm.Octoword || uint64(len(w)) != prm.Ctrl.DS.Get(w)*prm.Octoword {
		return "", fmt.Errorf("a request of %d bytes", len(w))
	}
	op := prm.Ctrl.Opcode.Get(w)
	name, ok := names[op]
	if !ok {
		name = fmt.Sprintf("operation %#x", op)
	}
	text := fmt.Sprintf("%s %s fence %d completion %d solicited %d", q.service, name, prm.Ctrl.Fence.Get(w), prm.Ctrl.Completion.Get(w), prm.Ctrl.Solicited.Get(w))
	rest := w[prm.Octoword:]
	take := func(n int) []byte {
		seg := make([]byte, n)
		rest = rest[copy(seg, rest):]
		return seg
	}
	switch op {
	case prm.WQESendImm, prm.WQEWriteImm:
		text += fmt.Sprintf(" imm %#x", prm.Ctrl.Imm.Get(w))
	case prm.WQESendInv:
		text += " inv " + q.address(uint32(prm.Ctrl.Imm.Get(w)), 0)
	case prm.WQENop, prm.WQEUMR:
		return fmt.Sprintf("%s %d bytes", text, len(w)), nil
	}
	switch q.service {
	case "UD", "QP1", "DCI":
		av := take(prm.AVLen)
		text += fmt.Sprintf(" to %x", prm.AV.RGID.Of(av))
	case "XRC":
		take(prm.Octoword)
	}
	switch op {
	case prm.WQEWrite, prm.WQEWriteImm, prm.WQERead, prm.WQECompare, prm.WQEFetchAdd:
		seg := take(prm.Octoword)
		text += " remote " + q.address(uint32(prm.Raddr.RKey.Get(seg)), prm.Raddr.Address.Get(seg))
	}
	switch op {
	case prm.WQECompare:
		seg := take(prm.Octoword)
		text += fmt.Sprintf(" %#x for %#x", prm.AtomicSeg.SwapAdd.Get(seg), prm.AtomicSeg.Compare.Get(seg))
	case prm.WQEFetchAdd:
		text += fmt.Sprintf(" add %#x", prm.AtomicSeg.SwapAdd.Get(take(prm.Octoword)))
	}
	for len(rest) >= prm.Octoword {
		n := int(prm.DataSeg.ByteCount.Get(rest))
		if prm.DataSeg.Inline.Is(rest) {
			text += fmt.Sprintf(" inline %x", rest[4:min(4+n, len(rest))])
			rest = rest[min(len(rest), (4+n+prm.Octoword-1)&^(prm.Octoword-1)):]
			continue
		}
		text += " " + q.element(take(prm.Octoword))
	}
	return text, nil
}

// element describes a data segment in memory. The rights of the memory are reported once for
// each key.
func (q *queue) element(seg []byte) string {
	k := uint32(prm.DataSeg.LKey.Get(seg))
	if m := q.d.mkeys[uint64(k>>8)]; m != nil && !q.used[k] {
		q.used[k] = true
		q.saw("uses", "%s", m.words())
	}
	return fmt.Sprintf("%d bytes of %s", prm.DataSeg.ByteCount.Get(seg), q.address(k, prm.DataSeg.Address.Get(seg)))
}
