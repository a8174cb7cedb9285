// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"purerdma/oob"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// A message to a peer that does not answer fails after all retries.
func Example() {
	k := inprocess.New(inprocess.Config{Violation: func(v connectx.Violation) { log.Print(v) }}, "mlx5_0", "mlx5_1")
	k.Fabric.SetPace(1000) // makes timeouts shorter
	host := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}

	var qps [2]*verbs.QP
	var cqs [2]*verbs.CQ
	var path oob.Path
	var addresses [2]oob.Address
	for i, name := range []string{"mlx5_0", "mlx5_1"} {
		dev, err := host.Open(name)
		if err != nil {
			log.Fatal(err)
		}
		defer dev.Close()
		pd, err := dev.DefaultPD()
		if err != nil {
			log.Fatal(err)
		}
		if cqs[i], err = dev.CreateCQ(verbs.CQConfig{}); err != nil {
			log.Fatal(err)
		}
		defer cqs[i].Close()
		if qps[i], err = pd.CreateQP(verbs.QPConfig{SendCQ: cqs[i], RecvCQ: cqs[i]}); err != nil {
			log.Fatal(err)
		}
		defer qps[i].Close()
		if err := path.Init(qps[i]); err != nil {
			log.Fatal(err)
		}
		if addresses[i], err = oob.Local(qps[i], &path); err != nil {
			log.Fatal(err)
		}
	}
	for i, qp := range qps {
		if err := path.Connect(qp, addresses[i], addresses[1-i]); err != nil {
			log.Fatal(err)
		}
	}

	lost := 0
	k.Fabric.OnPacket(func(p *connectx.Packet) (connectx.Fate, time.Duration) {
		lost++
		return connectx.Lost, 0
	})
	if _, err := qps[0].PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpSend, InlineData: []byte("hello")}}); err != nil {
		log.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := cqs[0].Wait(context.Background(), wc[:]); err != nil {
		log.Fatal(err)
	}
	k.Fabric.OnPacket(nil) // ends the count
	fmt.Printf("request %d: %v, after %d tries\n", wc[0].ID, wc[0].Status, lost)
	// Output:
	// request 1: transport retry counter exceeded, after 7 tries
}
