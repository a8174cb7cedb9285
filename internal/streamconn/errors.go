// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"errors"
	"io"
	"net"
)

var (
	errInvalidWrite = errors.New("streamconn: writer returned an invalid count from Write")
	errInvalidRead  = errors.New("streamconn: reader returned an invalid count from Read")
)

// opError wraps the error of an operation in a *net.OpError, as package net does. It returns nil
// and io.EOF as they are.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	local := c.p.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: c.p.RemoteAddr(), Err: err}
}
