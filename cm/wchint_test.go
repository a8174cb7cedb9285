// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"errors"
	"strings"
	"testing"

	"purerdma/abi"
	"purerdma/verbs"
)

// TestHints checks the hints for a status and an operation, and that the error wraps the error
// of the completion.
func TestHints(t *testing.T) {
	for _, tc := range []struct {
		op     string
		status verbs.WCStatus
		want   string
	}{
		{opSend, verbs.WCRNRRetryExcErr, "the peer has no receive posted"},
		{opSend, verbs.WCRetryExcErr, "the peer does not answer, or has no receive posted"},
		{opRead, verbs.WCRetryExcErr, "the peer does not answer"},
		{opRecv, verbs.WCLocLenErr, "the message is longer than the receive"},
		{opSend, verbs.WCRemInvReqErr, "the message is longer than the peer's receive"},
		{opRead, verbs.WCRemInvReqErr, "the peer's QP does not permit the operation"},
		{opSend, verbs.WCRemOpErr, "the message is longer than the peer's receive"},
		{opWrite, verbs.WCRemAccessErr, "the key is stale or lacks that right"},
		{opWork, verbs.WCRemAccessErr, "the key is stale or lacks that right"},
		{opRead, verbs.WCLocProtErr, "or lacks LocalWrite"},
		{opSend, verbs.WCLocProtErr, "the key of the local memory is stale"},
		{opRecv, verbs.WCLocQPOpErr, "the message is longer than the receive"},
	} {
		l := linkedConn(t)
		wc := &verbs.WCError{Status: tc.status}
		err := l.ended(tc.op, wc)
		if got := err.Error(); !strings.Contains(got, tc.want) || !errors.Is(err, wc) || !strings.HasPrefix(got, "rdma "+tc.op) {
			t.Errorf("error of %s with %v = %q, want the text %q", tc.op, tc.status, got, tc.want)
		}
		if again := l.Explain(err); strings.Count(again.Error(), tc.want) != 1 {
			t.Errorf("Explain(%v) = %v, want the hint once", err, again)
		}
		if err := l.Send(soonCtx(t)); !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Send after %s with %v = %q, want the text %q", tc.op, tc.status, err, tc.want)
		}
	}
	for _, tc := range []struct {
		op     string
		status verbs.WCStatus
		driver abi.DriverID
		want   string
	}{
		{opSend, verbs.WCRetryExcErr, abi.RDMA_DRIVER_MLX5, hintNoAnswer},
		{opSend, verbs.WCLocQPOpErr, abi.RDMA_DRIVER_MLX5, hintLocalKey},
		{opSend, verbs.WCLocQPOpErr, abi.RDMA_DRIVER_SIW, ""},
		{opWrite, verbs.WCLocQPOpErr, abi.RDMA_DRIVER_SIW, ""},
		{opRead, verbs.WCLocProtErr, abi.RDMA_DRIVER_SIW, hintLocalFill},
		{opRecv, verbs.WCGeneralErr, abi.RDMA_DRIVER_SIW, hintLocalFill},
	} {
		if got := wcHint(tc.op, tc.status, tc.driver); got != tc.want {
			t.Errorf("wcHint(%s, %v, %v) = %q, want %q", tc.op, tc.status, tc.driver, got, tc.want)
		}
	}
}
