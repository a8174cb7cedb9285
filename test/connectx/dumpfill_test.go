// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"testing"

	"purerdma/test/connectx/prm"
)

// TestDumpFillKey receives and reads into the dump and fill key, and sends from it. Its data
// must be zeros, even after writes.
func TestDumpFillKey(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	key := uint32(prm.SpecialContextsOut.DumpFillMkey.Get(p.a.must(prm.OpQuerySpecialContexts, 16, nil, nil)))
	if key != prm.DumpFillMkey {
		t.Fatalf("key = %#x, want %#x", key, prm.DumpFillMkey)
	}
	const n = dumpPiece + 5
	src, dst := p.a.alloc(n), p.b.alloc(n)
	full := bytes.Repeat([]byte{0x5a}, n)
	copy(p.a.bytes(src, n), full)

	w := p.b.bytes(p.qb.rq, 64)
	p.qb.receive(0, n)
	be.PutUint32(w[4:], key)
	p.qa.post(request1(prm.WQESend, signaled, 0).data(n, p.a.key, src))
	p.qa.send.want(prm.CQEReq, nil)
	p.qb.recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.ByteCount: n})

	p.qb.post(request1(prm.WQERead, signaled, 0).remote(src, p.a.key).data(n, key, 0))
	p.qb.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.ByteCount: n})

	copy(p.a.bytes(src, n), full)
	p.qb.post(request1(prm.WQEWrite, signaled, 0).remote(src, p.a.key).data(n, key, 0))
	p.qb.send.want(prm.CQEReq, nil)
	if got := p.a.bytes(src, n); !bytes.Equal(got, make([]byte, n)) {
		t.Errorf("WRITE from the key sent %x..., want zeros", got[:16])
	}

	p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(dst, key).data(8, p.a.key, src))
	p.qa.send.want(prm.CQEReqErr, map[*prm.Field]uint64{&prm.CQE.Syndrome: uint64(prm.SyndromeRemoteAccess)})
}
