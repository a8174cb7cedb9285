// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5test_test

import (
	"context"
	"fmt"
	"log"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/verbs"
)

// A program sends to itself over a device that is memory, as it would over a
// ConnectX.
func Example() {
	k := mlx5test.New("mlx5_0")
	k.Live = true
	host := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}
	dev, err := host.Open("mlx5_0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	defer pd.Close()
	mr, err := pd.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
	if err := connect(qp, qp.Num()); err != nil {
		log.Fatal(err)
	}

	if _, err := qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{mr.Slice(0, 64)}}}); err != nil {
		log.Fatal(err)
	}
	if _, err := qp.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("hello")}}); err != nil {
		log.Fatal(err)
	}
	wcs := make([]verbs.WC, 2)
	for n := 0; n < 2; {
		got, err := cq.Wait(context.Background(), wcs[n:])
		if err != nil {
			log.Fatal(err)
		}
		n += got
	}
	for _, wc := range wcs {
		if wc.Opcode == verbs.WCRecv {
			fmt.Printf("receive %d: %v: %s\n", wc.ID, wc.Status, mr.Bytes()[:wc.ByteLen])
		}
	}

	// What the provider has put into the send queue can be looked at.
	wqe := k.QPs()[0].SendAt(0)
	fmt.Printf("request of QP %#x: operation %#x, %d bytes\n", wqe.QPN, wqe.Opcode, len(wqe.Bytes))
	// Output:
	// receive 1: success: hello
	// request of QP 0xabc01: operation 0xa, 32 bytes
}

// connect moves a QP to RTS, without a connection manager.
func connect(qp *verbs.QP, peer uint32) error {
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess},
		{verbs.QPAttr{
			State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: peer,
			AH: verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}}},
		}, verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer},
		{verbs.QPAttr{State: verbs.QPRTS, RNRRetry: 7}, verbs.QPAttrState | verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry |
			verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic},
	} {
		if err := qp.Modify(&step.attr, step.mask); err != nil {
			return err
		}
	}
	return nil
}
