// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// kind is what stands on an object.
type kind uint8

const (
	kindAdvice kind = iota // no object, but a call
	kindAH
	kindChannel
	kindMR
	kindMW
	kindQP
	kindRecvQueue
	kindSendQueue
	kindSRQ
	numKinds = iota
)

var kindNames = [numKinds]string{
	kindAdvice:    "calls of Advise",
	kindAH:        "address handles",
	kindChannel:   "completion queues",
	kindMR:        "memory regions",
	kindMW:        "memory windows",
	kindQP:        "queue pairs",
	kindRecvQueue: "receive queues",
	kindSendQueue: "send queues",
	kindSRQ:       "shared receive queues",
}

// users counts, by kind, what stands on an object, which does not close under it.
type users struct {
	mu     sync.Mutex
	count  [numKinds]int
	closed bool
}

// add counts one more; after close it returns net.ErrClosed.
func (u *users) add(k kind) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return net.ErrClosed
	}
	u.count[k]++
	return nil
}

// while runs fn, unless the object is closed, and keeps it from being closed
// meanwhile.
func (u *users) while(fn func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return net.ErrClosed
	}
	return fn()
}

// drop counts one less.
func (u *users) drop(k kind) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count[k]--
}

// close runs destroy until it has succeeded once, and then release once. It returns
// an error that wraps EBUSY while there are users, and destroy's own; in both cases
// it may be called again. An error of release is returned once: nothing is left to
// try again.
func (u *users) close(destroy, release func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if u.count != [numKinds]int{} {
		var kinds []string
		for k, n := range u.count {
			if n != 0 {
				kinds = append(kinds, fmt.Sprintf("%d %s", n, kindNames[k]))
			}
		}
		sort.Strings(kinds)
		return fmt.Errorf("in use by %s: %w", strings.Join(kinds, ", "), syscall.EBUSY)
	}
	if err := destroy(); err != nil {
		return err
	}
	u.closed = true
	return release()
}
