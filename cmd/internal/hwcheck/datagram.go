// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"

	"purerdma/verbs"
)

// datagramChecks use UD QPs.
var datagramChecks = []Check{
	{ID: "datagrams", Title: "datagrams of each size, with their headers", needs: needsUD, do: checkDatagrams},
	{ID: "answers", Title: "address of the sender of a datagram", needs: needsUD, do: checkAnswers},
}

func needsUD(t *trial) string {
	if !t.features.UD {
		return "the device has no datagrams"
	}
	return ""
}

func checkDatagrams(t *trial) {
	l := t.link(Config{Type: verbs.UD})
	mtu, err := l.portMTU()
	t.must("query the port", err)
	for i, size := range sizes {
		if size > mtu.Bytes() {
			break
		}
		want := guards(size + verbs.GRHLen + 2*margin)
		l.store(0, want)
		l.farRecv(uint64(i), piece{margin, size + verbs.GRHLen})
		fillPattern(l.mr.Bytes()[:size], i)
		l.send(l.datagram(verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, size}})}))
		wc := l.farReceived(1)[0]
		if int(wc.ByteLen) != size+verbs.GRHLen || wc.SrcQP != l.qp.Num() || wc.ID != uint64(i) {
			t.fail("datagram of %d bytes: completion %+v, want ID %d, %d bytes from QP %d", size, wc, i, size+verbs.GRHLen, l.qp.Num())
		}
		fillPattern(want[margin+verbs.GRHLen:][:size], i)
		got := l.load(0, len(want))
		copy(got[margin:][:verbs.GRHLen], want[margin:]) // not defined without WCGRH, and in part with it
		l.same(fmt.Sprintf("datagram of %d bytes", size), got, want)
	}
}

func checkAnswers(t *trial) { t.answers(Config{Type: verbs.UD}) }

// answers receives datagrams and compares the addresses of their senders.
func (t *trial) answers(cfg Config) {
	l := t.link(cfg)
	for i := range 4 {
		t.must("post a receive", l.recv(uint64(i), []piece{{0, 8 + verbs.GRHLen}}))
		l.farPost(PlainWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, piece{0, 8})
		l.succeeded("datagram of the far end", l.farWait(true, 1))
		wc := l.received(1)[0]
		if wc.SrcQP != l.end.remote.QPN {
			t.fail("datagram from QP %#x, want %#x", wc.SrcQP, l.end.remote.QPN)
		}
		ah, err := l.dev.AHAttrFromWC(t.target.Port, &wc, l.mr.Bytes()[:verbs.GRHLen])
		t.must("address of the sender", err)
		t.note("service level %d, traffic class %d, flags %#x", ah.SL, ah.GRH.TrafficClass, wc.Flags)
		if ah.Global && ah.GRH.DGID != l.end.remote.GID || ah.SL != 0 {
			t.fail("address of the sender %+v, want GID %v and service level 0", ah, l.end.remote.GID)
		}
	}
}
