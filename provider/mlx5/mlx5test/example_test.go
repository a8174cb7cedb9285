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

// This test reads the request that the provider wrote, and completes it as the device would.
// Package test/connectx/inprocess has a device for programs that need one.
func Example() {
	k := mlx5test.New("mlx5_0")
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

	if _, err := qp.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("hello")}}); err != nil {
		log.Fatal(err)
	}
	fake := k.QPs()[0]
	wqe := fake.SendAt(0)
	fmt.Printf("request of QP %#x with operation %#x and %d bytes\n", wqe.QPN, wqe.Opcode, len(wqe.Bytes))

	e := mlx5test.CQE{Opcode: mlx5test.CQEReq, SendOpcode: wqe.Opcode, UserIndex: fake.Create.UIdx, QPN: fake.Num, WQECounter: wqe.Index, ByteCount: 5}
	fake.SendCQ.Complete(e.Bytes(fake.SendCQ.CQESize))
	wcs := make([]verbs.WC, 1)
	if _, err := cq.Wait(context.Background(), wcs); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("work request %d: %v\n", wcs[0].ID, wcs[0].Status)
	// Output:
	// request of QP 0xabc01 with operation 0xa and 32 bytes
	// work request 2: success
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
		{verbs.QPAttr{State: verbs.QPRTS, RNRRetryCount: 7}, verbs.QPAttrState | verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount |
			verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic},
	} {
		if err := qp.Modify(&step.attr, step.mask); err != nil {
			return err
		}
	}
	return nil
}
