// SPDX-License-Identifier: Apache-2.0

// Cgo is the benchmark of a usual Go binding to libibverbs. Work requests are Go structs. Each call converts them
// into C memory that is kept for it, and makes one cgo call. Completions are converted in the reverse direction.
//
//	cgo CASE BATCH ROUNDS
package main

/*
#cgo LDFLAGS: -Wl,--no-as-needed -lmlx5 -libverbs -ldl
#cgo noescape post_send
#cgo nocallback post_send
#cgo noescape poll_cq
#cgo nocallback poll_cq
#include "verbs.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"
)

const (
	round    = 512
	maxBatch = 64
	maxSGE   = 4
)

// SGE, SendWR and WC are the types for the binding's users.
type (
	SGE struct {
		Addr   uint64
		Length uint32
		LKey   uint32
	}
	SendWR struct {
		ID         uint64
		Opcode     uint32
		Flags      uint32
		SGList     []SGE
		RemoteAddr uint64
		RKey       uint32
	}
	WC struct {
		ID        uint64
		Status    uint32
		Opcode    uint32
		VendorErr uint32
		ByteLen   uint32
		QPNum     uint32
		SrcQP     uint32
		Flags     uint32
	}
)

// binding has the memory for C.
type binding struct {
	wrs *[maxBatch]C.struct_ibv_send_wr
	sg  *[maxBatch * maxSGE]C.struct_ibv_sge
	bad **C.struct_ibv_send_wr
	wcs *[maxBatch]C.struct_ibv_wc
}

func newBinding() *binding {
	return &binding{
		wrs: (*[maxBatch]C.struct_ibv_send_wr)(C.calloc(maxBatch, C.sizeof_struct_ibv_send_wr)),
		sg:  (*[maxBatch * maxSGE]C.struct_ibv_sge)(C.calloc(maxBatch*maxSGE, C.sizeof_struct_ibv_sge)),
		bad: (**C.struct_ibv_send_wr)(C.calloc(1, C.size_t(unsafe.Sizeof(uintptr(0))))),
		wcs: (*[maxBatch]C.struct_ibv_wc)(C.calloc(maxBatch, C.sizeof_struct_ibv_wc)),
	}
}

func (b *binding) PostSend(wrs []SendWR) error {
	for i := range wrs {
		w, c := &wrs[i], &b.wrs[i]
		c.wr_id = C.uint64_t(w.ID)
		c.next = nil
		if i+1 < len(wrs) {
			c.next = &b.wrs[i+1]
		}
		sg := b.sg[i*maxSGE:][:maxSGE]
		for k := range w.SGList {
			e := &w.SGList[k]
			sg[k] = C.struct_ibv_sge{addr: C.uint64_t(e.Addr), length: C.uint32_t(e.Length), lkey: C.uint32_t(e.LKey)}
		}
		c.sg_list, c.num_sge = &sg[0], C.int(len(w.SGList))
		c.opcode, c.send_flags = w.Opcode, C.uint(w.Flags)
		rdma := (*struct {
			addr uint64
			rkey uint32
		})(unsafe.Pointer(&c.wr))
		rdma.addr, rdma.rkey = w.RemoteAddr, w.RKey
	}
	if rc := C.post_send(&b.wrs[0], b.bad); rc != 0 {
		return fmt.Errorf("ibv_post_send = %d", rc)
	}
	return nil
}

func (b *binding) Poll(wcs []WC) (int, error) {
	n := int(C.poll_cq(C.int(len(wcs)), &b.wcs[0]))
	if n < 0 {
		return 0, errors.New("ibv_poll_cq failed")
	}
	for i := range n {
		c := &b.wcs[i]
		wcs[i] = WC{ID: uint64(c.wr_id), Status: c.status, Opcode: c.opcode, VendorErr: uint32(c.vendor_err), ByteLen: uint32(c.byte_len),
			QPNum: uint32(c.qp_num), SrcQP: uint32(c.src_qp), Flags: uint32(c.wc_flags)}
	}
	return n, nil
}

//go:noinline
func measurePost(b *binding, wrs []SendWR) {
	for range round / len(wrs) {
		if err := b.PostSend(wrs); err != nil {
			panic(err)
		}
	}
}

//go:noinline
func measurePoll(b *binding, wcs []WC) {
	for got := 0; got < round; {
		n, err := b.Poll(wcs)
		if n == 0 || err != nil || wcs[0].Status != 0 {
			panic("Poll found no completion")
		}
		got += n
	}
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: cgo inline|write BATCH ROUNDS")
		os.Exit(2)
	}
	batch, _ := strconv.Atoi(os.Args[2])
	rounds, _ := strconv.Atoi(os.Args[3])
	if batch < 1 || batch > maxBatch || rounds < 1 {
		os.Exit(2)
	}
	runtime.LockOSThread()
	if why := C.setup(); why != nil {
		fmt.Fprintln(os.Stderr, "cgo:", C.GoString(why))
		os.Exit(1)
	}
	wr := SendWR{Opcode: C.IBV_WR_RDMA_WRITE, Flags: C.IBV_SEND_SIGNALED, RemoteAddr: 0x7f1122334455, RKey: 0xdeadbe01,
		SGList: []SGE{{uint64(C.data_addr()), 64, uint32(C.data_lkey())}}}
	opcode, blocks := C.int(C.MLX5_OPCODE_RDMA_WRITE), C.int(1)
	if os.Args[1] == "inline" {
		wr.Opcode, wr.Flags = C.IBV_WR_SEND, C.IBV_SEND_SIGNALED|C.IBV_SEND_INLINE
		opcode, blocks = C.MLX5_OPCODE_SEND, 2
	}
	wrs := slices.Repeat([]SendWR{wr}, batch)
	for i := range wrs {
		wrs[i].ID = uint64(i)
	}
	b, wcs := newBinding(), make([]WC, batch)
	post, poll := make([]float64, rounds), make([]float64, rounds)
	for r := range rounds {
		t0 := time.Now()
		measurePost(b, wrs)
		t1 := time.Now()
		C.complete(round, opcode, blocks)
		t2 := time.Now()
		measurePoll(b, wcs)
		t3 := time.Now()
		post[r], poll[r] = float64(t1.Sub(t0))/round, float64(t3.Sub(t2))/round
	}
	slices.Sort(post)
	slices.Sort(poll)
	fmt.Printf("%.2f %.2f\n", post[rounds/2], poll[rounds/2])
}
