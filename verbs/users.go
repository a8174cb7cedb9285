// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net"
	"sync"
)

// kind is the kind of an object that uses another one.
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

// users counts the users of an object, by kind, and keeps it until the last of them has been
// destroyed.
type users struct {
	mu     sync.Mutex
	count  [numKinds]int32
	ended  bool      // object.destroy has succeeded
	object destroyer // nil before close
}

// destroyer is an object with users.
type destroyer interface {
	destroy() error // in the kernel
	release() error // releases the resources of the destroyed object
}

// add counts one more. After close it returns net.ErrClosed.
func (u *users) add(k kind) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.object != nil {
		return net.ErrClosed
	}
	u.count[k]++
	return nil
}

// while runs fn, unless the object is closed, and prevents closing it until fn returns.
func (u *users) while(fn func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.object != nil {
		return net.ErrClosed
	}
	return fn()
}

// drop counts one less. It returns the error of destroying an object that was closed and has no
// users any more.
func (u *users) drop(k kind) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count[k]--
	return u.end()
}

// close admits no more users, and ends the object as soon as it has none, now or with the last
// drop. It calls object.destroy until that has succeeded once, and then object.release once. close
// and retry may be called again after destroy has failed.
func (u *users) close(object destroyer) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.object = object
	return u.end()
}

// retry destroys an object that was closed and whose destruction has failed.
func (u *users) retry() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.end()
}

// isEnded reports whether the object has been destroyed.
func (u *users) isEnded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// end destroys an object that was closed, if it has no users. The caller holds u.mu.
func (u *users) end() error {
	if u.ended || u.object == nil || u.count != [numKinds]int32{} {
		return nil
	}
	if err := u.object.destroy(); err != nil {
		return err
	}
	u.ended = true
	return u.object.release()
}
