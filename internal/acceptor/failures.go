// SPDX-License-Identifier: Apache-2.0

package acceptor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"

	"purerdma/cm"
	"purerdma/internal/lograte"
)

// failures logs failed handshakes.
type failures struct {
	log *slog.Logger // nil disables the log
	// Peers can fail at any rate. They have a Counter of their own, so that they do not hide failures of
	// this process.
	own, peers lograte.Counter
}

// add counts a failed handshake, and logs it unless another one was logged a moment ago.
func (f *failures) add(local, remote cm.Addr, err error) {
	counter := &f.own
	if causedByPeer(err) {
		counter = &f.peers
	}
	since, due := counter.Add()
	if f.log == nil || !due {
		return
	}
	f.log.LogAttrs(context.Background(), slog.LevelWarn, "connect request failed",
		slog.String("operation", "accept"),
		slog.String("local", local.String()),
		slog.String("remote", remote.String()),
		slog.Uint64("requests", since),
		slog.String("error", err.Error()))
}

// causedByPeer reports whether the peer has violated the protocol, has left, or does not answer.
func causedByPeer(err error) bool {
	if errors.Is(err, syscall.EPROTO) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	_, left := errors.AsType[*cm.DisconnectedError](err)
	_, rejected := errors.AsType[*cm.RejectError](err)
	_, unreachable := errors.AsType[*cm.UnreachableError](err)
	return left || rejected || unreachable
}
