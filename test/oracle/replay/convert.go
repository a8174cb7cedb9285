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

// FromRoot returns the path of a file from its name in the root directory of the module. Tests run in the directory of
// the module or of a provider.
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

// Bits of enum ibv_send_flags that differ from provider.SendFlags.
const sendInline = 1 << 3

// Inlined reports whether a request has inline data.
func Inlined(w *vector.WR) bool { return w.Flags&sendInline != 0 }

// SendWR converts a request. Inline data is the initial content of the memory in the elements. The caller sets address
// handles and the type of a window.
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

// States maps the names of states to the states of QPs.
var States = map[string]provider.QPState{
	"RESET": provider.QPReset, "INIT": provider.QPInit, "RTR": provider.QPRTR, "RTS": provider.QPRTS,
	"SQD": provider.QPSQD, "SQE": provider.QPSQE, "ERR": provider.QPErr,
}

// DiffWC returns the differences between a completion and the oracle's completion, or "". Members that the oracle's
// library did not write do not count. In a failed completion only the members that package provider documents count.
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

// Diff formats the differing bytes of got and want. It starts at most 16 bytes before the first difference, at a
// segment of 16.
func Diff(want, got []byte) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	from := max(0, at&^15-16)
	show := func(b []byte) string { return fmt.Sprintf("% x", b[min(from, len(b)):min(from+64, len(b))]) }
	return fmt.Sprintf("from byte %d on, of %d and %d:\n got %s\nwant %s", at, len(got), len(want), show(got), show(want))
}
