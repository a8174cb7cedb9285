// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"strings"
	"syscall"
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

// TestParamDefaults checks the meaning of 0, None and nil when connecting and when accepting.
func TestParamDefaults(t *testing.T) {
	// testAttr serves 128 READs and may have 64 outstanding.
	full := ConnParam{ResponderResources: 128, InitiatorDepth: 64, RetryCount: 6, RNRRetryCount: 7}
	with := func(p ConnParam, change func(*ConnParam)) ConnParam {
		change(&p)
		return p
	}
	request := &depths{responder: 5, initiator: 200}
	requested := ConnParam{ResponderResources: 5, InitiatorDepth: 64, RetryCount: 6, RNRRetryCount: 7}
	none := ConnParam{ResponderResources: None, InitiatorDepth: None, RetryCount: None, RNRRetryCount: None}
	for name, tc := range map[string]struct {
		p       *ConnParam
		request *depths
		want    ConnParam
	}{
		"connect, nil":            {nil, nil, full},
		"connect, zero":           {&ConnParam{}, nil, full},
		"connect, private data":   {&ConnParam{PrivateData: []byte("x")}, nil, with(full, func(p *ConnParam) { p.PrivateData = []byte("x") })},
		"connect, None":           {&none, nil, ConnParam{}},
		"connect, one None":       {&ConnParam{InitiatorDepth: None}, nil, with(full, func(p *ConnParam) { p.InitiatorDepth = 0 })},
		"connect, largest values": {&ConnParam{ResponderResources: 128, InitiatorDepth: 64, RetryCount: 7, RNRRetryCount: 7}, nil, with(full, func(p *ConnParam) { p.RetryCount = 7 })},
		"connect, smallest":       {&ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 1, RNRRetryCount: 1}, nil, ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 1, RNRRetryCount: 1}},
		"accept, nil":             {nil, request, requested},
		"accept, zero":            {&ConnParam{}, request, requested},
		"accept, None":            {&none, request, ConnParam{}},
		"accept, no depths asked": {nil, &depths{}, ConnParam{RetryCount: 6, RNRRetryCount: 7}},
		// Parameters of an event hold literal numbers. Accept can use them.
		"accept, the request itself": {&ConnParam{ResponderResources: 0, InitiatorDepth: 2}, &depths{responder: 0, initiator: 2},
			ConnParam{InitiatorDepth: 2, RetryCount: 6, RNRRetryCount: 7}},
	} {
		if got, err := tc.p.complete(testAttr, tc.request, false); err != nil || !cmp.Equal(got, tc.want) {
			t.Errorf("%s: complete(%+v) = %+v, %v, want %+v", name, tc.p, got, err, tc.want)
		}
	}
	// A device may have larger limits than the message can hold.
	got, err := new(ConnParam).complete(&verbs.DeviceAttr{MaxQPRdAtom: 1 << 20, MaxQPInitRdAtom: 256}, nil, false)
	if err != nil || got.ResponderResources != 255 || got.InitiatorDepth != 255 {
		t.Errorf("depths of a large device = %+v, %v, want 255", got, err)
	}
}

func TestAValueIsTakenLiterally(t *testing.T) {
	p := ConnParam{ResponderResources: 7, InitiatorDepth: 9, RetryCount: 3, RNRRetryCount: 4}
	got, err := p.complete(testAttr, &depths{responder: 1, initiator: 9}, false)
	if err != nil || !cmp.Equal(got, p) {
		t.Errorf("complete(%+v) = %+v, %v, want the same values", p, got, err)
	}
	// More READs than the peer serves would make its connection fail later.
	var pe *ArgumentError
	if _, err = p.complete(testAttr, &depths{initiator: 8}, false); !errors.As(err, &pe) || pe.Max != 8 || pe.Name != "InitiatorDepth" {
		t.Errorf("complete() = %v, want an ArgumentError of InitiatorDepth with Max 8", err)
	}
}

