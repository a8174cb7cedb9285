// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMRawPackets sends a program's frames with a raw packet QP. The network interface of the
// other host must receive them unchanged.
func TestVMRawPackets(t *testing.T) {
	const experimental = 0x88b5 // an Ethernet type without another user
	hosts := vmtest.Hosts(t, 2)
	peer, err := net.InterfaceByName(hosts[1].Interface)
	if err != nil {
		t.Fatalf("net.InterfaceByName: %v", err)
	}
	own, err := net.InterfaceByName(hosts[0].Interface)
	if err != nil {
		t.Fatalf("net.InterfaceByName: %v", err)
	}
	typ := uint16(experimental>>8 | experimental&0xff<<8) // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(typ))
	if err != nil {
		t.Fatalf("unix.Socket: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: typ, Ifindex: peer.Index}); err != nil {
		t.Fatalf("unix.Bind: %v", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}); err != nil {
		t.Fatalf("unix.SetsockoptTimeval: %v", err)
	}

	e := newEndWith(t, verbs.DefaultHost(), hosts[0], verbs.QPConfig{Type: verbs.RawPacket, Cap: verbs.QPCap{Inline: 128}})
	for _, s := range []verbs.QPState{verbs.QPInit, verbs.QPRTR, verbs.QPRTS} {
		mask := verbs.QPAttrState
		if s == verbs.QPInit {
			mask |= verbs.QPAttrPort
		}
		modify(t, e.qp, verbs.QPAttr{State: s, Port: 1}, mask)
	}

	for i, n := range []int{60, 100, 700, 1400} {
		frame := append(append([]byte(nil), peer.HardwareAddr...), own.HardwareAddr...)
		frame = binary.BigEndian.AppendUint16(frame, experimental)
		frame = append(frame, bytes.Repeat([]byte{byte(i + 1)}, n-len(frame))...)
		wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: frame}
		if n > 128 {
			copy(e.buf.Bytes(), frame)
			// The card requires the beginning of the frame, which switches read, in the
			// request.
			wr.InlineData, wr.Header, wr.SGList = nil, frame[:18], []verbs.SGE{e.buf.Slice(18, 40), e.buf.Slice(58, n-58)}
		}
		if _, err := e.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatalf("frame of %d bytes: QP.PostSend: %v", n, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		wcs := make([]verbs.WC, 1)
		if _, err := e.cq.Wait(ctx, wcs); err != nil || wcs[0].Err() != nil || wcs[0].ID != uint64(i) {
			t.Fatalf("frame of %d bytes: completion = %+v, %v, want success of ID %d", n, wcs[0], err, i)
		}
		got := make([]byte, 2048)
		k, _, err := unix.Recvfrom(fd, got, 0)
		if err != nil || !bytes.Equal(got[:k], frame) {
			t.Fatalf("frame of %d bytes: Recvfrom = %x, %v, want the same frame", n, got[:max(k, 0)], err)
		}
	}
}
