// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"runtime"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMRefusedPacket posts WRITEs while the network device refuses packets. The requests must
// complete once it takes packets again.
//
// rxe of Linux 6.12 and newer repeats a lost packet, but not a packet that the network device has
// refused (rxe_requester). The QP breaks. All posted requests and receives are flushed, and no
// request has a status that names the cause.
func TestVMRefusedPacket(t *testing.T) {
	rxe := vmtest.Driver() == "rxe"
	breaks := rxe && linuxSince(t, 6, 12)
	if rxe && !breaks {
		longtest.Need(t) // rxe sends a refused packet again at once, and occupies a processor
	}
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	write := verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey()}
	first := write
	first.ID = 1
	l.send(t, first) // the devices resolve each other's addresses
	l.ok(t, 1)
	const received, n = 10, 3
	l.recv(t, verbs.RecvWR{ID: received})
	const counter = "hw_counters/send_err"
	var before int64
	if breaks {
		before = vmtest.Counter(t, counter)
	}
	undo := l.host.Refuse(t)
	for id := range uint64(n) {
		wr := write
		wr.ID = 2 + id
		l.send(t, wr)
	}
	for ctx := deadline(t); breaks && vmtest.Counter(t, counter) == before; runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatal("the network device has refused no packet")
		}
	}
	undo()
	if !breaks {
		l.ok(t, n)
		return
	}
	for id, wc := range l.collect(t, n+1) {
		if wc.Status != verbs.WCWRFlushErr {
			t.Errorf("completion of request %d = %+v, want the status of a flush", id, wc)
		}
	}
	a, err := l.qp.Query()
	if err != nil || a.State != verbs.QPErr {
		t.Errorf("QP.Query = %v, %v, want state %v", a.State, err, verbs.QPErr)
	}
}
