// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"fmt"
	"os"
	"path/filepath"

	"purerdma/provider"
	"purerdma/test/oracle/vector"
)

// FromRoot returns a file by its name in the directory of the module, from which tests
// are run, or in that of a provider.
func FromRoot(name string) string {
	if _, err := os.Stat(name); err != nil && !filepath.IsAbs(name) {
		return filepath.Join("../..", name)
	}
	return name
}

// SGEs converts elements.
func SGEs(list [][3]uint64) []provider.SGE {
	var sg []provider.SGE
	for _, e := range list {
		sg = append(sg, provider.SGE{Addr: e[0], Length: uint32(e[1]), LKey: uint32(e[2])})
	}
	return sg
}

// Bits of enum ibv_send_flags that are not those of provider.SendFlags.
const sendInline = 1 << 3

// Inlined says whether a request asks for its data to be inline.
func Inlined(w *vector.WR) bool { return w.Flags&sendInline != 0 }

// SendWR converts a request. Inline data is what is at first in the memory that the
// elements name. Address handles and the type of a window are the caller's to set.
func SendWR(w *vector.WR) provider.SendWR {
	p := provider.SendWR{
		ID: w.ID, Opcode: provider.OpWrite + provider.SendOpcode(w.Opcode), Flags: provider.SendFlags(w.Flags &^ sendInline),
		RemoteAddr: w.RAddr, RKey: w.RKey, ImmData: w.Imm, InvalidateRKey: w.Inv, CompareAdd: w.Cmp, Swap: w.Swap,
		RemoteQPN: w.RQPN, RemoteQKey: w.QKey, RemoteSRQN: w.XRCSRQN, Header: w.Hdr, MSS: uint16(w.MSS),
	}
	if b := w.Bind; b != nil {
		p.Bind = &provider.MWBindInfo{MW: b.MW, RKey: b.RKey, LKey: b.LKey, Addr: b.Addr, Length: b.Len, Access: provider.Access(b.Access)}
	}
	if !Inlined(w) {
		p.SGList = SGEs(w.SGE)
		return p
	}
	p.InlineData = []byte{}
	for _, e := range w.SGE {
		for i := range e[1] {
			p.InlineData = append(p.InlineData, vector.DataByte(e[0]-vector.Data+i))
		}
	}
	return p
}

// RecvWR converts a receive.
func RecvWR(w *vector.WR) provider.RecvWR { return provider.RecvWR{ID: w.ID, SGList: SGEs(w.SGE)} }

// Cap converts the sizes of a QP.
func Cap(c []int) provider.QPCap {
	return provider.QPCap{SendWR: c[0], RecvWR: c[1], SendSGE: c[2], RecvSGE: c[3], Inline: c[4]}
}

// States are the states of QPs by name.
var States = map[string]provider.QPState{
	"RESET": provider.QPReset, "INIT": provider.QPInit, "RTR": provider.QPRTR, "RTS": provider.QPRTS,
	"SQD": provider.QPSQD, "SQE": provider.QPSQE, "ERR": provider.QPErr,
}

// DiffWC says in what a completion differs from what the oracle gave; "" if in
// nothing. What the oracle's library left as it was does not count; of one that
// failed only what package provider says counts.
func DiffWC(want *vector.WC, got *provider.WC) string {
	diff := ""
	field := func(name string, w *uint64, g uint64) {
		if w != nil && *w != g {
			diff += fmt.Sprintf(" %s %#x, want %#x;", name, g, *w)
		}
	}
	field("ID", want.ID, got.ID)
	field("Status", want.Status, uint64(got.Status))
	field("VendorErr", want.VendorErr, uint64(got.VendorErr))
	field("QPNum", want.QPN, uint64(got.QPNum))
	if got.Status != provider.WCSuccess {
		return diff
	}
	field("Opcode", want.Opcode, uint64(got.Opcode))
	field("ByteLen", want.ByteLen, uint64(got.ByteLen))
	field("SrcQP", want.SrcQP, uint64(got.SrcQP))
	field("Flags", want.Flags, uint64(got.Flags))
	field("PKeyIndex", want.PKeyIndex, uint64(got.PKeyIndex))
	field("SLID", want.SLID, uint64(got.SLID))
	field("SL", want.SL, uint64(got.SL))
	field("DLIDPathBits", want.PathBits, uint64(got.DLIDPathBits))
	field("ImmData", want.Imm, uint64(got.ImmData))
	field("InvalidatedRKey", want.Inv, uint64(got.InvalidatedRKey))
	return diff
}

// Diff shows bytes that are not as they must be, from 16 before the first that is
// not on, in segments of 16.
func Diff(want, got []byte) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	from := max(0, at&^15-16)
	show := func(b []byte) string { return fmt.Sprintf("% x", b[min(from, len(b)):min(from+64, len(b))]) }
	return fmt.Sprintf("from byte %d on, of %d and %d:\n got %s\nwant %s", at, len(got), len(want), show(got), show(want))
}