func TestParamLimits(t *testing.T) {
	for _, tc := range []struct {
		p     ConnParam
		words string
	}{
		{ConnParam{ResponderResources: 129}, "max_qp_rd_atom"},
		{ConnParam{ResponderResources: None - 1}, "ResponderResources"},
		{ConnParam{RetryCount: -7}, "RetryCount"},
		{ConnParam{InitiatorDepth: 65}, "max_qp_init_rd_atom"},
		{ConnParam{RetryCount: 8}, "RetryCount"},
		{ConnParam{RNRRetryCount: 8}, "RNRRetryCount"},
		{ConnParam{QPNum: 1 << 24}, "QPNum"},
	} {
		_, err := tc.p.complete(testAttr, nil, false)
		var pe *ArgumentError
		if !errors.As(err, &pe) || !strings.Contains(err.Error(), tc.words) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("complete(%+v) = %v, want an ArgumentError with %q", tc.p, err, tc.words)
		}
	}
}

func TestDatagramParam(t *testing.T) {
	// The parameters of connections have no effect, even out of range.
	p := ConnParam{PrivateData: []byte("x"), QPNum: 7, ResponderResources: 200, InitiatorDepth: 201, FlowControl: true, RetryCount: 99, RNRRetryCount: 98, SRQ: true}
	got, err := p.complete(testAttr, nil, true)
	if want := (ConnParam{PrivateData: []byte("x"), QPNum: 7}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("complete(%+v) = %+v, %v, want %+v", p, got, err, want)
	}
}

func TestPrivateDataLimits(t *testing.T) {
	for _, tc := range []struct {
		op             string
		transport      verbs.Transport
		datagram, afIB bool
		want           int
	}{
		{opConnect, verbs.TransportIB, false, false, 56},
		{opAccept, verbs.TransportIB, false, false, 196},
		{opReject, verbs.TransportIB, false, false, 148},
		{opConnect, verbs.TransportIB, false, true, 92},
		{opAccept, verbs.TransportIB, false, true, 196},
		{opReject, verbs.TransportIB, false, true, 148},
		{opConnect, verbs.TransportIB, true, false, 180},
		{opAccept, verbs.TransportIB, true, false, 136},
		{opReject, verbs.TransportIB, true, false, 136},
		{opConnect, verbs.TransportIB, true, true, 216},
		{opConnect, verbs.TransportIWARP, false, false, 251},
		{opAccept, verbs.TransportIWARP, false, false, 251},
		{opReject, verbs.TransportIWARP, false, false, 251},
	} {
		got, why := privateDataLimit(tc.op, tc.transport, tc.datagram, tc.afIB)
		if got != tc.want || why == "" {
			t.Errorf("privateDataLimit(%+v) = %d, %q, want the limit and a reason", tc, got, why)
		}
	}
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	if err := id.checkPrivateData(opConnect, make([]byte, 56)); err != nil {
		t.Errorf("checkPrivateData of 56 bytes = %v, want nil", err)
	}
	var pe *ArgumentError
	if err := id.checkPrivateData(opConnect, make([]byte, 57)); !errors.As(err, &pe) || pe.Max != 56 || pe.Value != 57 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("checkPrivateData of 57 bytes = %v, want an ArgumentError with Max 56", err)
	}
}

func TestParamRoundTrip(t *testing.T) {
	p := ConnParam{PrivateData: []byte("hello"), ResponderResources: 1, InitiatorDepth: 2, FlowControl: true,
		RetryCount: 3, RNRRetryCount: 4, SRQ: true, QPNum: 0x123456}
	var k abi.UcmConnParam
	p.toKernel(&k)
	if got := connParamFromKernel(&k); !cmp.Equal(got, p) {
		t.Errorf("connParamFromKernel differs:\n%s", cmp.Diff(got, p))
	}
	if got := connParamFromKernel(&abi.UcmConnParam{}); got.PrivateData != nil {
		t.Error("PrivateData of an empty struct != nil, want nil")
	}
}
