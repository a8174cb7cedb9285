// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Memory is memory of the program to lend. The zero Memory has no bytes.
type Memory struct {
	// Bytes is the memory, for example of a pool.Buf or of the Go heap.
	Bytes []byte
	// MR may be nil. It saves the registration of Bytes on a device with memory windows of type 2. Then
	// MR has the Bytes, is on Conn.PD, and has the right MWBind. It also has LocalWrite for memory that the
	// peer writes. MR needs no rights for peers.
	MR *verbs.MR
}

// offset returns the offset of the bytes in MR, and whether a window with these rights can be bound to them.
func (m *Memory) offset(pd *verbs.PD, access verbs.Access) (int, bool) {
	need := verbs.MWBind
	if access&verbs.RemoteWrite != 0 {
		need |= verbs.LocalWrite
	}
	if m.MR == nil || m.MR.PD() != pd || m.MR.Access()&need != need {
		return 0, false
	}
	off, size := uint64(reflect.ValueOf(m.Bytes).Pointer())-m.MR.Addr(), uint64(m.MR.Len())
	return int(off), off < size && uint64(len(m.Bytes)) <= size-off
}

// Loan is memory that the peer of a connection can reach until Close. Its methods may be called concurrently.
type Loan struct {
	conn  *Conn
	token Token

	mu     sync.Mutex // guards the following fields, of which one is nil
	mr     *verbs.MR
	window *verbs.MW
	closed bool
}

// loans are the lent memory of a Conn. Conn.mu guards it.
type loans struct {
	open    map[*Loan]struct{}
	windows []*verbs.MW // unused and unbound
	// bound counts the windows that are bound, or that a request in the send queue binds.
	bound int
}

// Lend lets the peer read or write memory until Loan.Close, or until the connection is closed. access is
// verbs.RemoteRead, verbs.RemoteWrite or both. No other peer can reach the memory, because each connection has
// a protection domain of its own, and the peer reaches no other memory with the token. ctx bounds the
// wait for the device.
//
// The program uses the memory for nothing else before Loan.Close has returned. Bytes that the peer may write
// can change at any time until then.
func (c *Conn) Lend(ctx context.Context, mem Memory, access verbs.Access) (*Loan, error) {
	cdev.NeedContext(ctx)
	if err := ended(ctx); err != nil {
		return nil, c.opError(opLend, err)
	}
	l, err := c.lend(mem, access)
	if err == nil && l.window != nil {
		// The token may reach the peer before the device has bound the window.
		if err = c.awaitSends(ctx); err != nil {
			err = errors.Join(err, l.revoke(c.opts.grace))
		}
	}
	if err != nil {
		return nil, c.opError(opLend, err)
	}
	return l, nil
}

// lend makes memory reachable for the peer. A window is bound before later requests of the send queue.
func (c *Conn) lend(mem Memory, access verbs.Access) (*Loan, error) {
	if err := checkRights(access); err != nil {
		return nil, err
	}
	if len(mem.Bytes) == 0 {
		return nil, fmt.Errorf("no bytes: %w", syscall.EINVAL)
	}
	l := &Loan{conn: c}
	var remote verbs.RemoteMemory
	if off, ok := mem.offset(c.PD(), access); ok && c.binds {
		l.window = c.getWindow() // nil if the device has no more
		if l.window != nil {
			wr := l.window.Bind(mem.MR, off, len(mem.Bytes), access)
			c.countBound(1)
			if err := c.queue.Post(&wr, nil, c.failed); err != nil {
				c.countBound(-1)
				return nil, errors.Join(err, l.window.Close())
			}
			remote = l.window.Remote()
		}
	}
	if l.window == nil {
		local := access
		if access&verbs.RemoteWrite != 0 {
			local |= verbs.LocalWrite
		}
		mr, err := c.PD().RegMR(mem.Bytes, local)
		if err != nil {
			return nil, err
		}
		l.mr, remote = mr, mr.Remote()
	}
	l.token = Token{remote, access}
	c.mu.Lock()
	err := c.err
	if err == nil {
		c.loans.open[l] = struct{}{}
	}
	c.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, l.revoke(c.opts.grace))
	}
	return l, nil
}

// Token returns the token with which the peer reaches the memory.
func (l *Loan) Token() Token { return l.token }

// Close takes the memory back. When it returns without an error, the peer can no longer reach the memory. A
// peer that tries loses the connection. If the device does not take the memory back within 20 seconds, for
// example because the peer's device does not answer, Close ends the connection first. Close may be called
// more than once. After an error it tries again.
func (l *Loan) Close() error {
	if err := l.revoke(l.conn.opts.unbind); err != nil {
		return l.conn.opError(opRevoke, err)
	}
	return nil
}

