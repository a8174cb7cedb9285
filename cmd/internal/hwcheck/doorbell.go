// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"purerdma/verbs"
)

// doorbellChecks post one request at a time to a QP and wait for it, so that no later doorbell makes up for a lost
// one.
var doorbellChecks = []Check{
	{ID: "doorbells", Load: true, Title: "doorbells after requests of each length, one at a time", do: func(t *trial) { t.doorbells(Config{}) }},
	{
		ID: "doorbells-plain", Load: true, Title: "the same doorbells without BlueFlame (MLX5_SHUT_UP_BF=1)", needs: needsConnectX, do: func(t *trial) { t.doorbells(Config{}) },
		Env: map[string]string{"MLX5_SHUT_UP_BF": "1"},
	},
	{ID: "doorbells-unlocked", Load: true, Title: "the same doorbells of a QP that takes no lock", needs: needsConnectX, do: func(t *trial) { t.doorbells(Config{Unlocked: true}) }},
	{ID: "doorbells-storm", Load: true, Title: "the same doorbells while goroutines are preempted, and the collector runs", do: checkDoorbellStorm},
	{ID: "doorbells-shared", Load: true, Title: "doorbells of more QPs than registers, of one goroutine and of several", needs: needsConnectX, do: checkSharedDoorbells},
}

// doorbells posts requests with each number of segments and each length of inline data.
func (t *trial) doorbells(cfg Config) {
	sends, _, _ := t.sge()
	cfg.Cap = verbs.QPCap{SendWR: 37, SendSGE: sends, Inline: inlineSize(t)}
	l := t.link(cfg)
	inline := l.qp.Cap().Inline
	w := t.load(manyRequests)
	n := 0
	for round := 0; round < 8 || w.more(n); round++ {
		for size := range inline + 1 {
			data := pattern(n, size)
			l.send(verbs.SendWR{Opcode: verbs.OpWrite, InlineData: data, RemoteAddr: l.memory.Addr, RKey: l.memory.RKey})
			n++
			if size%8 == 7 { // the READ rings a doorbell of another request
				l.settle()
				l.same(fmt.Sprintf("inline WRITE of %d bytes", size), l.load(0, size), data)
			}
		}
		for elements := 1; elements <= sends; elements++ {
			wr := l.write(piece{}, 0)
			wr.SGList = l.elements(splits(0, elements, 64))
			l.send(wr)
			n++
		}
		for list := 1; list <= 8; list++ {
			wrs := make([]verbs.SendWR, list)
			for i := range wrs {
				wrs[i] = signaled(l.write(piece{0, 8}, 0))
			}
			l.post(wrs...)
			l.succeeded("WRITE in a list", l.sends(list))
			n += list
		}
	}
	t.noteLoad(w, n, "requests")
	t.note("inline data of up to %d bytes, up to %d elements, the slowest request took %v", inline, sends, l.slowest)
}

func checkDoorbellStorm(t *trial) {
	defer moreThreads()()
	ctx, cancel := context.WithCancel(t.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { t.note("%d collections", collect(ctx)) })
	defer wg.Wait()
	defer cancel()
	t.doorbells(Config{})
}

// The number of QPs must exceed the registers of a context, so that the last QPs share registers. With pages of 64 KiB, 20 registers
// belong to one QP each, and 12 to several QPs (provider/mlx5/uar.go). The goroutines use QPs that were created one after another. Therefore the
// QPs of one register belong to several goroutines.
const (
	ringers  = 4  // goroutines
	ringerQP = 12 // QPs of each goroutine
)

func checkSharedDoorbells(t *trial) {
	const rounds = 10
	l := t.link(Config{Cap: verbs.QPCap{SendWR: 8, RecvWR: 1, Inline: inlineSize(t)}, Memory: (ringers*ringerQP + 1) * ringSlot})
	var all []*link
	for range ringers {
		first := l.anotherQueue(8)
		all = append(all, first)
		for range ringerQP - 1 {
			all = append(all, first.another())
		}
	}
	w := t.load(manyRequests)
	n := 0
	for first := 0; first == 0 || w.more(n); first += 2 * rounds {
		t.must("one goroutine", ringInTurn(all, 0, first, rounds))
		var errs [ringers]error
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = ringInTurn(all[i*ringerQP:][:ringerQP], i*ringerQP, first+rounds, rounds) })
		}
		wg.Wait()
		t.must("several goroutines", errors.Join(errs[:]...))
		n += 2 * rounds * len(all) * 2 // WRITEs and READs
	}
	t.noteLoad(w, n, "requests")
	t.note("%d QPs, inline data of up to %d bytes", len(all), l.qp.Cap().Inline)
}

// ringSlot is the memory of a QP. WRITEs come from its first half, and READs go to its second half.
const ringSlot = 1024

// ringInTurn writes data by each link in turn, reads it back and compares it, in a number of rounds. The first link has the memory of a
// slot. The data depends on the number of the round, which begins with first.
func ringInTurn(links []*link, slot, first, rounds int) error {
	for round := range rounds {
		for i, l := range links {
			if err := l.ring((slot+i)*ringSlot, first+round); err != nil {
				return fmt.Errorf("QP %d of %d, round %d: %w", slot+i, slot+len(links), first+round, err)
			}
		}
	}
	return nil
}

// ring writes data to a slot of the far memory, reads it back and compares it. The data is in the request in two of three rounds.
func (l *link) ring(at, round int) error {
	near := l.mr.Bytes()[at:][:ringSlot]
	size := 1 + (at/ringSlot*13+round*29)%l.qp.Cap().Inline
	from := near[:size]
	fillPattern(from, at+round)
	write := l.write(piece{at, size}, at)
	if round%3 != 0 {
		write.SGList, write.InlineData = nil, from
	}
	into := piece{at + ringSlot/2, size}
	for _, wr := range []verbs.SendWR{write, l.read(into, at)} {
		if err := l.complete(wr); err != nil {
			return fmt.Errorf("%s of %d bytes: %w", opName(wr.Opcode), size, err)
		}
	}
	if got := near[ringSlot/2:][:size]; !bytes.Equal(got, from) {
		return fmt.Errorf("READ after WRITE of %d bytes: %s", size, difference(got, from))
	}
	return nil
}

// complete is like send, and returns an error. Any goroutine may call it.
func (l *link) complete(wr verbs.SendWR) error {
	if _, err := l.qp.PostSend([]verbs.SendWR{signaled(wr)}); err != nil {
		return err
	}
	wcs, err := wait(l.t.ctx, l.sendCQ, 1)
	switch {
	case err == nil:
		return wcs[0].Err()
	case errors.Is(err, errLost):
		return err
	}
	return fmt.Errorf("%w%s", err, l.kick())
}
