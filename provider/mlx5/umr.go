// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"syscall"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
)

// A WQE that changes a memory key (UMR) binds memory windows and invalidates keys (PRM, "UMR WQE").
// It has one block with the control segments and one with the new context of the key, whose mask
// selects the valid fields. For a bind it has one more block with the memory.

// Flags of a UMR control segment.
const (
	umrInline         = 1 << 7
	umrCheckFree      = 1 << 5 // fail unless the window is free
	umrTranslationOff = 1 << 4
	umrCheckQPN       = 1 << 3 // fail unless the window is this QP's
)

// Mask of a UMR control segment, for changes of the key's context.
const (
	maskLength      = 1 << 0
	maskStart       = 1 << 6
	maskKey         = 1 << 13
	maskQPN         = 1 << 14
	maskLocalWrite  = 1 << 18
	maskRemoteRead  = 1 << 19
	maskRemoteWrite = 1 << 20
	maskAtomic      = 1 << 21
	maskFree        = 1 << 29

	maskBind = maskLength | maskStart | maskLocalWrite | maskRemoteRead | maskRemoteWrite | maskAtomic
)

// Bits of a key's context.
const (
	keyFree        = 1 << 6
	keyLocalWrite  = 1 << 3
	keyRemoteRead  = 1 << 4
	keyRemoteWrite = 1 << 5
	keyAtomic      = 1 << 6
	keyNoQPN       = 0xffffff00 // the key is for all QPs of its PD
)

// umrOctowords is the size of a list of one piece of memory, in units of 16 bytes,
// padded to a block.
const umrOctowords = 4

// maxWindow is the longest piece of memory in a list.
const maxWindow = 1 << 31

// invalidate is the state of a window after OpLocalInv: of type 2, and free.
var invalidate = provider.MWBindInfo{Type: provider.MWType2}

// checkUMR returns the reason why a request cannot bind or invalidate.
func checkUMR(wr *provider.SendWR) error {
	if wr.Opcode == provider.OpLocalInv {
		return nil
	}
	b := wr.Bind
	switch {
	case b == nil:
		return fmt.Errorf("BIND_MW that does not say what: %w", syscall.EINVAL)
	case b.Type != provider.MWType1 && b.Type != provider.MWType2:
		return fmt.Errorf("BIND_MW of a window of type %d: %w", b.Type, syscall.EINVAL)
	case b.Length > maxWindow:
		return fmt.Errorf("BIND_MW of %d bytes, at most %d: %w", b.Length, uint64(maxWindow), syscall.EOPNOTSUPP)
	}
	return nil
}

// umrCompletes returns the operation that the completion of a UMR shows.
func umrCompletes(op provider.SendOpcode) provider.WCOpcode {
	if op == provider.OpLocalInv {
		return provider.WCLocalInv
	}
	return provider.WCBindMW
}

// block returns where the next block is to be written, which all of the WQE before
// fills whole blocks of.
func (w *wqe) block() unsafe.Pointer {
	p := w.next()
	w.p = unsafe.Add(p, wqebb)
	w.ds += wqebb/segment - 1
	return p
}

// umr writes the segments after the control segment of a bind or an invalidation, and returns the
// key that the control segment names.
func (w *wqe) umr(wr *provider.SendWR) uint32 {
	b, key := wr.Bind, wr.InvalidateRKey
	if wr.Opcode == provider.OpLocalInv {
		b = &invalidate
	} else {
		key = b.MW
	}
	flags, mask, octowords := uint64(umrInline|umrTranslationOff), uint64(maskFree|maskKey), uint64(0)
	if b.Type == provider.MWType2 {
		mask |= maskQPN
	}
	switch {
	case b.Length != 0:
		octowords = umrOctowords
		mask |= maskBind
		if b.Type == provider.MWType2 {
			flags |= umrCheckFree
		}
	case b.Type == provider.MWType2:
		flags |= umrCheckQPN
	}
	p := w.next()
	put64(p, flags<<56|octowords<<16)
	put64(unsafe.Add(p, 8), mask)
	*(*[2]uint64)(w.next()) = [2]uint64{}
	*(*[2]uint64)(w.next()) = [2]uint64{}
	w.keyContext(b)
	if b.Length != 0 {
		p := w.block()
		*(*[wqebb / 8]uint64)(p) = [wqebb / 8]uint64{}
		put64(p, b.Length<<32|uint64(b.LKey))
		put64(unsafe.Add(p, 8), b.Addr)
	}
	return key
}

// keyContext writes the new context of the key. Fields that the mask leaves out are
// not written.
func (w *wqe) keyContext(b *provider.MWBindInfo) {
	p := w.block()
	qpn := w.s.num
	if b.Type == provider.MWType1 || b.Length == 0 {
		qpn = keyNoQPN
	}
	*(*uint32)(unsafe.Add(p, 4)) = endian.Big32(qpn | b.RKey&0xff)
	if b.Length == 0 {
		*(*uint8)(p) = keyFree
		return
	}
	*(*uint8)(p) = 0
	*(*uint8)(unsafe.Add(p, 2)) = keyAccess(b.Access)
	start := b.Addr
	if b.Access&provider.ZeroBased != 0 {
		start = 0
	}
	put64(unsafe.Add(p, 16), start)
	put64(unsafe.Add(p, 24), b.Length)
}

// keyAccess converts rights. Reading locally is always allowed.
func keyAccess(a provider.Access) uint8 {
	var k uint8
	for _, r := range [...]struct {
		a provider.Access
		k uint8
	}{
		{provider.LocalWrite, keyLocalWrite}, {provider.RemoteWrite, keyRemoteWrite},
		{provider.RemoteRead, keyRemoteRead}, {provider.RemoteAtomic, keyAtomic},
	} {
		if a&r.a != 0 {
			k |= r.k
		}
	}
	return k
}
