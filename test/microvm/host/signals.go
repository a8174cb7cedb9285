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

// killGrace is the time that a program has to end after a terminating signal.
const killGrace = 5 * time.Second

// A SignalError reports that a signal ended rdmavm.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return fmt.Sprintf("ended by a signal (%v)", e.Signal) }

// Status returns the exit status that a shell would report.
func (e *SignalError) Status() int { return 128 + int(e.Signal) }

// signal passes a signal on to the program, which decides on its effect. If it is a terminating
// signal, the VM ends soon afterwards. A second terminating signal ends it at once.
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
	// Use a goroutine, because a guest that hangs does not read frames.
	go v.conn.Send(wire.Signal, []byte{byte(sig)})
	if final(s) {
		time.AfterFunc(killGrace, func() { v.end(&SignalError{sig}) })
	}
}

// final reports whether a signal is a terminating signal.
func final(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP
}

// A relay passes signals to the virtual machines. Before they run, it ends the preparations
// instead.
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
