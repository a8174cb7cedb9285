// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Interrupts are a function's MSI-X vectors. Any goroutine may raise them.
type Interrupts struct {
	mu      sync.Mutex
	vectors []int // eventfd of each vector, -1 if it is disabled
}

// NewInterrupts returns n vectors, all disabled, for one Server.
func NewInterrupts(n int) *Interrupts {
	return &Interrupts{vectors: slices.Repeat([]int{-1}, n)}
}

// Raise signals a vector, and returns whether the client has enabled it.
func (x *Interrupts) Raise(vector int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if vector < 0 || vector >= len(x.vectors) || x.vectors[vector] < 0 {
		return false
	}
	// An eventfd whose counter is full has been signaled already. The client owns the file,
	// which must not block the server.
	one := [8]byte{1}
	p := []unix.PollFd{{Fd: int32(x.vectors[vector]), Events: unix.POLLOUT}}
	if n, err := unix.Poll(p, 0); n == 1 && err == nil && p[0].Revents&unix.POLLOUT != 0 {
		unix.Write(x.vectors[vector], one[:])
	}
	return true
}

// set sets the eventfds of vectors from start on, and takes ownership of them. An eventfd of -1
// disables a vector.
func (x *Interrupts) set(start int, fds []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, fd := range fds {
		if old := x.vectors[start+i]; old >= 0 {
			unix.Close(old)
		}
		x.vectors[start+i] = fd
	}
}

// disable closes all eventfds.
func (x *Interrupts) disable() { x.set(0, slices.Repeat([]int{-1}, len(x.vectors))) }