// revoke ends the loan. bound limits the wait for the device to unbind a window. A bound of 0 means that no request
// in the send queue names the window any more. Then it is not used again.
func (l *Loan) revoke(bound time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conn
	if l.closed {
		return nil
	}
	if err := l.takeBack(bound); err != nil {
		return err
	}
	l.closed = true
	c.mu.Lock()
	delete(c.loans.open, l)
	if l.window != nil {
		c.loans.bound--
	}
	c.mu.Unlock()
	return nil
}

// takeBack closes the memory region, or takes back the window. It closes a window only when no request in the
// send queue names it. The caller holds the lock.
func (l *Loan) takeBack(bound time.Duration) error {
	c := l.conn
	switch {
	case l.mr != nil:
		return l.mr.Close()
	case bound == 0:
	case c.unbind(l.window, bound):
		c.putWindow(l.window)
		return nil
	default:
		if err := c.flush(); err != nil {
			return err
		}
	}
	return l.window.Close()
}

// countBound adds n to the number of bound windows.
func (c *Conn) countBound(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loans.bound += n
}

// bindsWindows reports whether memory is lent by windows of type 2. rxe is left out because of its faults
// (docs/reference/driver-faults.md). It ignores the bounds of windows, and may bind one twice after lost
// packets. A peer's SEND_WITH_INV of an unbound one crashes the kernel.
func bindsWindows(dev *verbs.Device) bool {
	f := dev.Features()
	return f.MWType2 && f.LocalInv && dev.DriverID() != abi.RDMA_DRIVER_RXE
}

// getWindow returns a window that is not bound, nil if the device has no more.
func (c *Conn) getWindow() *verbs.MW {
	c.mu.Lock()
	if n := len(c.loans.windows); n > 0 {
		w := c.loans.windows[n-1]
		c.loans.windows = c.loans.windows[:n-1]
		c.mu.Unlock()
		return w
	}
	c.mu.Unlock()
	w, err := c.PD().AllocMW(verbs.MWType2)
	if err != nil {
		return nil
	}
	return w
}

// putWindow takes back a window that is not bound.
func (c *Conn) putWindow(w *verbs.MW) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.loans.windows = append(c.loans.windows, w)
	}
	c.mu.Unlock()
	if closed {
		_ = w.Close() // it is not bound, and the kernel frees it with the process
	}
}

// patience returns the bound for the end of the loans of a call with a context.
func (c *Conn) patience(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return c.opts.grace
	}
	return c.opts.unbind
}

// unbind invalidates a window. It reports whether it has. If the device does not execute the request in time, the
// connection fails. After a failure a request in the send queue may still name the window.
func (c *Conn) unbind(w *verbs.MW, bound time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	op, err := c.queue.Start(ctx, &verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: w.RKey()}, nil)
	if err == nil {
		defer op.Abandon()
		err = op.Wait(ctx)
	}
	if err != nil && ctx.Err() != nil {
		c.mu.Lock()
		c.fail(fmt.Errorf("unbind lent memory: %w", cdev.ContextError(ctx)))
		c.mu.Unlock()
	}
	return err == nil
}

// flush ends the use of all objects that the requests of the send queue name. It moves the QP to the error state
// and waits for a request behind all others. If that does not complete, it closes the QP.
func (c *Conn) flush() error {
	qp := c.conn.QP()
	_ = qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
	op, err := c.queue.Submit(&verbs.SendWR{Opcode: verbs.OpWrite}, nil)
	if err == nil {
		defer op.Abandon()
		err = awaitFor(op, closeGrace)
	}
	if _, completed := errors.AsType[*verbs.WCError](err); completed || err == nil {
		return nil
	}
	return qp.Close()
}

// closeLoans takes back all lent memory before the end of the connection.
func (c *Conn) closeLoans() error {
	c.mu.Lock()
	bound := c.loans.bound
	c.mu.Unlock()
	if bound > 0 {
		if err := c.flush(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	var open []*Loan
	for l := range c.loans.open {
		open = append(open, l)
	}
	windows := c.loans.windows
	c.loans.windows = nil
	c.mu.Unlock()
	var errs []error
	for _, l := range open {
		errs = append(errs, l.revoke(0))
	}
	for _, w := range windows {
		if err := w.Close(); err != nil {
			errs = append(errs, err)
			c.mu.Lock()
			c.loans.windows = append(c.loans.windows, w)
			c.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// takeBack ends the loans of a call. If a device keeps the memory, it closes the QP, which also ends the
// access of the peer. bound is as in Loan.revoke.
func (c *Conn) takeBack(lent []*Loan, bound time.Duration) error {
	var errs []error
	for _, l := range lent {
		if err := l.revoke(bound); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	err := errors.Join(errs...)
	c.mu.Lock()
	c.fail(err)
	c.mu.Unlock()
	return errors.Join(err, c.conn.QP().Close())
}
