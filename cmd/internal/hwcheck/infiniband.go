// SPDX-License-Identifier: Apache-2.0

package hwcheck

import "purerdma/verbs"

// infiniBandChecks use the addresses of InfiniBand, which no software device has.
var infiniBandChecks = []Check{
	{ID: "infiniband", Title: "messages and datagrams by LIDs, with and without a global route", needs: needsInfiniBand, do: checkInfiniBand},
}

func needsInfiniBand(t *trial) string {
	if iwarp(t.dev) || t.dev.LinkLayer(t.target.Port) != verbs.LinkInfiniBand {
		return "the port is not InfiniBand"
	}
	return ""
}

func checkInfiniBand(t *trial) {
	port, err := t.dev.QueryPort(t.target.Port)
	t.must("query the port", err)
	t.note("LMC %d, subnet manager with service level %d, global routes required: %t", port.LMC, port.SMSL, port.GRHRequired)
	for _, local := range []bool{true, false} {
		if local && port.GRHRequired {
			continue
		}
		l := t.link(Config{NoGlobal: local})
		for i, size := range []int{0, 1, 64, 5000} {
			sendOne(l, i, size)
		}
		l.store(0, pattern(9, 5000))
		l.send(l.read(piece{8192, 5000}, 0))
		l.same("READ of 5000 bytes", l.mr.Bytes()[8192:][:5000], pattern(9, 5000))
		if t.features.UC {
			sendOne(t.link(Config{Type: verbs.UC, NoGlobal: local}), 3, 1000)
		}
		if !t.features.UD {
			continue
		}
		d := t.link(Config{Type: verbs.UD, NoGlobal: local})
		t.must("post a receive", d.recv(1, []piece{{0, 8 + verbs.GRHLen}}))
		d.farPost(PlainWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, piece{0, 8})
		d.succeeded("datagram of the far end", d.farWait(true, 1))
		wc := d.received(1)[0]
		t.note("datagram without a global route: %t, flags %#x, service level %d, path bits %d", local, wc.Flags, wc.SL, wc.DLIDPathBits)
		if header := wc.Flags&verbs.WCGRH != 0; header == local || wc.ByteLen != 8+verbs.GRHLen {
			t.fail("datagram without a global route: %t: %d bytes, flags %#x, want %d bytes and the flag of a global route as sent", local, wc.ByteLen, wc.Flags, 8+verbs.GRHLen)
		}
		t.answers(Config{Type: verbs.UD, NoGlobal: local})
	}
}
