// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"testing"
	"time"

	"purerdma/provider"
)

// Memory is registered memory that the peer has all access rights to.
type Memory struct {
	Bytes      []byte
	Addr       uint64
	LKey, RKey uint32
}

// sge returns an element of n bytes at offset off.
func (m *Memory) sge(off, n int) provider.SGE {
	return provider.SGE{Addr: m.Addr + uint64(off), Length: uint32(n), LKey: m.LKey}
}

// End is one side of a connection.
type End struct {
	QP provider.QP // reliable connected, in RTS
	CQ provider.CQ // only of its sends and receives
	// Mem is at least MemSize bytes of the QP's PD.
	Mem *Memory
}

// MemSize is the size of the memory that each end needs, in bytes.
const MemSize = 256 << 10

// Suite describes a provider to the conformance suite.
type Suite struct {
	// Pair connects two queue pairs with at least this capacity. It closes them and their other
	// objects when the test ends. The test may close the QP and the CQ earlier. The first end
	// sends to the second end first.
	Pair func(t testing.TB, cap provider.QPCap) (*End, *End)
	// Ops are the operations that a reliable connection has.
	Ops []provider.SendOpcode
	// RecvSGE is the maximum number of elements of a receive, or 0 if two and more fit.
	RecvSGE int
	// Delay is longer than any request takes.
	Delay time.Duration
}

// Run runs all tests.
func (s *Suite) Run(t *testing.T) {
	t.Run("Sizes", s.testSizes)
	t.Run("Operations", s.testOperations)
	t.Run("Unsupported", s.testUnsupported)
	t.Run("Order", s.testOrder)
	t.Run("Full", s.testFull)
	t.Run("Refused", s.testRefused)
	t.Run("Batch", s.testBatch)
	t.Run("Flush", s.testFlush)
	t.Run("RemoteError", s.testRemoteError)
	t.Run("Closed", s.testClosed)
	t.Run("NoAllocs", s.testNoAllocs)
}

// recvSGE returns the number of elements that tests receive into, which is at most n.
func (s *Suite) recvSGE(n int) int {
	if s.RecvSGE != 0 {
		return min(n, s.RecvSGE)
	}
	return n
}

func (s *Suite) has(op provider.SendOpcode) bool {
	for _, o := range s.Ops {
		if o == op {
			return true
		}
	}
	return false
}

// collect polls n completions from the queue.
func (s *Suite) collect(t testing.TB, e *End, n int) []provider.WC {
	t.Helper()
	var got []provider.WC
	wcs := make([]provider.WC, 8)
	for end := time.Now().Add(s.Delay); len(got) < n; {
		k, err := e.CQ.Poll(wcs[:min(len(wcs), n-len(got))])
		if err != nil {
			t.Fatalf("CQ.Poll: %v", err)
		}
		got = append(got, wcs[:k]...)
		if k == 0 {
			if time.Now().After(end) {
				t.Fatalf("collect = %d completions, want %d: %+v", len(got), n, got)
			}
			time.Sleep(50 * time.Microsecond)
		}
	}
	return got
}

// ok collects n successful completions.
func (s *Suite) ok(t testing.TB, e *End, n int) []provider.WC {
	t.Helper()
	got := s.collect(t, e, n)
	for i := range got {
		if err := got[i].Err(); err != nil {
			t.Fatalf("completion failed: %v", err)
		}
		if got[i].QPNum != e.QP.Num() {
			t.Fatalf("QPNum of the completion = %#x, want %#x", got[i].QPNum, e.QP.Num())
		}
	}
	return got
}

// eventually waits until done returns true. A WRITE of iWARP completes before its bytes have
// arrived.
func (s *Suite) eventually(done func() bool) bool {
	for end := time.Now().Add(s.Delay); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func send(t testing.TB, e *End, wrs ...provider.SendWR) {
	t.Helper()
	if n, err := e.QP.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatalf("PostSend = %d, %v, want %d, nil", n, err, len(wrs))
	}
}

func recv(t testing.TB, e *End, wrs ...provider.RecvWR) {
	t.Helper()
	if n, err := e.QP.PostRecv(wrs); n != len(wrs) || err != nil {
		t.Fatalf("PostRecv = %d, %v, want %d, nil", n, err, len(wrs))
	}
}

// fill fills b with bytes that depend on their position and on a seed.
func fill(b []byte, seed int) []byte {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}
