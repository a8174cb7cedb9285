// SPDX-License-Identifier: Apache-2.0

package erdma

import "fmt"

// request is a request of a send queue.
type request struct {
	index     uint16 // of its first block
	wqe       [maxBlocks * blockSize]byte
	size      int // of the request in bytes
	opcode    uint8
	signaled  bool
	solicited bool
	inline    bool
	sgl       int    // number of SGEs, or of inline bytes
	mistake   string // mistake in the header, or ""
}

// ringSend handles a doorbell of the send queue.
func (q *qp) ringSend(pi uint16) {
	switch {
	case q.state > stateRTS:
		return // see the package's documentation
	case pi-q.send.ci > q.send.depth:
		q.d.violation(q.name(), "a doorbell with index %#x, but the device is at %#x of %#x blocks", pi, q.send.ci, q.send.depth)
		return
	}
	q.send.pi = pi
	q.run()
}

// run executes the posted requests, while the QP is connected and no device is silent.
func (q *qp) run() {
	for q.peer != nil && q.send.waiting() > 0 && !q.d.silent && !q.peer.d.silent {
		r, ok := q.next()
		if !ok {
			q.terminate(eventQPFatal)
			return
		}
		if f := q.execute(r); f != nil {
			q.complete(r, f.status, 0)
			q.terminate(f.event)
			return
		}
	}
}

// next takes the next request from the queue. It returns false if the queue cannot continue.
func (q *qp) next() (*request, bool) {
	r := &request{index: q.send.ci}
	for i := range maxBlocks {
		b := q.send.at(q.d, q.send.ci+uint16(i), blockSize)
		if b == nil {
			q.d.violation(q.name(), "the host has removed the memory of the send queue")
			q.send.ci = q.send.pi
			return nil, false
		}
		copy(r.wqe[i*blockSize:], b)
	}
	hdr := le.Uint64(r.wqe[:])
	blocks := uint16(bits(hdr, 54, 52)) + 1
	r.mistake = q.headerMistake(hdr, blocks)
	if blocks > min(maxBlocks, q.send.waiting()) {
		q.d.violation(q.name(), "request %#x with header %#x: %d blocks, of %d", r.index, hdr, blocks, q.send.waiting())
		q.send.ci = q.send.pi
		return nil, false
	}
	q.send.ci += blocks
	r.size = int(blocks) * blockSize
	clear(r.wqe[r.size:])
	r.opcode, r.sgl = uint8(bits(hdr, 31, 27)), int(bits(hdr, 63, 56))
	r.inline, r.solicited, r.signaled = bits(hdr, 25, 25) != 0, bits(hdr, 23, 23) != 0, bits(hdr, 22, 22) != 0
	return r, true
}

// headerMistake returns the mistake in the header of a request, or "".
func (q *qp) headerMistake(hdr uint64, blocks uint16) string {
	switch {
	case uint32(bits(hdr, 51, 32)) != q.n:
		return fmt.Sprintf("it has the number of QP %#x", bits(hdr, 51, 32))
	case uint16(hdr) != q.send.ci+blocks:
		return fmt.Sprintf("it has the index of the next request %#x, want %#x", uint16(hdr), q.send.ci+blocks)
	case bits(hdr, 26, 26) != 0:
		return "direct requests are not supported"
	}
	return ""
}

// complete writes the completion of a request. Successful requests have a completion if they are
// signaled.
func (q *qp) complete(r *request, st status, size uint32) {
	if st == statusOK && !r.signaled {
		return
	}
	q.sendCQ.post(completion{queue: queueSend, opcode: r.opcode, status: st, qpn: q.n, index: uint32(r.index), size: size}, false)
}

// sge is an element of a list of memory.
type sge struct {
	addr        uint64
	length, key uint32
}

func readSGE(b []byte) sge { return sge{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])} }

// data returns the data of a SEND or WRITE, whose list or inline data starts at an offset. It
// verifies the length at offset 12.
func (q *qp) data(r *request, at int) ([][]byte, *accessError) {
	length := uint64(le.Uint32(r.wqe[12:]))
	if r.inline {
		if r.sgl > maxInline || at+r.sgl > r.size || uint64(r.sgl) != length {
			return nil, refuse(badFormat, "%d inline bytes in a request of %d bytes, with length %d", r.sgl, r.size, length)
		}
		return [][]byte{r.wqe[at : at+r.sgl]}, nil
	}
	if r.sgl > maxSGE || at+16*r.sgl > r.size {
		return nil, refuse(badFormat, "%d SGEs in a request of %d bytes", r.sgl, r.size)
	}
	var pieces [][]byte
	var sum uint64
	for i := range r.sgl {
		s := readSGE(r.wqe[at+16*i:])
		sum += uint64(s.length)
		if s.length == 0 {
			continue
		}
		more, err := q.memory(s.key, localRead, s.addr, uint64(s.length))
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, more...)
	}
	if sum != length || sum > maxMessage {
		return nil, refuse(badFormat, "SGEs of %d bytes, with length %d", sum, length)
	}
	return pieces, nil
}
