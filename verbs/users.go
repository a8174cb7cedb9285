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
	// What ends the object when its last user has gone, as for close; nil before release.
	atEnd, afterEnd func() error
}

// add counts one more; after close or release it returns net.ErrClosed.
func (u *users) add(k kind) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.atEnd != nil {
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

// drop counts one less. It returns the error of destroying an object that was released
// and has no users any more.
func (u *users) drop(k kind) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count[k]--
	return u.end()
}

// release lets nobody in any more, and runs both functions as close does when the last
// user has gone. If destroy fails then, close, release or retry tries it again.
func (u *users) release(destroy, release func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.atEnd, u.afterEnd = destroy, release
	return u.end()
}

// retry destroys an object that was released and whose destruction has failed.
func (u *users) retry() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.end()
}

// end destroys an object that was released, if it has no users. The caller holds u.mu.
func (u *users) end() error {
	if u.closed || u.atEnd == nil || u.count != [numKinds]int{} {
		return nil
	}
	if err := u.atEnd(); err != nil {
		return err
	}
	u.closed = true
	return u.afterEnd()
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
