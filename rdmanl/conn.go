// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"purerdma/abi"
	"purerdma/internal/leak"
)

// Conn is a socket for requests. It is safe for concurrent use, and runs one request at a time.
//
// The kernel executes a request within the call that sends it. Calls have no context because nothing
// can interrupt that execution. Only the methods with a note in their doc comment can take long.
type Conn struct {
	mu     sync.Mutex
	socket socket // nil after Close
	limit  int    // objects in a list
	leak   *leak.Entry
}

// socket sends requests.
type socket interface {
	// exchange sends a request and passes each message of the answer to each. A request with dump
	// returns a list. A request with ack has no answer other than an errno. If exchange returns an
	// *incompleteError, parts of the answer may still come.
	exchange(r *request, dump, ack bool, each func(value) error) error
	close()
}

// incompleteError reports that exchange has not read the whole answer.
type incompleteError struct{ err error }

func (e *incompleteError) Error() string { return e.err.Error() }

func (e *incompleteError) Unwrap() error { return e.err }

// Dial opens a socket in the network namespace of the calling thread. A kernel without RDMA returns
// EPROTONOSUPPORT, if it cannot load the module ib_core.
func Dial() (*Conn, error) {
	s, err := dial()
	if err != nil {
		return nil, &OpError{Op: "open NETLINK_RDMA", Err: err}
	}
	return &Conn{socket: s, limit: maxObjects, leak: leak.Track("rdmanl.Conn", "NETLINK_RDMA")}, nil
}

// Close closes the socket. Calls that follow return net.ErrClosed. Close always returns nil, and may be
// called more than once.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close()
	return nil
}

func (c *Conn) close() {
	if c.socket != nil {
		c.socket.close()
		c.socket = nil
		c.leak.Done()
	}
}

// exchange runs a request. After an answer that was not read completely, it closes the socket,
// because the rest of the answer would delay all further answers.
func (c *Conn) exchange(r *request, dump, ack bool, each func(value) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == nil {
		return net.ErrClosed
	}
	err := c.socket.exchange(r, dump, ack, each)
	if incomplete, ok := errors.AsType[*incompleteError](err); ok {
		c.close()
		return incomplete.err
	}
	return err
}

// get runs a request with one message as its answer.
func (c *Conn) get(r *request) (value, error) {
	var answer value
	answered := false
	err := c.exchange(r, false, false, func(m value) error {
		answer, answered = m, true
		return nil
	})
	if err == nil && !answered {
		err = errNoAnswer
	}
	return answer, r.wrap(err)
}

// set runs a request without an answer.
func (c *Conn) set(r *request) error {
	return r.wrap(c.exchange(r, false, true, func(value) error { return nil }))
}

const (
	// dumpAttempts bounds the requests for a list that changes while the kernel returns it.
	dumpAttempts = 4
	// maxObjects bounds a list. Numbers of QPs and keys of memory have 24 bits.
	maxObjects = 1 << 24
	// maxEmpty bounds the consecutive messages of a list that have no object. If an object is larger
	// than a message, kernels send messages without an object for ever (res_get_common_dumpit).
	// Otherwise at most one message is empty, when the requested port has none of the last objects.
	maxEmpty = 8
)

// list runs a request for a list. parse returns the objects of one message.
func list[T any](c *Conn, r *request, parse func(value) []T) ([]T, error) {
	for range dumpAttempts {
		var all []T
		empty := 0
		err := c.exchange(r, true, false, func(m value) error {
			objects := parse(m)
			if empty++; len(objects) > 0 {
				empty = 0
			}
			if empty > maxEmpty {
				return errEndless
			}
			if len(all)+len(objects) > c.limit {
				return errTooLong
			}
			all = append(all, objects...)
			return nil
		})
		if !errors.Is(err, errInterrupted) {
			return all, r.wrap(err)
		}
	}
	return nil, r.wrap(errChanging)
}

// wrap adds the operation and the object to an error.
func (r *request) wrap(err error) error {
	if err == nil {
		return nil
	}
	e := &OpError{Op: r.op, Object: r.object, Err: err}
	if refused, ok := errors.AsType[*refusal](err); ok {
		e.Err, e.Message = refused.errno, refused.message
	}
	return e
}

// device adds the index of the device that a request is for.
func (r *request) device(index uint32) *request {
	r.object = fmt.Sprintf("device %d", index)
	return r.addU32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, index)
}

// port adds the number of the port that a request is for. It follows device.
func (r *request) port(number uint32) *request {
	r.object += fmt.Sprintf(" port %d", number)
	return r.addU32(abi.RDMA_NLDEV_ATTR_PORT_INDEX, number)
}
