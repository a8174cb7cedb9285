// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

func mustAddr(s string) Addr {
	a, err := ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

func newUcma(k *fakeKernel) *ucma.File { return ucma.New(k) }

var testAttr = &verbs.DeviceAttr{MaxQPRdAtom: 128, MaxQPInitRdAtom: 64}

func TestNilMeansTheMost(t *testing.T) {
	var none *ConnParam
	got, err := none.complete(opConnect, testAttr, nil)
	want := ConnParam{ResponderResources: 128, InitiatorDepth: 64, RetryCount: 7, RNRRetryCount: 7}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("connecting: %v, %v", got, err)
	}
	got, err = none.complete(opAccept, testAttr, &ConnParam{ResponderResources: 5, InitiatorDepth: 200, RetryCount: 1})
	want = ConnParam{ResponderResources: 5, InitiatorDepth: 64, RetryCount: 7, RNRRetryCount: 7}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("accepting: %v, %v", got, err)
	}
	// A device may say more than the message has room for.
	got, _ = none.complete(opConnect, &verbs.DeviceAttr{MaxQPRdAtom: 1 << 20, MaxQPInitRdAtom: 256}, nil)
	if got.ResponderResources != 255 || got.InitiatorDepth != 255 {
		t.Errorf("depths beyond 8 bits: %v", got)
	}
}

func TestAValueIsTakenLiterally(t *testing.T) {
	p := ConnParam{ResponderResources: 7, InitiatorDepth: 9}
	got, err := p.complete(opAccept, testAttr, &ConnParam{ResponderResources: 1, InitiatorDepth: 1})
	if err != nil || !cmp.Equal(got, p) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParamLimits(t *testing.T) {
	for _, tc := range []struct {
		p     ConnParam
		words string
	}{
		{ConnParam{ResponderResources: 129}, "max_qp_rd_atom"},
		{ConnParam{InitiatorDepth: 65}, "max_qp_init_rd_atom"},
		{ConnParam{RetryCount: 8}, "RetryCount"},
		{ConnParam{RNRRetryCount: 8}, "RNRRetryCount"},
		{ConnParam{QPNum: 1 << 24}, "QPNum"},
	} {
		_, err := tc.p.complete(opConnect, testAttr, nil)
		var pe *ParamError
		if !errors.As(err, &pe) || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%+v: %v", tc.p, err)
		}
	}
}

func TestPrivateDataLimits(t *testing.T) {
	for op, limit := range map[string]int{opConnect: 56, opAccept: 196, opReject: 148} {
		if err := checkPrivateData(op, make([]byte, limit)); err != nil {
			t.Errorf("%s: %v", op, err)
		}
		var pe *PrivateDataError
		if err := checkPrivateData(op, make([]byte, limit+1)); !errors.As(err, &pe) || pe.Max != limit || pe.Len != limit+1 {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestParamRoundTrip(t *testing.T) {
	p := ConnParam{PrivateData: []byte("hello"), ResponderResources: 1, InitiatorDepth: 2, FlowControl: true,
		RetryCount: 3, RNRRetryCount: 4, SRQ: true, QPNum: 0x123456}
	k := p.toKernel()
	if got := connParamFromKernel(&k); !cmp.Equal(got, p) {
		t.Error(cmp.Diff(got, p))
	}
	if got := connParamFromKernel(&abi.UcmConnParam{}); got.PrivateData != nil {
		t.Error("no private data must be nil")
	}
}
