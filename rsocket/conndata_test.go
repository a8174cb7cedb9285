// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"syscall"
	"testing"
)

// golden is the private data of rdma-core's defaults, in its layout. Its bytes are independent of the
// host, except for the flag of the byte order.
const golden = "01020180" + "00000081" + // version, flags, credits, reserved, mappings
	"00007f0123456780" + "deadbeef" + "00000002" + // SGL
	"00007f0189abcdef" + "cafef00d" + "00010000" // the first half of the buffer

func TestConnData(t *testing.T) {
	want := connData{
		flags:   flagIOMap,
		credits: 384,
		maps:    256,
		sgl:     sge{addr: 0x7f0123456780, key: 0xdeadbeef, length: 2},
		data:    sge{addr: 0x7f0189abcdef, key: 0xcafef00d, length: 65536},
	}
	if got := hex.EncodeToString(want.append(nil)); got != golden {
		t.Errorf("append() = %s, want %s", got, golden)
	}
	b, _ := hex.DecodeString(golden)
	got, err := parseConnData(append(b, make([]byte, 16)...)) // as RoCE delivers it
	if got != want || err != nil {
		t.Errorf("parseConnData() = %+v, %v, want %+v", got, err, want)
	}
	if got.order() != binary.ByteOrder(binary.LittleEndian) {
		t.Errorf("order() = %v, want little-endian", got.order())
	}
	b[1] |= flagNet
	if got, _ := parseConnData(b); got.order() != binary.ByteOrder(binary.BigEndian) {
		t.Errorf("order() with flagNet = %v, want big-endian", got.order())
	}
}

func TestConnDataRefused(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"short":        func(b []byte) []byte { return b[:connDataLen-1] },
		"version 0":    func(b []byte) []byte { b[0] = 0; return b },
		"version 2":    func(b []byte) []byte { b[0] = 2; return b },
		"SGL of 1":     func(b []byte) []byte { binary.BigEndian.PutUint32(b[20:], 1); return b },
		"SGL too long": func(b []byte) []byte { binary.BigEndian.PutUint32(b[20:], maxSGLLen+1); return b },
	} {
		b, _ := hex.DecodeString(golden)
		if _, err := parseConnData(change(b)); !errors.Is(err, syscall.EPROTO) {
			t.Errorf("parseConnData(%s) = %v, want %v", name, err, syscall.EPROTO)
		}
	}
	if _, err := parseConnData(nil); !errors.Is(err, errVersion) {
		t.Errorf("parseConnData(nil) = %v, want %v", err, errVersion)
	}
}

// TestSGE compares the two byte orders of an entry in memory.
func TestSGE(t *testing.T) {
	s := sge{addr: 0x0102030405060708, key: 0x090a0b0c, length: 0x0d0e0f10}
	for _, tc := range []struct {
		order binary.ByteOrder
		want  string
	}{
		{binary.LittleEndian, "08070605040302010c0b0a09100f0e0d"},
		{binary.BigEndian, "0102030405060708090a0b0c0d0e0f10"},
	} {
		var b [sgeLen]byte
		s.put(b[:], tc.order)
		if got := hex.EncodeToString(b[:]); got != tc.want {
			t.Errorf("put(%v) = %s, want %s", tc.order, got, tc.want)
		}
		if got := sgeFrom(b[:], tc.order); got != s {
			t.Errorf("sgeFrom(%v) = %+v, want %+v", tc.order, got, s)
		}
	}
}

// TestMapScale checks the codes of numbers of mappings against rs_value_to_scale and
// rs_scale_to_value of rdma-core.
func TestMapScale(t *testing.T) {
	for _, tc := range []struct{ n, want int }{{0, 0}, {1, 1}, {128, 128}, {129, 128}, {256, 256}, {600, 512}, {maxMaps, 32512}} {
		if got := decodeMaps(encodeMaps(tc.n)); got != tc.want {
			t.Errorf("decodeMaps(encodeMaps(%d)) = %d, want %d", tc.n, got, tc.want)
		}
	}
}

// TestMessage checks the layout of messages.
func TestMessage(t *testing.T) {
	for _, tc := range []struct {
		m    message
		want uint32
	}{
		{newMessage(opData, 65536), 0x00010000},
		{newMessage(opSGL, 0x1fffd), 0x8001fffd},
		{newMessage(opIOMap, 3), 0xc0000003},
		{newMessage(opCtrl, ctrlDisconnect), 0xe0000000},
		{newMessage(opCtrl, ctrlShutdown), 0xe0000002},
	} {
		if uint32(tc.m) != tc.want {
			t.Errorf("%v = %#x, want %#x", tc.m, uint32(tc.m), tc.want)
		}
	}
	if m := message(0xffffffff); m.op() != opCtrl || m.arg() != 1<<29-1 {
		t.Errorf("op() = %d, arg() = %#x, want %d, %#x", m.op(), m.arg(), opCtrl, 1<<29-1)
	}
}

