// SPDX-License-Identifier: Apache-2.0

package tracediff

import (
	"fmt"
	"strings"

	"purerdma/test/connectx/prm"
)

// mkey is the context of a memory key.
type mkey [prm.MkeyLen]byte

// keyFields lists the reported fields of a key, which are its rights. mask is the mask of a UMR
// that changes them.
var keyFields = []struct {
	name string
	f    prm.Field
	mask uint64
}{
	{"LocalRead", prm.MKC.LocalRead, prm.MaskLocalRead}, {"LocalWrite", prm.MKC.LocalWrite, prm.MaskLocalWrite},
	{"RemoteRead", prm.MKC.RemoteRead, prm.MaskRemoteRead}, {"RemoteWrite", prm.MKC.RemoteWrite, prm.MaskRemoteWrite},
	{"Atomic", prm.MKC.Atomic, prm.MaskAtomic}, {"RelaxedRead", prm.MKC.RelaxedRead, prm.MaskRelaxedRead},
	{"RelaxedWrite", prm.MKC.RelaxedWrite, prm.MaskRelaxedWrite}, {"Length", prm.MKC.Length, prm.MaskLength},
}

// words describes the rights of the key.
func (m *mkey) words() string {
	var words []string
	for _, k := range keyFields {
		if k.f.Is(m[:]) {
			words = append(words, fmt.Sprintf("%s %d", k.name, k.f.Get(m[:])))
		}
	}
	return strings.Join(words, ", ")
}

// umr processes a request that changes a key. The kernel's driver registers memory this way,
// with keys that it created before.
func (d *device) umr(wqe []byte) error {
	const context = prm.UMRDataOffset - prm.MkeyLen
	if len(wqe) < context {
		return fmt.Errorf("a UMR of %d bytes", len(wqe))
	}
	m := d.mkeys[prm.Ctrl.Imm.Get(wqe)>>8]
	if m == nil {
		return nil // the key was created before the trace
	}
	var c mkey
	copy(c[:], wqe[context:])
	for _, k := range keyFields {
		if prm.UMRCtrl.Mask.Get(wqe[prm.Octoword:])&k.mask != 0 {
			k.f.Set(m[:], k.f.Get(c[:]))
		}
	}
	return nil
}
