// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"testing"

	"purerdma/test/connectx/prm"
)

// FuzzSendQueue runs a hostile driver that posts requests of any contents to a send queue of
// Ethernet, while another port receives. A byte before each request is its length in octowords.
func FuzzSendQueue(f *testing.F) {
	frame := bytes.Repeat([]byte{8, 0, 0x45}, 30)
	request := func(opcode uint8, inline int, segments ...[]byte) []byte {
		w := make([]byte, 32)
		prm.Ctrl.Opcode.Set(w, uint64(opcode))
		prm.EthernetSeg.InlineSize.Set(w[16:], uint64(inline))
		prm.EthernetSeg.MSS.Set(w[16:], 100)
		n := copy(w[16+prm.InlineStart:], frame[:inline])
		for w = append(w, frame[n:max(n, inline)]...); len(w)%16 != 0; {
			w = append(w, 0)
		}
		w = append(w, bytes.Join(segments, nil)...)
		for len(w)%16 != 0 {
			w = append(w, 0)
		}
		return append([]byte{byte(len(w) / 16)}, w...)
	}
	piece := []byte{0, 0, 0, 200, 0, 0x10, 0, 0x5a, 0, 0, 0, 0, 0, 0x10, 0, 0}
	inside := append([]byte{0x80, 0, 0, 60}, frame[:60]...)
	f.Add(request(prm.WQESend, 0, piece))
	f.Add(request(prm.WQESend, 18, piece, piece))
	f.Add(request(prm.WQESend, 0, inside))
	f.Add(request(prm.WQESend, 19, inside, piece))
	f.Add(bytes.Join([][]byte{request(prm.WQELSO, 54, piece), request(prm.WQENop, 0), request(prm.WQEUMR, 0, piece)}, nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		fab := NewFabric()
		a, b := newPortOn(t, fab, 1), newPortOn(t, fab, 2)
		a.tolerant, b.tolerant = true, true
		b.all(b.tir(nil, b.rq(16, nil)))
		for range 16 {
			if len(in) == 0 {
				break
			}
			n := min(int(in[0]%32)*16, len(in)-1)
			w := make([]byte, max(16, (n+15)&^15))
			copy(w, in[1:][:n])
			in = in[1+n:]
			prm.Ctrl.Index.Set(w, uint64(a.pi))
			prm.Ctrl.QPN.Set(w, uint64(a.sqn))
			a.put(w)
		}
		a.d.Reset()
		b.d.Reset()
	})
}
