// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"context"
	"fmt"
	"log"

	"purerdma/verbs"
)

// This example posts two one-sided writes with one doorbell and one completion. The peer has
// registered memory with LocalWrite and RemoteWrite, and has sent MR.Remote in private, the
// private data of its acceptance. It has also posted a receive, which the second write
// completes.
func ExampleBatch() {
	var (
		ctx     context.Context
		qp      *verbs.QP
		mr      *verbs.MR
		private []byte
	)
	var theirs verbs.RemoteMemory
	if err := theirs.UnmarshalBinary(private); err != nil || theirs.Length < 8192 {
		log.Fatalf("the peer offers %v: %v", theirs, err)
	}
	var b verbs.Batch // reusable, one for each goroutine
	b.Reset(qp)
	b.Write(1, mr.Slice(0, 4096), theirs.Slice(0, 4096), 0)
	b.WriteImm(2, 0xbeef, mr.Slice(4096, 4096), theirs.Slice(4096, 4096), verbs.SendSignaled) // its completion also covers the first write
	if err := b.Post(); err != nil {
		log.Fatal(err)
	}
	var wcs [4]verbs.WC
	n, err := qp.SendCQ().Wait(ctx, wcs[:])
	if err != nil {
		log.Fatal(err)
	}
	for _, wc := range wcs[:n] {
		if err := wc.Err(); err != nil {
			log.Fatal(err) // has the status and the QP's number
		}
		fmt.Println("done with", wc.ID)
	}
}

// This example lists the devices of this machine and the capabilities of the first one.
func ExampleHost_Devices() {
	host := verbs.DefaultHost()
	devices, err := host.Devices()
	if err != nil || len(devices) == 0 {
		log.Fatalf("no RDMA devices: %v", err)
	}
	dev, err := host.Open(devices[0].Name)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	fmt.Printf("%s: %v, %d work requests in a queue\n", dev.Name(), dev.Transport(), dev.Attr().MaxQPWR)
}

// This example registers page-aligned memory outside the Go heap, and a Go slice, which is
// pinned as long as it is registered.
func ExamplePD_Alloc() {
	var dev *verbs.Device
	pd, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	defer pd.Close()
	mr, err := pd.Alloc(1<<20, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
	if err != nil {
		log.Fatal(err) // names RLIMIT_MEMLOCK if that is the reason
	}
	defer mr.Close()
	copy(mr.Bytes(), "hello")
	fmt.Printf("peers name it by %#x and key %#x\n", mr.Addr(), mr.RKey())

	pinned, err := pd.RegMR(make([]byte, 4096), verbs.LocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer pinned.Close()
}

// This example answers a datagram. The sender's address is in the bytes before the data.
func ExampleDevice_AHAttrFromWC() {
	var (
		qp   *verbs.QP // of type UD, in RTS, with a receive posted into mr
		mr   *verbs.MR
		wc   verbs.WC // of that receive
		qkey uint32   // as agreed on by both sides
	)
	attr, err := qp.Device().AHAttrFromWC(1, &wc, mr.Bytes()[:verbs.GRHLen])
	if err != nil {
		log.Fatal(err)
	}
	ah, err := qp.PD().CreateAH(attr)
	if err != nil {
		log.Fatal(err)
	}
	defer ah.Close()
	message := mr.Bytes()[verbs.GRHLen:wc.ByteLen]
	fmt.Printf("%q from QP %#x of %v\n", message, wc.SrcQP, attr.GRH.DGID)
	_, err = qp.PostSend([]verbs.SendWR{{
		Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.Slice(verbs.GRHLen, len(message))},
		AH: ah, RemoteQPN: wc.SrcQP, RemoteQKey: qkey,
	}})
	if err != nil {
		log.Fatal(err)
	}
}

// This example reads the events of a device.
func ExampleDevice_Events() {
	var (
		ctx context.Context
		dev *verbs.Device
	)
	for ev, err := range dev.Events(ctx) {
		if err != nil {
			log.Print(err) // ctx has ended, or the device was removed
			break
		}
		switch ev.Type {
		case verbs.AsyncSRQLimitReached:
			fmt.Println("post more receives to", ev.SRQ)
		case verbs.AsyncPortErr:
			fmt.Println("port", ev.Port, "is down")
		}
	}
}
