// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"

	"purerdma/verbs"
)

// orderChecks compare data whose order the specification guarantees.
var orderChecks = []Check{
	{ID: "completion-data", Title: "all data is in memory when its completion is polled", do: checkCompletionData},
	{ID: "read-after-write", Title: "READ after WRITE of one QP returns the written data", do: checkReadAfterWrite},
	{ID: "fence", Title: "fenced WRITE of data that a READ before it fetches", do: checkFence},
}

// checkCompletionData compares data right after the poll of the completion. A WRITE before each message has its
// data elsewhere.
func checkCompletionData(t *trial) {
	s := Stream{Count: 3000, Min: 1, Span: 6000, Elements: 1, Depth: 64, Writes: true}
	t.link(s.config()).stream(s, nil)
}

func checkReadAfterWrite(t *trial) {
	l := t.link(Config{Memory: 256 << 10})
	near := l.mr.Bytes()
	const to = 128 << 10
	for round := range 300 {
		size := []int{1, 8, 32, 64, 100, 4096, 5000, 65536}[round%8]
		fillPattern(near[:size], round)
		clear(near[to:][:size])
		l.post(l.write(piece{0, size}, 0), signaled(l.read(piece{to, size}, 0)))
		l.succeeded("READ after WRITE", l.sends(1))
		l.same(fmt.Sprintf("READ after WRITE of %d bytes", size), near[to:][:size], near[:size])
	}
}

func checkFence(t *trial) {
	l := t.link(Config{Memory: 256 << 10})
	const from, to = 0, 128 << 10
	for round := range 150 {
		size := []int{1, 8, 32, 64, 100, 4096, 5000, 65536}[round%8]
		data := pattern(round, size)
		l.store(from, data)
		clear(l.mr.Bytes()[:size])
		wr := l.write(piece{0, size}, to)
		wr.Flags = verbs.SendFence | verbs.SendSignaled
		l.post(l.read(piece{0, size}, from), wr)
		l.succeeded("fenced WRITE", l.sends(1))
		l.settle()
		l.same(fmt.Sprintf("fenced WRITE of %d bytes after their READ", size), l.load(to, size), data)
	}
}
