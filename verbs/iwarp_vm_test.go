// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"testing"
	"time"

	"purerdma/verbs"
)

// TestIWARPWrongMemory is TestVMWrongMemory for iWARP, where a WRITE is complete when
// it is sent, and a peer that refuses something ends the connection: what was not
// allowed must not have happened, and both QPs fail.
func TestIWARPWrongMemory(t *testing.T) {
	const size = 8192
	for _, c := range []struct {
		name   string
		op     verbs.SendOpcode
		access verbs.Access // of the peer's memory
		off    int
		key    uint32 // what is wrong with the key
		n      int
		done   bool // siw does it nevertheless
	}{
		{"wrong rkey of a write", verbs.OpWrite, everything, 0, 0x1234, 8, false},
		{"write beyond the end", verbs.OpWrite, everything, size - 4, 0, 8, false},
		{"long write beyond the end", verbs.OpWrite, everything, size - 1000, 0, 4000, false},
		{"write before the start", verbs.OpWrite, everything, -1, 0, 8, false},
		{"write without the right", verbs.OpWrite, verbs.LocalWrite | verbs.RemoteRead, 0, 0, 8, false},
		{"wrong rkey of a read", verbs.OpRead, everything, 0, 0x1234, 8, false},
		{"read beyond the end", verbs.OpRead, everything, size - 4, 0, 8, false},
		{"read before the start", verbs.OpRead, everything, -1, 0, 8, false},
		// docs/driver-faults.md
		{"read without the right", verbs.OpRead, verbs.LocalWrite, 0, 0, 8, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, r := vmWire(t).pair(t, verbs.QPCap{})
			access := c.access &^ verbs.RemoteAtomic
			mr, err := r.pd.Alloc(size, access)
			if err != nil {
				t.Fatal(err)
			}
			closer(t, mr)
			before := bytes.Clone(fill(mr.Bytes(), 5))
			here := bytes.Clone(fill(l.buf.Bytes()[:c.n], 77))
			wr := verbs.SendWR{ID: 1, Opcode: c.op, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr() + uint64(c.off), RKey: mr.RKey() ^ c.key, SGList: []verbs.SGE{l.buf.Slice(0, c.n)}}
			l.send(t, wr)
			wc := l.collect(t, 1)[1]
			if c.op == verbs.OpRead && (wc.Status == verbs.WCSuccess) != c.done {
				t.Errorf("the READ ends with %v", wc.Status)
			}
			if c.done {
				return
			}
			for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
				a, err1 := l.qp.Query()
				b, err2 := r.qp.Query()
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if a.State == verbs.QPErr && b.State == verbs.QPErr {
					break
				}
				if time.Since(start) > 10*time.Second {
					t.Fatalf("the connection goes on: %v, %v", a.State, b.State)
				}
			}
			// A message that goes too far may have been begun, up to the end.
			same := len(before)
			if c.op == verbs.OpWrite && c.off > 0 {
				same = c.off
			}
			if !bytes.Equal(mr.Bytes()[:same], before[:same]) {
				t.Error("the peer's memory has changed")
			}
			if c.op == verbs.OpRead && !bytes.Equal(l.buf.Bytes()[:c.n], here) {
				t.Error("something has been read")
			}
		})
	}
}
