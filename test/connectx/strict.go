// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// Violation is an operation that a driver must not do.
type Violation = pci.Violation

// strict reports whether violations are checked.
func (d *Device) strict() bool { return d.cfg.Violation != nil }

// violation reports a violation.
func (d *Device) violation(object, format string, args ...any) {
	if d.strict() {
		d.cfg.Violation(Violation{Device: d.cfg.Name, Object: object, Text: fmt.Sprintf(format, args...)})
	}
}

// checkReserved reports set bits that do not belong to a field of the struct. table is a table
// of package prm.
func (d *Device) checkReserved(object string, table any, b []byte) {
	if !d.strict() {
		return
	}
	if text := prm.Reserved(table, b); text != "" {
		d.violation(object, "%s", text)
	}
}

// check validates the common fields of a work request and, if the device is strict, the other
// fields. It returns the reason why the request cannot be executed, or "".
func (q *qp) check(f *flight, w []byte) string {
	switch {
	case prm.Ctrl.DS.Get(w) == 0:
		return "it says that it has no segments"
	case uint16(prm.Ctrl.Index.Get(w)) != f.index:
		return fmt.Sprintf("it says that its index is %#x", prm.Ctrl.Index.Get(w))
	case uint32(prm.Ctrl.QPN.Get(w)) != q.n:
		return fmt.Sprintf("it says that it is of QP %#x", prm.Ctrl.QPN.Get(w))
	}
	if q.d.strict() {
		q.checkStrictly(f, w)
	}
	return ""
}

// checkStrictly makes the checks that a card need not make.
func (q *qp) checkStrictly(f *flight, w []byte) {
	complain := func(format string, args ...any) {
		q.d.violation(q.name(), "WQE %#x: %s", f.index, fmt.Sprintf(format, args...))
	}
	if text := prm.Reserved(&prm.Ctrl, w[:prm.Octoword]); text != "" {
		complain("control segment: %s", text)
	}
	op := operations[f.opcode]
	at := prm.Octoword
	switch q.service {
	case prm.ServiceXRC:
		if text := prm.Reserved(&prm.XRCSeg, segment(w, at, prm.Octoword)); text != "" {
			complain("XRC segment: %s", text)
		}
		at += prm.Octoword
	case prm.ServiceUD, prm.ServiceQP1, prm.ServiceDCI:
		if f.opcode != prm.WQENop && f.opcode != prm.WQEUMR {
			if text := prm.Reserved(&prm.AV, segment(w, at, prm.AVLen)); text != "" {
				complain("address vector: %s", text)
			}
			at += prm.AVLen
		}
	}
	if op.remote {
		if seg := segment(w, at, prm.Octoword); len(seg) == prm.Octoword && binary.BigEndian.Uint32(seg[12:]) != 0 {
			complain("remote address segment: the last dword is reserved")
		}
		at += prm.Octoword
	}
	if op.atomic {
		at += prm.Octoword
	}
	if f.opcode == prm.WQENop || f.opcode == prm.WQEUMR {
		return
	}
	for at < len(w) {
		seg := w[at:]
		if !prm.DataSeg.Inline.Is(seg) {
			if prm.DataSeg.ByteCount.Get(seg) == 0 {
				complain("a data segment of 0 bytes, which a card takes for 2 GiB")
			}
			at += prm.Octoword
			continue
		}
		n := prm.DataSeg.ByteCount.Get(seg)
		if n >= 1<<10 {
			complain("%d inline bytes", n)
			return
		}
		at += int(4+n+prm.Octoword-1) &^ (prm.Octoword - 1)
	}
	if at != len(w) {
		complain("its segments have %d bytes, but it says %d", at, len(w))
	}
}

// segment returns n bytes of a work request, or fewer if it is shorter.
func segment(w []byte, at, n int) []byte { return w[min(at, len(w)):min(at+n, len(w))] }
