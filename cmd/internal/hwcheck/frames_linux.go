// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/internal/hwreport"
	"purerdma/verbs"
)

// Ethernet types.
const (
	frameType = 0x88b5 // for experiments
	ipv4Type  = 0x0800
)

// Addresses of the packets of checks. They are for documentation, so that no host has them.
var (
	packetFrom = [4]byte{192, 0, 2, 1}
	packetTo   = [4]byte{192, 0, 2, 2}
)

// frameTime bounds the wait for a frame.
const frameTime = time.Second

// frameSocket receives the frames of a type on a network interface. It drops IPv4 packets that are not for packetTo.
type frameSocket struct{ fd int }

func (s *frameSocket) close() error { return unix.Close(s.fd) }

// netInterface returns the network interface of the target's port.
func (t *Target) netInterface() (*net.Interface, error) {
	file, err := t.flagsFile()
	if err != nil {
		return nil, err
	}
	return net.InterfaceByName(filepath.Base(filepath.Dir(file)))
}

// openFrames opens a socket for an Ethernet type on the interface of the target's port. It returns the address of the interface.
func openFrames(t *Target, ethernetType uint16) (*frameSocket, net.HardwareAddr, error) {
	iface, err := t.netInterface()
	if err != nil {
		return nil, nil, err
	}
	typ := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, ethernetType))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(typ))
	if err != nil {
		return nil, nil, os.NewSyscallError("socket", err)
	}
	timeout := unix.NsecToTimeval(int64(frameTime))
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: typ, Ifindex: iface.Index}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
	)
	if err != nil {
		unix.Close(fd)
		return nil, nil, err
	}
	return &frameSocket{fd}, iface.HardwareAddr, nil
}

// receive returns the next frame, or nothing if none comes.
func (s *frameSocket) receive() ([]byte, error) {
	buf := make([]byte, 64<<10) // the kernel may have joined TCP segments
	for {
		n, _, err := unix.Recvfrom(s.fd, buf, 0)
		switch {
		case err == nil && (n < ipv4Header || binary.BigEndian.Uint16(buf[12:]) != ipv4Type || [4]byte(buf[30:]) == packetTo):
			return buf[:n], nil
		case err == nil:
		case errors.Is(err, unix.EAGAIN):
			return nil, nil
		case !errors.Is(err, unix.EINTR):
			return nil, os.NewSyscallError("recvfrom", err)
		}
	}
}

// ListenFrames opens the socket of the far end and returns the address of its interface.
func (x *Ends) ListenFrames(ethernetType uint16, mac *net.HardwareAddr) (err error) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.frames != nil {
		return errors.New("the far end already receives frames")
	}
	s, addr, err := openFrames(x.s.target, ethernetType)
	if err != nil {
		return err
	}
	x.s.frames, *mac = s, addr
	return nil
}

// Frame returns the next frame of the far end, or nothing if none comes.
func (x *Ends) Frame(_ struct{}, frame *[]byte) (err error) {
	x.s.mu.Lock()
	s := x.s.frames
	x.s.mu.Unlock()
	if s == nil {
		return errors.New("the far end receives no frames")
	}
	*frame, err = s.receive()
	return err
}

func needsFrames(t *trial) string {
	if reason := needsKernel(t); reason != "" {
		return reason
	}
	if reason := needsEthernet(t); reason != "" {
		return reason
	}
	s, _, err := openFrames(t.target, frameType)
	if err != nil {
		return fmt.Sprintf("no socket for frames (CAP_NET_RAW): %v", err)
	}
	t.must("close a socket", s.close())
	return ""
}

// Sizes of checks of frames.
const (
	inlineFrame    = 128
	ethernetHeader = 14
	// inlineHead is the beginning of a frame, which switches read. A device may need it in the request.
	inlineHead = 18
)

// frameSender sends frames by a QP of raw packets.
type frameSender struct {
	t *trial
	*end
	qp  *verbs.QP
	mac net.HardwareAddr // of the near end
	far net.HardwareAddr
}

// frameSender creates a QP that can send.
func (t *trial) frameSender(header int) *frameSender {
	iface, err := t.target.netInterface()
	t.must("find the network interface", err)
	s := &frameSender{t: t, end: t.local(), mac: iface.HardwareAddr}
	s.qp, err = s.pd.CreateQP(verbs.QPConfig{
		Type: verbs.RawPacket, SendCQ: s.sendCQ, RecvCQ: s.recvCQ, MaxLSOHeader: header, Cap: verbs.QPCap{SendWR: 16, SendSGE: 2, Inline: inlineFrame},
	})
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
		t.skip("the user has no QPs of raw packets: %v", err)
	}
	t.must("create a QP of raw packets", err)
	t.later(s.qp.Close)
	t.rawStates(s.qp)
	return s
}

// rawStates moves a QP of raw packets to RTS.
func (t *trial) rawStates(qp *verbs.QP) {
	t.must("connect a QP of raw packets", rawStates(qp, t.target.Port))
}

func rawStates(qp *verbs.QP, port uint8) error {
	return errors.Join(
		qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: port}, verbs.QPAttrState|verbs.QPAttrPort),
		qp.Modify(&verbs.QPAttr{State: verbs.QPRTR}, verbs.QPAttrState),
		qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState),
	)
}

// header returns an Ethernet header from the near to the far end.
func (s *frameSender) header(ethernetType uint16) []byte {
	return binary.BigEndian.AppendUint16(append(bytes.Clone(s.far), s.mac...), ethernetType)
}

// request returns a request that sends a frame.
func (s *frameSender) request(frame []byte) verbs.SendWR {
	if len(frame) <= inlineFrame {
		return verbs.SendWR{Opcode: verbs.OpSend, InlineData: frame}
	}
	copy(s.mr.Bytes(), frame)
	return verbs.SendWR{
		Opcode: verbs.OpSend, Header: frame[:inlineHead],
		SGList: s.elements([]piece{{inlineHead, 40}, {inlineHead + 40, len(frame) - inlineHead - 40}}),
	}
}

// send posts a request and waits for its success.
func (s *frameSender) send(what string, wr verbs.SendWR) {
	_, err := s.qp.PostSend([]verbs.SendWR{signaled(wr)})
	s.t.must("post "+what, err)
	if wc := s.t.completed(s.sendCQ, what); wc.ID != wr.ID {
		s.t.fail("%s: completion %+v, want ID %d", what, wc, wr.ID)
	}
}

// frameSizes are sizes of frames, around the limit of inline data.
var frameSizes = []int{60, 100, inlineFrame, 700, 1400}

func checkFrames(t *trial) {
	s := t.frameSender(0)
	t.call("ListenFrames", uint16(frameType), &s.far)
	received := 0
	for i, size := range frameSizes {
		frame := append(s.header(frameType), pattern(i, size-ethernetHeader)...)
		wr := s.request(frame)
		wr.ID = uint64(i)
		s.send(fmt.Sprintf("frame of %d bytes", size), wr)
		var got []byte
		t.call("Frame", struct{}{}, &got)
		if len(got) == 0 {
			t.note("no frame of %d bytes was received", size)
			continue
		}
		received++
		if !bytes.Equal(got, frame) {
			t.fail("frame of %d bytes: %s", size, difference(got, frame))
		}
	}
	t.allFrames(received, len(frameSizes))
}

// allFrames ends the check with UNKNOWN unless all frames have arrived.
func (t *trial) allFrames(received, want int) {
	if received < want {
		t.end(hwreport.Unknown, fmt.Sprintf("%d of %d frames were received; a device or a switch may drop them", received, want))
	}
}
