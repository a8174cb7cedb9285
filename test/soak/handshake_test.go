// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// handshakesAtOnce bounds the connect requests of this process that have no answer. The peer makes the
// objects of its side before it answers, so many requests at a time have slow answers.
const handshakesAtOnce = 8

// siwAnswerTime is the time that siw waits for the answer to a connect request (MPAREQ_TIMEOUT in siw_cm.h).
// Programs cannot change it, and a busy emulated machine may need longer.
const siwAnswerTime = 10 * time.Second

// errLate reports that siw abandoned a connect request after siwAnswerTime.
var errLate = errors.New("no answer in the time that siw waits")

// listen returns a listener that leaves the time of a handshake to passive.
func (n *node) listen() (*cm.Listener, error) {
	lc := &cm.ListenConfig{Host: n.rdma, HandshakeTimeout: n.s.patience}
	return lc.Listen(context.Background(), "tcp", netip.AddrPortFrom(n.host.IPv4, 0).String())
}

// connect sends the connect request of a QP and waits for the answer.
func (n *node) connect(r *cm.Resolved, qp *verbs.QP, param *cm.ConnParam) (*cm.Conn, error) {
	n.s.handshakes <- struct{}{}
	defer func() { <-n.s.handshakes }()
	ctx, cancel := n.connecting()
	defer cancel()
	start := time.Now()
	conn, err := r.Connect(ctx, qp, param)
	if n.caps.iwarp && errors.Is(err, syscall.ETIMEDOUT) && time.Since(start) >= siwAnswerTime {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	return conn, err
}

// givenUp reports whether the error of an Accept is the consequence of the peer's failure. The peer of
// this process or of the parent process judges that failure. On iWARP it may be errLate.
func (n *node) givenUp(err error) bool {
	_, gone := errors.AsType[*cm.DisconnectedError](err)
	return gone && (n.s.failed.Err() != nil || n.caps.iwarp)
}
