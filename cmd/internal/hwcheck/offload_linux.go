// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"purerdma/verbs"
)

// Lengths of headers, with the Ethernet header.
const (
	ipv4Header = ethernetHeader + 20
	udpHeader  = ipv4Header + 8
	tcpHeader  = ipv4Header + 20
)

// Protocols of IPv4.
const (
	protocolTCP = 6
	protocolUDP = 17
)

// discard is the port of both ends of packets.
const discard = 9

// ipv4 returns the headers of a packet from packetFrom to packetTo without checksums. n is the number of bytes after them.
func (s *frameSender) ipv4(protocol byte, n int) []byte {
	h := make([]byte, udpHeader)
	if protocol == protocolTCP {
		h = make([]byte, tcpHeader)
	}
	copy(h, s.header(ipv4Type))
	ip := h[ethernetHeader:]
	ip[0] = 0x45
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+n))
	ip[8], ip[9] = 64, protocol
	copy(ip[12:], packetFrom[:])
	copy(ip[16:], packetTo[:])
	transport := h[ipv4Header:]
	binary.BigEndian.PutUint16(transport, discard)
	binary.BigEndian.PutUint16(transport[2:], discard)
	if protocol == protocolTCP {
		transport[12] = 0x50 // 5 words
		transport[13] = 0x10 // ACK
	} else {
		binary.BigEndian.PutUint16(transport[4:], uint16(len(transport)+n))
	}
	return h
}

// sum returns the checksum of the Internet over bytes that include a checksum. It is 0 if that is right.
func sum(start uint32, b []byte) uint16 {
	for ; len(b) > 1; b = b[2:] {
		start += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		start += uint32(b[0]) << 8
	}
	for start > 0xffff {
		start = start>>16 + start&0xffff
	}
	return ^uint16(start)
}

// checksums returns an error unless the checksums of an IPv4 packet in a frame are right.
func checksums(frame []byte) error {
	ip := frame[ethernetHeader:ipv4Header]
	if got := sum(0, ip); got != 0 {
		return fmt.Errorf("wrong checksum of the IPv4 header % x", ip)
	}
	end := ethernetHeader + int(binary.BigEndian.Uint16(ip[2:]))
	if end > len(frame) || end < udpHeader {
		return fmt.Errorf("packet of %d bytes in a frame of %d", end-ethernetHeader, len(frame))
	}
	transport := frame[ipv4Header:end]
	pseudo := uint32(^sum(0, ip[12:20])) + uint32(ip[9]) + uint32(len(transport))
	if got := sum(pseudo, transport); got != 0 {
		return fmt.Errorf("wrong checksum behind the IPv4 header: protocol %d, header % x", ip[9], transport[:8])
	}
	return nil
}

func needsOffloads(t *trial) string {
	if reason := needsFrames(t); reason != "" {
		return reason
	}
	if t.attr.Packets.MaxTSO == 0 {
		return "the device does not segment TCP"
	}
	return ""
}

// checkOffloads sends packets whose checksums the device computes, and a stream of TCP that it cuts into packets.
func checkOffloads(t *trial) {
	s := t.frameSender(64)
	t.call("ListenFrames", uint16(ipv4Type), &s.far)
	frames := func() (got []byte) {
		t.call("Frame", struct{}{}, &got)
		return got
	}
	received := 0
	for i, size := range []int{1, 40, 500, 1001} {
		data := pattern(i, size)
		frame := append(s.ipv4(protocolUDP, size), data...)
		wr := s.request(frame)
		wr.Flags = verbs.SendIPChecksum
		s.send(fmt.Sprintf("packet of %d bytes", size), wr)
		got := frames()
		if len(got) == 0 {
			t.note("no packet of %d bytes was received", size)
			continue
		}
		received++
		if err := checksums(got); err != nil {
			t.fail("packet of %d bytes: %v", size, err)
		}
		if !bytes.Equal(got[udpHeader:][:size], data) {
			t.fail("packet of %d bytes: %s", size, difference(got[udpHeader:][:size], data))
		}
	}
	t.allFrames(received, 4)
	t.segments(s, frames)
}

// segments has the device cut a stream of TCP into packets, and compares the packets.
func (t *trial) segments(s *frameSender, frames func() []byte) {
	const mss, size, first = 1000, 4500, 7
	h := s.ipv4(protocolTCP, size)
	binary.BigEndian.PutUint32(h[ipv4Header+4:], first)
	fillPattern(s.mr.Bytes()[:size], 5)
	want := bytes.Clone(s.mr.Bytes()[:size])
	s.send("stream of TCP", verbs.SendWR{Opcode: verbs.OpLSO, Flags: verbs.SendIPChecksum, Header: h, MSS: mss, SGList: s.elements([]piece{{0, 3000}, {3000, size - 3000}})})
	stream, packets := []byte{}, 0
	for len(stream) < size {
		got := frames()
		if len(got) < tcpHeader {
			break
		}
		packets++
		n := int(binary.BigEndian.Uint16(got[ethernetHeader+2:])) + ethernetHeader - tcpHeader
		if seq := binary.BigEndian.Uint32(got[ipv4Header+4:]); seq != first+uint32(len(stream)) || n < 0 || n > len(got)-tcpHeader {
			t.fail("packet %d of a stream: number %d, %d bytes in a frame of %d, want number %d", packets, seq, n, len(got), first+len(stream))
		}
		if n <= mss { // the kernel has not joined packets, and so has not changed their checksums
			if err := checksums(got); err != nil {
				t.fail("packet %d of a stream: %v", packets, err)
			}
		}
		stream = append(stream, got[tcpHeader:][:n]...)
	}
	t.note("%d bytes of TCP in packets of at most %d: %d frames with %d bytes", size, mss, packets, len(stream))
	t.allFrames(len(stream), size)
	if !bytes.Equal(stream, want) {
		t.fail("stream of TCP: %s", difference(stream, want))
	}
}
