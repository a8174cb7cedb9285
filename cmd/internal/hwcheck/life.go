// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"fmt"
	"sync/atomic"

	"purerdma/verbs"
)

// lifeChecks create and destroy objects.
var lifeChecks = []Check{
	{ID: "many-qps", Title: "many QPs at a time", do: checkManyQPs},
	{ID: "destroy", Title: "QPs destroyed with work under way", do: checkDestroy},
	{ID: "churn", Load: true, Title: "QPs and CQs created and destroyed under load", do: checkChurn},
}

func checkManyQPs(t *trial) {
	const links, each, size = 32, 16, 64
	l := t.link(Config{CQEntries: links * each})
	all := []*link{l}
	for range links - 1 {
		all = append(all, l.another())
	}
	for i, a := range all {
		fillPattern(l.mr.Bytes()[i*size:][:size], i)
		for n := range each {
			wr := a.write(piece{i * size, size}, i*size)
			wr.ID = uint64(i*each + n)
			a.post(signaled(wr))
		}
	}
	next := map[uint32]int{}
	for _, wc := range l.sends(links * each) {
		if err := wc.Err(); err != nil {
			t.fail("WRITE: %v", err)
		}
		i := int(wc.ID / each)
		if all[i].qp.Num() != wc.QPNum || int(wc.ID%each) != next[wc.QPNum] {
			t.fail("completion %+v, want request %d of QP %d", wc, next[wc.QPNum], all[i].qp.Num())
		}
		next[wc.QPNum]++
	}
	for i, a := range all {
		a.settle()
		l.same(fmt.Sprintf("WRITE of QP %d", i), l.load(i*size, size), pattern(i, size))
	}
}

func checkDestroy(t *trial) {
	const rounds, requests = 40, 30
	l := t.link(Config{CQEntries: 4096, Memory: 64 << 10})
	for round := range rounds {
		other := l.another()
		for i := range requests {
			wr := other.write(piece{0, 4096}, 0)
			if i%3 == 0 {
				wr = other.read(piece{8192, 4096}, 0)
			}
			wr.ID = 1 << 32
			other.post(signaled(wr))
		}
		t.must("close an end with work under way", other.end.close())
		wr := l.write(piece{0, 8}, 0)
		wr.ID = uint64(round)
		l.post(signaled(wr))
		for found := false; !found; {
			wc := l.sends(1)[0]
			switch {
			case wc.ID == uint64(round) && wc.QPNum == l.qp.Num() && wc.Status == verbs.WCSuccess:
				found = true
			case wc.ID != 1<<32: // a driver may leave the completions of the closed QP
				t.fail("completion %+v, want ID %d of QP %d", wc, round, l.qp.Num())
			}
		}
		t.call("Close", other.far, &struct{}{})
	}
}

func checkChurn(t *trial) {
	s := Stream{Count: t.reads(2000), Min: 1, Span: 500, Elements: 1, Depth: 64, Reads: true}
	w := t.load(manyQPs)
	var made atomic.Int64
	s.more = func() bool { return w.more(int(made.Load())) }
	l := t.link(s.config())
	l.stream(s, func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := l.makeAndClose(); err != nil {
				return err
			}
			made.Add(2)
		}
		return nil
	})
	t.noteLoad(w, int(made.Load()), "QPs")
}

// makeAndClose creates a QP next to the link's QP, on its CQs and on a CQ of its own, and closes it.
func (l *link) makeAndClose() error {
	qp, err := l.newQP()
	if err != nil {
		return err
	}
	own, err := l.pd.CreateQP(verbs.QPConfig{})
	if err != nil {
		qp.Close()
		return err
	}
	if err := own.Close(); err != nil {
		return err
	}
	return qp.Close()
}
