// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"purerdma/test/microvm/wire"
)

// killGrace is how long a program may take to end after a signal that means
// the end.
const killGrace = 5 * time.Second

// A SignalError says that a signal ended rdmavm.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return fmt.Sprintf("ended by a signal (%v)", e.Signal) }

// Status is the exit status as a shell has it.
func (e *SignalError) Status() int { return 128 + int(e.Signal) }

// signal passes a signal on to the program. The program decides what it
// means; but if that is the end, the VM does not outlive it by much, and a
// second such signal ends it at once.
func (v *vm) signal(s os.Signal, again bool) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	v.mu.Lock()
	running := v.running
	v.mu.Unlock()
	if final(s) && (again || !running) {
		v.end(&SignalError{sig})
		return
	}
	// In its own goroutine: a guest that hangs takes no frames.
	go v.conn.Send(wire.Signal, []byte{byte(sig)})
	if final(s) {
		time.AfterFunc(killGrace, func() { v.end(&SignalError{sig}) })
	}
}

// final says whether a signal means the end.
func final(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP
}

// A relay hands signals to the virtual machines, or, while there are none
// yet, ends the preparations.
type relay struct {
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	vms    []*vm
	ending bool
}

func (r *relay) run(signals <-chan os.Signal) {
	for s := range signals {
		r.mu.Lock()
		vms, again := r.vms, r.ending
		r.ending = r.ending || final(s)
		r.mu.Unlock()
		for _, v := range vms {
			v.signal(s, again)
		}
		if sig, ok := s.(syscall.Signal); ok && vms == nil {
			r.cancel(&SignalError{sig})
		}
	}
}

func (r *relay) attach(vms []*vm) {
	r.mu.Lock()
	r.vms = vms
	r.mu.Unlock()
}
