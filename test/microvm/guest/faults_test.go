// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"net"
	"testing"

	"purerdma/test/microvm/wire"
)

// TestFaults checks that each program gets the answer to its own line, and that lines are
// handled one after the other.
func TestFaults(t *testing.T) {
	host, guest := net.Pipe()
	defer host.Close()
	f := &faults{conn: wire.NewConn(guest), answers: make(chan string, 1)}
	answers := make(chan string)
	ask := func(line string) { answers <- line + ": " + f.ask(line) }
	go ask("a")
	go ask("b")
	h := wire.NewConn(host)
	for range 2 {
		kind, data, err := h.Receive()
		if kind != wire.Fault || err != nil {
			t.Fatalf("Receive = frame %q with %q, %v, want a fault", kind, data, err)
		}
		f.answers <- "no " + string(data)
		if got, want := <-answers, string(data)+": no "+string(data); got != want {
			t.Errorf("answer = %q, want %q", got, want)
		}
	}
	guest.Close()
	go ask("c")
	if got := <-answers; got == "c: " {
		t.Error("the answer of a closed connection is empty, want an error")
	}
}
