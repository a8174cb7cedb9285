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

// frameType is an Ethernet type for experiments.
const frameType = 0x88b5

// frameTime bounds the wait for a frame.
const frameTime = time.Second

// frameSocket receives the frames of frameType on a network interface.
type frameSocket struct{ fd int }

func (s *frameSocket) close() error { return unix.Close(s.fd) }

// openFrames opens a socket on the interface of the target's port. It returns the address of the interface.
func openFrames(t *Target) (*frameSocket, net.HardwareAddr, error) {
	file, err := t.flagsFile()
	if err != nil {
		return nil, nil, err
	}
	iface, err := net.InterfaceByName(filepath.Base(filepath.Dir(file)))
	if err != nil {
		return nil, nil, err
	}
	typ := binary.NativeEndian.Uint16([]byte{frameType >> 8, frameType & 0xff})
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
	buf := make([]byte, 4096)
	for {
		n, _, err := unix.Recvfrom(s.fd, buf, 0)
		switch {
		case err == nil:
			return buf[:n], nil
		case errors.Is(err, unix.EAGAIN):
			return nil, nil
		case !errors.Is(err, unix.EINTR):
			return nil, os.NewSyscallError("recvfrom", err)
		}
	}
}

// ListenFrames opens the socket of the far end and returns the address of its interface.
func (x *Ends) ListenFrames(_ struct{}, mac *net.HardwareAddr) (err error) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.frames != nil {
		return errors.New("the far end already receives frames")
	}
	s, addr, err := openFrames(x.s.target)
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
	s, _, err := openFrames(t.target)
	if err != nil {
		return fmt.Sprintf("no socket for frames (CAP_NET_RAW): %v", err)
	}
	t.must("close a socket", s.close())
	return ""
}

func checkFrames(t *trial) {
	s, own, err := openFrames(t.target)
	t.must("find the network interface", err)
	t.must("close a socket", s.close())
	e := t.local()
	const inline = 128
	qp, err := e.pd.CreateQP(verbs.QPConfig{Type: verbs.RawPacket, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, Cap: verbs.QPCap{SendWR: 16, SendSGE: 2, Inline: inline}})
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
		t.skip("the user has no QPs of raw packets: %v", err)
	}
	t.must("create a QP of raw packets", err)
	t.later(qp.Close)
	t.move(qp, verbs.QPAttr{State: verbs.QPInit, Port: t.target.Port}, verbs.QPAttrPort)
	t.move(qp, verbs.QPAttr{State: verbs.QPRTR}, 0)
	t.move(qp, verbs.QPAttr{State: verbs.QPRTS}, 0)
	var far net.HardwareAddr
	t.call("ListenFrames", struct{}{}, &far)
	received := 0
	sizes := []int{60, 100, inline, 700, 1400}
	for i, size := range sizes {
		frame := append(append(bytes.Clone(far), own...), frameType>>8, frameType&0xff)
		frame = append(frame, pattern(i, size-len(frame))...)
		wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, InlineData: frame}
		if size > inline {
			// A device may need the beginning of the frame, which switches read, in the request.
			const head = 18
			copy(e.mr.Bytes(), frame)
			wr.InlineData, wr.Header, wr.SGList = nil, frame[:head], e.elements([]piece{{head, 40}, {head + 40, size - head - 40}})
		}
		_, err := qp.PostSend([]verbs.SendWR{signaled(wr)})
		t.must(fmt.Sprintf("post a frame of %d bytes", size), err)
		if wc := t.completed(e.sendCQ, "frame"); wc.ID != uint64(i) {
			t.fail("frame of %d bytes: completion %+v, want ID %d", size, wc, i)
		}
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
	if received < len(sizes) {
		t.end(hwreport.Unknown, fmt.Sprintf("%d of %d frames were received; a device or a switch may drop them", received, len(sizes)))
	}
}
