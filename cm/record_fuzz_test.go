// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"strings"
	"testing"

	"purerdma/abi"
)

// FuzzPath decodes a path record of arbitrary bytes, encodes the result, and checks that it
// decodes to the same path.
func FuzzPath(f *testing.F) {
	f.Add(make([]byte, abi.Size[abi.IBPathRecData]()))
	f.Add(bytes.Repeat([]byte{0xff}, abi.Size[abi.IBPathRecData]()))
	f.Add([]byte{7, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		k := new(abi.IBPathRecData)
		copy(abi.Bytes(k), b)
		p := pathFromKernel(k)
		again := p.toKernel()
		if q := pathFromKernel(&again); q != p {
			t.Errorf("pathFromKernel(toKernel(%+v)) = %+v", p, q)
		}
		if p.FlowLabel > 0xfffff || p.NumPath > 0x7f || p.SL > 15 || p.MTUSelector > 3 || p.Rate > 0x3f {
			t.Errorf("fields of %+v are out of range", p)
		}
	})
}

// FuzzServiceRecord decodes a service record of arbitrary bytes.
func FuzzServiceRecord(f *testing.F) {
	f.Add(make([]byte, abi.Size[abi.IBUserServiceRec]()))
	f.Add(bytes.Repeat([]byte{0xff}, abi.Size[abi.IBUserServiceRec]()))
	f.Add(bytes.Repeat([]byte("name"), 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		k := new(abi.IBUserServiceRec)
		copy(abi.Bytes(k), b)
		r := serviceFromKernel(k)
		if len(r.Name) > len(k.Name) || strings.Contains(r.Name, "\x00") || r.Lease < 0 || !bytes.HasPrefix(k.Name[:], []byte(r.Name)) {
			t.Errorf("serviceFromKernel(%+v): name %q, lease %v, want a part of the name and a lease", k, r.Name, r.Lease)
		}
		if !bytes.Equal(r.Data[:len(k.Data8)], k.Data8[:]) || !bytes.Equal(r.Data[len(r.Data)-8:], k.Data64[len(k.Data64)-1][:]) {
			t.Errorf("Data = %x, want the data of %+v", r.Data, k)
		}
	})
}
