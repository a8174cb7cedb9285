// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"

	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// TestCompressed moves data with compressed completions of sends and receives, past the ends of all rings. It
// checks all completions and data.
func TestCompressed(t *testing.T) {
	for _, format := range []mlx5dv.CompressionFormat{mlx5dv.CompressHash, mlx5dv.CompressChecksum} {
		var titles [16]atomic.Int64 // by opcode
		n := newNet(t, func(r connectx.Record) {
			if c, ok := r.(*connectx.CompletionRecord); ok && prm.CQE.Format.Get(c.CQE[:]) == prm.CQECompressed {
				titles[prm.CQE.Opcode.Get(c.CQE[:])].Add(1)
				if n := prm.CQE.ByteCount.Get(c.CQE[:]); n > 64 { // the kernel reports this limit for the device
					t.Errorf("completions with one title = %d, want at most 64", n)
				}
			}
		})
		n.cq = &mlx5dv.CQOptions{Compression: format}
		const batch, rounds, most = 100, 300, 2000
		a, b := n.pair(verbs.QPCap{SendWR: 2 * batch, RecvWR: 2 * batch}, retries{14, 7, 7, 1})
		id := uint64(0)
		for round := range rounds {
			var sends []verbs.SendWR
			var receives []verbs.RecvWR
			count := round%batch + 1
			sizes := make([]int, count)
			for i := range count {
				sizes[i] = 100 + (round*batch+i*37)%(most-100)
				from, to := a.mr.Slice(i*most, sizes[i]), b.mr.Slice(i*most, most)
				for k, at := range a.mr.Bytes()[i*most:][:sizes[i]] {
					a.mr.Bytes()[i*most+k] = at + byte(round+i+k) + 1
				}
				receives = append(receives, verbs.RecvWR{ID: id + uint64(i), SGList: []verbs.SGE{to}})
				sends = append(sends, verbs.SendWR{ID: id + uint64(i), Opcode: verbs.OpSend, SGList: []verbs.SGE{from}, Flags: verbs.SendSignaled})
				if round%3 == 1 {
					sends[i].Opcode, sends[i].ImmData = verbs.OpSendImm, uint32(round)
				}
			}
			b.recv(receives...)
			a.send(sends...)
			for _, e := range []*end{a, b} {
				for i, wc := range e.wait(count) {
					if wc.Err() != nil || wc.ID != id+uint64(i) || wc.QPNum != e.qp.Num() {
						t.Fatalf("format %d, round %d: completion %d = %+v, want success of request %d", format, round, i, wc, id+uint64(i))
					}
					if e == b && (int(wc.ByteLen) != sizes[i] || round%3 == 1 && wc.ImmData != uint32(round)) {
						t.Fatalf("format %d, round %d: receive %d = %+v, want %d bytes", format, round, i, wc, sizes[i])
					}
				}
			}
			for i, size := range sizes {
				if !bytes.Equal(a.mr.Bytes()[i*most:][:size], b.mr.Bytes()[i*most:][:size]) {
					t.Fatalf("format %d, round %d: the bytes of message %d differ", format, round, i)
				}
			}
			id += uint64(count)
		}
		for _, op := range []int{prm.CQEReq, prm.CQERespSend, prm.CQERespImm} {
			if titles[op].Load() == 0 {
				t.Errorf("format %d: no completion with opcode %d was compressed", format, op)
			}
		}
	}
}

// TestCompressedWide requests completions of 128 bytes, which the device does not compress.
func TestCompressedWide(t *testing.T) {
	dev, err := newNet(t, nil).host.Open("mlx5_0")
	if err != nil {
		t.Fatalf("host.Open: %v", err)
	}
	closer(t, dev)
	opt := &mlx5dv.CQOptions{Compression: mlx5dv.CompressHash, EntrySize: 128}
	d, err := mlx5dv.From(dev)
	if err != nil {
		t.Fatalf("mlx5dv.From(dev): %v", err)
	}
	if _, err := d.CreateCQ(verbs.CQConfig{Entries: 16}, opt); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CreateCQ = %v, want %v", err, errors.ErrUnsupported)
	}
}