// FuzzConnData decodes private data of a hostile peer. Data that is accepted must survive another
// encoding, except for the reserved fields.
func FuzzConnData(f *testing.F) {
	b, _ := hex.DecodeString(golden)
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parseConnData(b)
		if err != nil {
			return
		}
		again, err := parseConnData(d.append(nil))
		if again != d || err != nil {
			t.Errorf("parseConnData(append()) = %+v, %v, want %+v", again, err, d)
		}
		if d.maps < 0 || d.maps > maxMaps {
			t.Errorf("maps = %d, want 0 to %d", d.maps, maxMaps)
		}
	})
}

// FuzzSender applies entries and credits of a hostile peer, and checks that each message is inside an
// announced window and that the counts stay in their bounds.
func FuzzSender(f *testing.F) {
	f.Add([]byte{0, 10, 1, 20, 2, 30})
	f.Add(bytes.Repeat([]byte{1, 255, 0, 255, 2, 255, 3, 1}, 20))
	f.Fuzz(func(t *testing.T, steps []byte) {
		opts := Options{SendBuffer: minBuffer, SendQueue: minQueue}
		var s sender
		s.init(make([]byte, sglLen*sgeLen), make([]byte, minBuffer), opts)
		s.start(connData{credits: 4, data: sge{addr: 1 << 20, length: 100}})
		for ; len(steps) > 1; steps = steps[2:] {
			arg := int(steps[1])
			switch steps[0] % 4 {
			case 0: // the program writes
				s.committed += uint64(min(arg*16, s.free()))
			case 1: // the peer writes an entry
				sge{addr: uint64(arg) << 56, key: uint32(arg), length: uint32(arg) << (arg % 25)}.put(s.sgl[arg%sglLen*sgeLen:], binary.NativeEndian)
			case 2: // the peer sends credits
				s.lastSeq = uint16(arg) << 8
				s.takeWindow()
			case 3: // requests complete
				if s.inFlight > 0 {
					s.acked, s.slots, s.inFlight = s.posted, s.slots+s.inFlight, 0
				}
			}
			if n := s.nextPiece(1); n > 0 {
				w := s.windows[s.current]
				if uint32(n) > w.length || n > maxTransfer || n > s.pending() || int(s.posted%s.size)+n > minBuffer {
					t.Fatalf("nextPiece() = %d of %d bytes in a window of %d", n, s.pending(), w.length)
				}
				if addr, key := s.advance(n, 1); addr != w.addr || key != w.key {
					t.Fatalf("advance() = %#x, %d, want %#x, %d", addr, key, w.addr, w.key)
				}
			}
			if s.slots < 0 || s.pending() < 0 || s.free() < 0 {
				t.Fatalf("slots %d, pending %d, free %d, want none below 0", s.slots, s.pending(), s.free())
			}
		}
	})
}

// FuzzReceiver applies messages of a hostile peer and reads of the program. The peer must never
// have more memory than is free, and the bytes must come in order.
func FuzzReceiver(f *testing.F) {
	f.Add([]byte{0, 100, 1, 50, 2, 0, 1, 50})
	f.Add(bytes.Repeat([]byte{0, 255, 1, 255, 2, 0}, 40))
	f.Fuzz(func(t *testing.T, steps []byte) {
		var r receiver
		r.init(make([]byte, minBuffer), minQueue)
		for ; len(steps) > 1; steps = steps[2:] {
			arg := int(steps[1])
			switch steps[0] % 5 {
			case 0:
				before := r
				if err := r.arrived(uint32(arg) << (arg % 8)); err != nil && (r.unread != before.unread || r.granted != before.granted) {
					t.Fatalf("arrived() = %v changed the counts", err)
				}
			case 1:
				if n := min(arg*16, len(r.view())); n > 0 {
					r.release(n)
				}
			case 2:
				if _, half := r.due(); half {
					r.released -= r.half()
					r.granted += r.half()
					r.grantAt = (r.grantAt + r.half()) % len(r.buf)
				}
			case 3:
				r.shut = arg > 200
			case 4:
				r.viewed = len(r.view()) * (arg % 2)
			}
			if total := r.unread + r.granted + r.released; total != len(r.buf) {
				t.Fatalf("unread %d + granted %d + released %d = %d, want %d", r.unread, r.granted, r.released, total, len(r.buf))
			}
			if r.count > len(r.lengths) || r.next >= len(r.buf) || r.unread < 0 {
				t.Fatalf("%d messages, next %d, unread %d", r.count, r.next, r.unread)
			}
			// The free part that is not announced begins at grantAt and ends at the oldest byte.
			if end := (r.grantAt + r.released) % len(r.buf); end != r.next {
				t.Fatalf("grantAt %d + released %d ends at %d, want %d", r.grantAt, r.released, end, r.next)
			}
		}
	})
}
