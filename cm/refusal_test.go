// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/verbs"
)

// TestRejectionWithoutPrivateData checks a rejection without private data. On InfiniBand and
// RoCE, the kernel returns 148 bytes with each rejection, and does not report how many of them
// the peer has sent.
func TestRejectionWithoutPrivateData(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	for _, tc := range []struct {
		given string
		want  []byte
	}{
		{"", nil},
		{"\x00\x00", nil},
		{"no", append([]byte("no"), make([]byte, 146)...)},
		{"no\x00", append([]byte("no"), make([]byte, 146)...)},
	} {
		param := abi.UcmConnParam{PrivateDataLen: 148}
		copy(param.PrivateData[:], tc.given)
		resp := abi.UcmEventResp{UID: id.uid, ID: id.kid, Event: uint32(EventRejected), Status: RejectConsumer}
		copy(resp.Param[:], abi.Bytes(&param))
		k.events <- resp
		ev := mustNext(t, ch)
		var rej *RejectError
		if !errors.As(ev.Err(), &rej) || !bytes.Equal(rej.PrivateData, tc.want) || (rej.PrivateData == nil) != (tc.want == nil) {
			t.Errorf("rejection with %q: PrivateData = %q, want %q", tc.given, rej.PrivateData, tc.want)
		}
	}
	if got := refusalData(verbs.TransportIWARP, []byte{0}); len(got) != 1 {
		t.Errorf("refusalData(iWARP, one zero) = %q, want it unchanged, because MPA has a length", got)
	}
}

// TestTemporary checks Temporary. Servers continue after errors for which it is true.
func TestTemporary(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{syscall.EMFILE, true},
		{syscall.ENFILE, true},
		{syscall.ENOMEM, true},
		{syscall.ENOBUFS, true},
		{fmt.Errorf("rdma_cm: %w", syscall.EMFILE), true},
		{os.ErrDeadlineExceeded, true},
		{syscall.EACCES, false},
		{syscall.ECONNREFUSED, false},
	} {
		if got := (&OpError{Op: opAccept, Err: tc.err}).Temporary(); got != tc.want {
			t.Errorf("Temporary() of %v = %v, want %v", tc.err, got, tc.want)
		}
	}
}
