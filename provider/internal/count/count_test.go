// SPDX-License-Identifier: Apache-2.0

package count

import (
	"reflect"
	"testing"

	"purerdma/provider"
)

// TestSends compares the counts after batches and discards with the requests.
func TestSends(t *testing.T) {
	var s Sends
	var want provider.SendCounts
	check := func(what string) {
		t.Helper()
		if got := s.Counts(); got != want {
			t.Errorf("Sends.Counts() after %s = %v, want %v", what, got, want)
		}
	}
	discard := func(what string, requests int) {
		t.Helper()
		s.Begin()
		for i := range requests {
			s.Add(provider.OpAtomicWrite, uint64(i))
		}
		s.Discard()
		check(what)
	}
	check("nothing")
	discard("an empty batch", 0)
	discard("a discarded first batch", 3)

	s.Begin()
	s.Add(provider.OpSend, 5)
	s.Add(provider.OpSend, 0)
	want[provider.OpSend] = provider.Count{Operations: 2, Bytes: 5}
	check("a posted batch")
	s.Add(provider.OpWrite, 1<<40)
	want[provider.OpWrite] = provider.Count{Operations: 1, Bytes: 1 << 40}
	check("a request without a batch")
	discard("a discarded batch", 2)
	s.Discard()
	check("a second discard")
}

// TestFirstBatchPosted discards the second batch, when the first one was posted.
func TestFirstBatchPosted(t *testing.T) {
	var s Sends
	s.Begin()
	s.Add(provider.OpRead, 7)
	s.Begin()
	s.Add(provider.OpRead, 8)
	s.Discard()
	if got, want := s.Counts()[provider.OpRead], (provider.Count{Operations: 1, Bytes: 7}); got != want {
		t.Errorf("Sends.Counts() = %v READs, want %v", got, want)
	}
}

// TestCompletions counts a completion of each status, and of one without a name.
func TestCompletions(t *testing.T) {
	var c Completions
	if got := c.Counts(); got != (provider.CQCounts{}) {
		t.Errorf("Completions.Counts() = %v, want zeros", got)
	}
	var want provider.CQCounts
	for s := range provider.WCGeneralErr + 2 {
		c.Add(&provider.WC{Status: s, Opcode: provider.WCRecv, ByteLen: 9})
		c.Add(&provider.WC{Status: s, Opcode: provider.WCSend, ByteLen: 9})
		want.Completions[min(s, provider.WCGeneralErr)] += 2
	}
	want.Received = provider.Count{Operations: 1, Bytes: 9}
	if got := c.Counts(); got != want {
		t.Errorf("Completions.Counts() = %v, want %v", got, want)
	}
}

// TestIdle checks the size of the counters of a queue without requests, and that counting allocates nothing
// after the first request.
func TestIdle(t *testing.T) {
	if s, c := reflect.TypeFor[Sends]().Size(), reflect.TypeFor[Completions]().Size(); s > 16 || c > 32 {
		t.Errorf("sizes of Sends and Completions = %d and %d bytes, want at most 16 and 32", s, c)
	}
	var s Sends
	var c Completions
	failed := provider.WC{Status: provider.WCWRFlushErr}
	if n := testing.AllocsPerRun(100, func() {
		s.Add(provider.OpSend, 1)
		s.Begin()
		s.Add(provider.OpSend, 1)
		s.Discard()
		c.Add(&failed)
		c.Add(&provider.WC{})
	}); n != 0 {
		t.Errorf("allocations of counting = %v, want 0", n)
	}
}
