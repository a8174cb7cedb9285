// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net"
	"sync"
)

// childKind is the kind of an object that uses another one.
type childKind uint8

const (
	kindAdvice childKind = iota // no object, but a call
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

// refs counts the users of an object, by kind, and keeps it until the last of them has been
// destroyed.
type refs struct {
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
func (r *refs) add(k childKind) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.object != nil {
		return net.ErrClosed
	}
	r.count[k]++
	return nil
}

// whileOpen runs fn, unless the object is closed, and prevents closing it until fn returns.
func (r *refs) whileOpen(fn func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.object != nil {
		return net.ErrClosed
	}
	return fn()
}

// drop counts one less. It returns the error of destroying an object that was closed and has no
// users any more.
func (r *refs) drop(k childKind) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[k]--
	return r.end()
}

// close admits no more users, and ends the object as soon as it has none, now or with the last
// drop. It calls object.destroy until that has succeeded once, and then object.release once. close
// and retry may be called again after destroy has failed.
func (r *refs) close(object destroyer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.object = object
	return r.end()
}

// retry destroys an object that was closed and whose destruction has failed.
func (r *refs) retry() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end()
}

// isEnded reports whether the object has been destroyed.
func (r *refs) isEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// end destroys an object that was closed, if it has no users. The caller holds u.mu.
func (r *refs) end() error {
	if r.ended || r.object == nil || r.count != [numKinds]int32{} {
		return nil
	}
	if err := r.object.destroy(); err != nil {
		return err
	}
	r.ended = true
	return r.object.release()
}
