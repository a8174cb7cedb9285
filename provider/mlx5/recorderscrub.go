// SPDX-License-Identifier: Apache-2.0

package mlx5

import "unsafe"

// scrub clears the bytes of a WQE that the driver has not written, which are of earlier WQEs in the
// ring, and without keep the data of messages.
func scrub(wqe []byte, t transport, keep bool) {
	at := segment
	switch t {
	case transportXRC:
		if wqe[3] != opcodeUMR {
			clearFrom(wqe, at+4, segment-4)
		}
		at += segment
	case transportUD, transportDC:
		at += int(unsafe.Sizeof(addressVector{}))
	case transportRaw:
		at = scrubHeader(wqe, at, keep)
	}
	switch wqe[3] {
	case opcodeWrite, opcodeWriteImm, opcodeRead:
		at += segment
	case opcodeAtomicCS:
		at += 2 * segment
	case opcodeAtomicFA:
		clearFrom(wqe, at+segment+8, 8)
		at += 2 * segment
	case opcodeUMR:
		scrubKey(wqe)
		return
	}
	for at+segment <= len(wqe) {
		n := load32(unsafe.Pointer(&wqe[at]), 0)
		if n&inlineSegment == 0 {
			at += segment
			continue
		}
		at = scrubData(wqe, at+4, int(min(n&^inlineSegment, maxRecorded)), keep)
	}
}

// scrubData scrubs n bytes of data from at on, and returns the end of their last segment.
func scrubData(wqe []byte, at, n int, keep bool) int {
	end := (at + n + segment - 1) &^ (segment - 1)
	if keep {
		at += n
	}
	clearFrom(wqe, at, end-at)
	return end
}

// scrubHeader scrubs the header in an Ethernet segment, and returns the offset of the data segments.
func scrubHeader(wqe []byte, at int, keep bool) int {
	if len(wqe) < at+segment {
		return len(wqe)
	}
	n := int(load16(unsafe.Pointer(&wqe[at]), 12))
	return max(at+segment, scrubData(wqe, at+ethHeaderAt, n, keep))
}

// scrubKey scrubs the new context of a key, of which wqe.keyContext does not write all fields.
func scrubKey(wqe []byte) {
	const context = 4 * segment
	if len(wqe) <= context {
		return
	}
	if wqe[context] == keyFree {
		clearFrom(wqe, context+1, 3)
		clearFrom(wqe, context+16, 16)
	}
	clearFrom(wqe, context+1, 1)
	clearFrom(wqe, context+3, 1)
	clearFrom(wqe, context+8, 8)
	clearFrom(wqe, context+32, 32)
}

// clearFrom clears n bytes of b from at on, as far as b has them.
func clearFrom(b []byte, at, n int) {
	at = min(at, len(b))
	clear(b[at:min(at+max(n, 0), len(b))])
}
