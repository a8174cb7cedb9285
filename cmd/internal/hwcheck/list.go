// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"

	"purerdma/verbs"
)

// listChecks compare the data of requests with several elements.
var listChecks = []Check{
	{ID: "gather", Title: "lists of each length in SEND, WRITE and READ", do: checkGather},
	{ID: "scatter", Title: "receives of each number of elements, short and full", do: checkScatter},
	{ID: "zero-elements", recorded: true, Title: "receives with elements of 0 bytes, of a QP and of a shared receive queue", do: checkZeroElements},
}

// splits returns n pieces that are not adjacent, and have size bytes in total. Some have odd lengths.
func splits(off, n, size int) []piece {
	var list []piece
	for i := range n {
		part := size / (n - i)
		if i < n-1 && part > 1 {
			part -= i % 2
		}
		list = append(list, piece{off, part})
		off += part + 13 + i%3
		size -= part
	}
	return list
}

// gathered returns the bytes of the pieces of a memory.
func gathered(memory []byte, pieces []piece) []byte {
	var b []byte
	for _, p := range pieces {
		b = append(b, memory[p.Off:][:p.Len]...)
	}
	return b
}

// sge returns the number of elements that checks of lists use.
func (t *trial) sge() (send, recv, read int) {
	send, recv = min(t.attr.MaxSendSGE, 16), min(t.attr.MaxRecvSGE, 16)
	read = send
	if n := t.attr.MaxSGERd; n > 0 {
		read = min(read, n)
	}
	return send, recv, read
}

func checkGather(t *trial) {
	sends, _, reads := t.sge()
	l := t.link(Config{Cap: verbs.QPCap{SendSGE: sends}})
	t.note("up to %d elements, %d for READ", sends, reads)
	near := l.mr.Bytes()
	for n := 1; n <= sends; n++ {
		for _, size := range []int{n, 64, 1000, 5000} {
			if size < n {
				continue
			}
			pieces := splits(margin, n, size)
			fillPattern(near[:16<<10], n*size)
			want := guards(size + 2*margin)
			copy(want[margin:], gathered(near, pieces))
			for _, op := range []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite} {
				l.store(0, guards(size+2*margin))
				wr := verbs.SendWR{Opcode: op, SGList: l.elements(pieces)}
				if op == verbs.OpSend {
					l.farRecv(1, piece{margin, size})
				} else {
					wr.RemoteAddr, wr.RKey = l.remote(margin), l.memory.RKey
				}
				l.send(wr)
				if op == verbs.OpSend {
					l.farReceived(1)
				} else {
					l.settle()
				}
				l.same(fmt.Sprintf("%s of %d bytes in %d elements", opName(op), size, n), l.load(0, len(want)), want)
			}
			if n <= reads {
				readScattered(l, pieces, size)
			}
		}
	}
}

// readScattered reads into pieces, and compares them and the memory around them.
func readScattered(l *link, pieces []piece, size int) {
	near := l.mr.Bytes()[:16<<10]
	data := pattern(size, size)
	l.store(0, data)
	copy(near, guards(len(near)))
	want := guards(len(near))
	for at, i := 0, 0; i < len(pieces); i++ {
		at += copy(want[pieces[i].Off:][:pieces[i].Len], data[at:])
	}
	wr := l.read(piece{}, 0)
	wr.SGList = l.elements(pieces)
	l.send(wr)
	l.same(fmt.Sprintf("READ of %d bytes into %d elements", size, len(pieces)), near, want)
}

func checkScatter(t *trial) {
	_, recvs, _ := t.sge()
	l := t.link(Config{Cap: verbs.QPCap{RecvSGE: recvs}})
	const room = 4096
	for n := 1; n <= recvs; n++ {
		pieces := splits(margin, n, room)
		for _, size := range []int{0, 1, 31, 32, 33, 64, 65, 1000, room - 1, room} {
			data := pattern(n+size, size)
			copy(l.mr.Bytes(), data)
			l.store(0, guards(2*room))
			want := guards(2 * room)
			for at, i := 0, 0; i < len(pieces) && at < size; i++ {
				at += copy(want[pieces[i].Off:][:pieces[i].Len], data[at:])
			}
			l.farRecv(uint64(n), pieces...)
			l.send(verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, size}})})
			if wc := l.farReceived(1)[0]; int(wc.ByteLen) != size {
				t.fail("receive of %d bytes in %d elements: %d bytes", size, n, wc.ByteLen)
			}
			l.same(fmt.Sprintf("receive of %d bytes in %d elements", size, n), l.load(0, 2*room), want)
		}
	}
}

// checkZeroElements posts receives with empty elements. In some places of a ConnectX's requests a length of 0 means 2 GiB.
func checkZeroElements(t *trial) {
	const size, to = 200, 4096 // more than a completion holds
	for _, srq := range []int{0, 16} {
		if srq > 0 && t.attr.MaxSRQ == 0 {
			t.note("the device has no shared receive queues")
			continue
		}
		for i, pieces := range [][]piece{
			{{0, 0}, {to, size}}, {{to, size}, {0, 0}}, {{to, 100}, {0, 0}, {to + 100, 100}}, {{0, 0}, {0, 0}, {to, size}},
		} {
			if len(pieces) > t.attr.MaxSGE || srq > 0 && len(pieces) > t.attr.MaxSRQSGE {
				continue
			}
			l := t.link(Config{SRQ: srq, Cap: verbs.QPCap{RecvSGE: len(pieces)}})
			fillPattern(l.mr.Bytes()[:size], i)
			want := guards(2 * to)
			copy(want[to:], pattern(i, size))
			l.store(0, guards(2*to))
			l.farRecv(1, pieces...)
			l.send(verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, size}})})
			l.farReceived(1)
			l.same(fmt.Sprintf("receive into elements %v", pieces), l.load(0, 2*to), want)
		}
	}
}
