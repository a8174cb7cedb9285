// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"

	"purerdma/abi"
	"purerdma/verbs"
)

// hintedError is the error of a completion with what is most likely its cause.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() + ": " + e.hint }

// Unwrap returns the error of the completion.
func (e *hintedError) Unwrap() error { return e.err }

// hinted adds to the error of a failed request what its status means for op, unless the
// error has a hint already.
func (c *Conn) hinted(op string, err error, wc *verbs.WCError) error {
	if old := new(hintedError); errors.As(err, &old) {
		return err
	}
	if hint := wcHint(op, wc.Status, c.Device().DriverID()); hint != "" {
		return &hintedError{err, hint}
	}
	return err
}

// Hints by what is wrong.
const (
	hintNoReceive = "the peer has no receive posted"
	hintNoAnswer  = "the peer does not answer"
	hintTooLong   = "the message is longer than the receive"
	hintPeerLong  = "the message is longer than the peer's receive"
	hintPeerKey   = "the key is stale or lacks that right, or the range is outside the peer's memory"
	hintLocalKey  = "the key of the local memory is stale or of another PD"
	hintLocalFill = hintLocalKey + ", or lacks LocalWrite"
	hintDevice    = "the device reported a completion that makes no sense (Host.Log has it)"
	hintRefused   = "the peer's QP does not permit it"
)

// wcHint returns the most likely cause of a status, or "" if the status itself names the
// cause or has several likely ones. rxe and siw have other statuses for some errors
// (docs/reference/driver-faults.md). op is one of the blocking operations, or opWork for an
// unknown one.
func wcHint(op string, status verbs.WCStatus, driver abi.DriverID) string {
	send, rxe, siw := op == opSend, driver == abi.RDMA_DRIVER_RXE, driver == abi.RDMA_DRIVER_SIW
	switch status {
	case verbs.WCRNRRetryExcErr:
		return hintNoReceive
	case verbs.WCRetryExcErr:
		if rxe && (send || op == opWork) {
			return hintNoAnswer + ", or has no receive posted"
		}
		return hintNoAnswer
	case verbs.WCLocLenErr:
		if op == opRecv {
			return hintTooLong
		}
	case verbs.WCRemInvReqErr:
		switch op {
		case opSend:
			return hintPeerLong
		case opRead, opWrite, opProbe:
			return hintRefused
		}
	case verbs.WCRemOpErr:
		if rxe && (send || op == opWork) {
			return hintPeerLong + ", or its memory key is wrong"
		}
	case verbs.WCRemAccessErr:
		return hintPeerKey
	case verbs.WCLocQPOpErr:
		switch {
		case op == opRecv && rxe:
			return hintTooLong + ", or " + hintLocalFill
		case siw: // reports it also for a message that is too long and after a disconnect
			return ""
		}
		return localKeyHint(op)
	case verbs.WCLocProtErr:
		return localKeyHint(op)
	case verbs.WCFatalErr: // mlx5, which ends a QP by itself with it
		return hintDevice
	case verbs.WCGeneralErr: // siw
		if op == opRecv {
			return hintLocalFill
		}
	}
	return ""
}

// localKeyHint returns what is wrong with the local memory of an operation.
func localKeyHint(op string) string {
	switch op {
	case opSend, opWrite:
		return hintLocalKey
	case opRecv, opRead:
		return hintLocalFill
	}
	return ""
}
