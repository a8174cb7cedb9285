// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"purerdma/verbs"
)

// maxAddresses is the maximum number of addresses in one exchange, as in ibv_srq_pingpong.
const maxAddresses = 256

// confirmation is the last message of an exchange, sent by the active side.
const confirmation = "done\x00"

// Stage is a step of an exchange.
type Stage uint8

// Steps of an exchange. Their texts follow "cannot".
const (
	StageSend Stage = iota + 1
	StageReceive
	StageConfirm
)

// String describes the step.
func (s Stage) String() string {
	switch s {
	case StageSend:
		return "send local address"
	case StageReceive:
		return "receive remote address"
	case StageConfirm:
		return "confirm"
	}
	return fmt.Sprintf("Stage(%d)", uint8(s))
}

// ExchangeError reports a failed exchange of addresses. It wraps the error of the connection or
// of the context. If the peer left, it wraps io.ErrUnexpectedEOF, and if the peer sent no valid
// address, EBADMSG.
type ExchangeError struct {
	Peer  net.Addr
	Stage Stage
	Index int // index of the address
	Bytes int // number of received bytes of the address
	Err   error
}

// Error returns the peer, the step and the cause.
func (e *ExchangeError) Error() string {
	return fmt.Sprintf("exchange of QP addresses with %v: %v [%d]: %v", e.Peer, e.Stage, e.Index, e.Err)
}

// Unwrap returns Err.
func (e *ExchangeError) Unwrap() error { return e.Err }

// Active runs the exchange on the side that sends first. It sends its own addresses, receives
// as many, passes them to connect, and then confirms to the peer that it may send. If connect
// fails, it sends no confirmation. The caller closes the connection, which is unusable after an
// error. The end of ctx ends the exchange.
func Active(ctx context.Context, conn net.Conn, own []Address, connect func(remote []Address) error) ([]Address, error) {
	x, err := begin(ctx, conn, len(own))
	if err != nil {
		return nil, err
	}
	defer x.end()
	if err := x.send(own); err != nil {
		return nil, err
	}
	remote, err := x.receive(len(own))
	if err != nil {
		return nil, err
	}
	if connect != nil {
		if err := connect(remote); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write([]byte(confirmation)); err != nil {
		return nil, x.failed(StageConfirm, 0, 0, err)
	}
	return remote, nil
}

// Passive runs the exchange on the other side. It receives as many addresses as own has and
// passes them to connect, which must make its QPs ready to receive. Then it sends its own
// addresses and waits for the active side's confirmation. Errors, conn and ctx are as in
// Active.
func Passive(ctx context.Context, conn net.Conn, own []Address, connect func(remote []Address) error) ([]Address, error) {
	x, err := begin(ctx, conn, len(own))
	if err != nil {
		return nil, err
	}
	defer x.end()
	remote, err := x.receive(len(own))
	if err != nil {
		return nil, err
	}
	if connect != nil {
		if err := connect(remote); err != nil {
			return nil, err
		}
	}
	if err := x.send(own); err != nil {
		return nil, err
	}
	var done [len(confirmation)]byte
	if n, err := io.ReadFull(conn, done[:]); err != nil {
		return nil, x.failed(StageConfirm, 0, n, err)
	}
	if string(done[:]) != confirmation {
		return nil, x.failed(StageConfirm, 0, len(done), fmt.Errorf("%q: %w", done[:], syscall.EBADMSG))
	}
	return remote, nil
}

// ConnectActive connects a QP in state INIT with the QP of the peer, which calls
// ConnectPassive. Afterwards both are in RTS and may send. It exchanges the addresses as Active
// does, and the caller remains the owner of conn. For a UD QP, remote is the address for
// Path.AH.
func ConnectActive(ctx context.Context, conn net.Conn, qp *verbs.QP, p *Path, own Address) (remote Address, err error) {
	return one(Active(ctx, conn, []Address{own}, func(r []Address) error { return p.Connect(qp, own, r[0]) }))
}

// ConnectPassive is the other side of ConnectActive. It exchanges the addresses as Passive
// does.
func ConnectPassive(ctx context.Context, conn net.Conn, qp *verbs.QP, p *Path, own Address) (remote Address, err error) {
	return one(Passive(ctx, conn, []Address{own}, func(r []Address) error { return p.Connect(qp, own, r[0]) }))
}

func one(remote []Address, err error) (Address, error) {
	if err != nil {
		return Address{}, err
	}
	return remote[0], nil
}

// exchange is an exchange in progress.
type exchange struct {
	ctx  context.Context
	conn net.Conn
	stop func() bool
	rang chan struct{} // closed after the end of ctx was handled
}

func begin(ctx context.Context, conn net.Conn, n int) (*exchange, error) {
	if ctx == nil {
		panic("nil context")
	}
	if n < 1 || n > maxAddresses {
		return nil, fmt.Errorf("exchange of %d QP addresses: %w", n, syscall.EINVAL)
	}
	x := &exchange{ctx: ctx, conn: conn, rang: make(chan struct{})}
	x.stop = context.AfterFunc(ctx, func() {
		defer close(x.rang)
		conn.SetDeadline(time.Unix(1, 0)) // in the past
	})
	return x, nil
}

// end removes the deadline from the connection.
func (x *exchange) end() {
	if !x.stop() {
		<-x.rang
		x.conn.SetDeadline(time.Time{})
	}
}

func (x *exchange) failed(s Stage, index, n int, err error) error {
	if x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &ExchangeError{Peer: x.conn.RemoteAddr(), Stage: s, Index: index, Bytes: n, Err: err}
}

func (x *exchange) send(own []Address) error {
	b := make([]byte, 0, len(own)*AddressLen)
	for _, a := range own {
		b = a.append(b)
	}
	if n, err := x.conn.Write(b); err != nil {
		return x.failed(StageSend, n/AddressLen, n%AddressLen, err)
	}
	return nil
}

func (x *exchange) receive(n int) ([]Address, error) {
	remote := make([]Address, n)
	var msg [AddressLen]byte
	for i := range remote {
		got, err := io.ReadFull(x.conn, msg[:])
		if err == nil {
			remote[i], err = ParseAddress(msg[:])
		}
		if err != nil {
			return nil, x.failed(StageReceive, i, got, err)
		}
	}
	return remote, nil
}
