// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"encoding/binary"
	"fmt"
	"slices"

	"purerdma/verbs"
)

func checkRights(t *trial) {
	for _, c := range []struct {
		what   string
		access verbs.Access
		other  bool // on another PD
		op     verbs.SendOpcode
	}{
		{"WRITE to memory without RemoteWrite", verbs.LocalWrite | verbs.RemoteRead, false, verbs.OpWrite},
		{"READ of memory without RemoteRead", verbs.LocalWrite | verbs.RemoteWrite, false, verbs.OpRead},
		{"WRITE to memory of another PD", rights(t.dev), true, verbs.OpWrite},
		{"READ of memory of another PD", rights(t.dev), true, verbs.OpRead},
	} {
		l := t.link(Config{})
		pd := l.pd
		if c.other {
			var err error
			pd, err = l.dev.AllocPD()
			t.must("allocate a PD", err)
			t.later(pd.Close)
		}
		mr, err := pd.Alloc(4096, c.access)
		t.must("register", err)
		t.later(mr.Close)
		copy(mr.Bytes(), guards(4096))
		l.store(0, make([]byte, 8))
		l.farPost(PlainWR{ID: 1, Opcode: c.op, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: mr.RKey()}, piece{0, 8})
		l.wantStatus(c.what, l.farWait(true, 1)[0], verbs.WCRemAccessErr)
		l.same(c.what+": the memory", mr.Bytes(), guards(4096))
		l.same(c.what+": the memory of the far end", l.load(0, 8), make([]byte, 8))
	}
}

// checkContention adds to one value by several QPs at once.
func checkContention(t *trial) {
	const links, each = 4, 100
	l := t.link(Config{CQEntries: 2 * links * each})
	all := []*link{l}
	for range links - 1 {
		all = append(all, l.another())
	}
	l.store(0, make([]byte, 8))
	var got []uint64
	for round := range each {
		for i, a := range all {
			wr := verbs.SendWR{
				Opcode: verbs.OpFetchAdd, CompareAdd: 1, SGList: l.elements([]piece{{8 * (i + 1), 8}}), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey,
			}
			a.post(signaled(wr))
		}
		l.succeeded(fmt.Sprintf("fetch and add of round %d", round), l.sends(links))
		for i := range links {
			got = append(got, binary.NativeEndian.Uint64(l.mr.Bytes()[8*(i+1):]))
		}
	}
	if err := eachOnce(got); err != nil {
		t.fail("fetch and add by %d QPs: %v", links, err)
	}
	if n := binary.NativeEndian.Uint64(l.load(0, 8)); n != links*each {
		t.fail("value after %d additions = %d", links*each, n)
	}
}

// eachOnce returns an error unless the values are 0, 1, 2 and so on, each once.
func eachOnce(values []uint64) error {
	slices.Sort(values)
	for i, v := range values {
		if v != uint64(i) {
			return fmt.Errorf("value %d of the sorted values is %d, want each value once", i, v)
		}
	}
	return nil
}
