// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"

	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
)

// Opcodes of reliable connections (IBTA volume 1, table 38).
const (
	readFirst   = 0x0d
	readMiddle  = 0x0e
	readLast    = 0x0f
	acknowledge = 0x11
)

// packet is a RoCE v2 packet of a responder.
type packet struct {
	opcode byte
	psn    uint32
	aeth   bool // whether it has an ACK extended header with an acknowledgment
	data   []byte
}

// wire sends frames from one host to a QP of the other.
type wire struct {
	fd       int
	to       unix.SockaddrLinklayer
	from, at *net.Interface
	src, dst [4]byte
	qpn      uint32
}

func openWire(from, to vmtest.Host, qpn uint32) (*wire, error) {
	w := &wire{src: from.IPv4.As4(), dst: to.IPv4.As4(), qpn: qpn}
	var err error
	if w.from, err = net.InterfaceByName(from.Interface); err != nil {
		return nil, err
	}
	if w.at, err = net.InterfaceByName(to.Interface); err != nil {
		return nil, err
	}
	w.to.Ifindex = w.from.Index
	if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	return w, nil
}

// send sends a packet.
func (w *wire) send(p packet) error {
	return unix.Sendto(w.fd, w.frame(p), 0, &w.to)
}

const (
	ethLen, ipLen, udpLen, bthLen = 14, 20, 8, 12
	roceV2Port                    = 4791
)

// frame builds the Ethernet frame of a packet whose data is a multiple of 4 bytes.
func (w *wire) frame(p packet) []byte {
	be := binary.BigEndian
	bth := []byte{p.opcode, 0, 0xff, 0xff} // the default P_Key
	bth = be.AppendUint32(bth, w.qpn)
	bth = be.AppendUint32(bth, p.psn&0xffffff)
	if p.aeth {
		bth = be.AppendUint32(bth, 0x1f<<24) // ACK without a limit of credits
	}
	body := append(bth, p.data...)
	udp := be.AppendUint16(nil, 49152)
	udp = be.AppendUint16(udp, roceV2Port)
	udp = be.AppendUint16(udp, uint16(udpLen+len(body)+4))
	udp = be.AppendUint16(udp, 0) // no checksum
	ip := []byte{0x45, 0}
	ip = be.AppendUint16(ip, uint16(ipLen+udpLen+len(body)+4))
	ip = append(ip, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0)
	ip = append(append(ip, w.src[:]...), w.dst[:]...)
	icrc := invariant(ip, udp, body)
	be.PutUint16(ip[10:], checksum(ip))
	frame := append([]byte{}, w.at.HardwareAddr...)
	frame = append(frame, w.from.HardwareAddr...)
	frame = be.AppendUint16(frame, unix.ETH_P_IP)
	frame = append(append(append(frame, ip...), udp...), body...)
	return binary.LittleEndian.AppendUint32(frame, icrc)
}

// invariant returns the invariant CRC (IBTA volume 1, annex A17). It covers ones in place of a
// local route header, and the packet with ones in the fields that may change.
func invariant(ip, udp, body []byte) uint32 {
	b := make([]byte, 0, 8+len(ip)+len(udp)+len(body))
	for range 8 {
		b = append(b, 0xff)
	}
	b = append(append(append(b, ip...), udp...), body...)
	at := 8
	b[at+1], b[at+8], b[at+10], b[at+11] = 0xff, 0xff, 0xff, 0xff // type of service, TTL, checksum
	at += ipLen
	b[at+6], b[at+7] = 0xff, 0xff // checksum
	at += udpLen
	b[at+4] = 0xff // congestion bits
	return crc32.ChecksumIEEE(b)
}

// checksum returns the checksum of an IPv4 header.
func checksum(ip []byte) uint16 {
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
