// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"net/netip"
	"testing"

	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestCauseOfAFlush checks that cause returns the failed request, even if it is a receive and
// the flush was found among the sends.
func TestCauseOfAFlush(t *testing.T) {
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0", "rxe1")}
	ok := func(call string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
	}
	var qps [2]*verbs.QP
	var bufs [2]*verbs.MR
	var gids [2]verbs.GIDEntry
	for i, name := range []string{"rxe0", "rxe1"} {
		dev, err := host.Open(name)
		ok("host.Open", err)
		defer dev.Close()
		gids[i], err = dev.GIDFor(1, netip.Addr{})
		ok("dev.GIDFor", err)
		pd, err := dev.AllocPD()
		ok("dev.AllocPD", err)
		defer pd.Close()
		bufs[i], err = pd.Alloc(4096, verbs.LocalWrite)
		ok("pd.Alloc", err)
		defer bufs[i].Close()
		qps[i], err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC})
		ok("pd.CreateQP", err)
		defer qps[i].Close()
	}
	for i, qp := range qps {
		peer := 1 - i
		ok("qp.Modify", qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess))
		ok("qp.Modify", qp.Modify(&verbs.QPAttr{
			State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: qps[peer].Num(), MinRNRTimer: 12,
			AH: verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: gids[peer].GID, SGIDIndex: uint8(gids[i].Index), HopLimit: 64}},
		}, verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPNum|verbs.QPAttrRQPSN|verbs.QPAttrMaxDestRdAtomic|verbs.QPAttrMinRNRTimer))
		ok("qp.Modify", qp.Modify(&verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7},
			verbs.QPAttrState|verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrSQPSN|verbs.QPAttrMaxRdAtomic))
	}
	s := &session{qp: qps[0]}
	_, err := qps[0].PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{bufs[0].Slice(0, 16)}}})
	ok("qps[0].PostRecv", err)
	_, err = qps[1].PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGList: []verbs.SGE{bufs[1].Slice(0, 100)}}}) // too long for the receive
	ok("qps[1].PostSend", err)
	ok("s.post", s.post(verbs.OpSend, bufs[0].Slice(0, 16), info{}))
	var wc verbs.WC
	for n := 0; n == 0; {
		n, err = s.qp.SendCQ().Poll(s.queue.wc[:])
		ok("s.qp.SendCQ().Poll", err)
		wc = s.queue.wc[0]
	}
	flush := wc.Err()
	if wc.Status != verbs.WCWRFlushErr {
		t.Fatalf("the send completed with %v, want a flush", flush)
	}
	we := new(verbs.WCError)
	if err := s.cause(flush); !errors.As(err, &we) || we.Status != verbs.WCLocLenErr {
		t.Errorf("cause(%v) = %v, want status %v", flush, err, verbs.WCLocLenErr)
	}
	if err := s.cause(flush); err != flush {
		t.Errorf("cause(%v) without a failure = %v, want the flush", flush, err)
	}
}
