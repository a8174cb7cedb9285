// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// receivedType is an Ethernet type for experiments, which no socket of the checks receives.
const receivedType = 0x88b6

// sharingKernel is a kernel that keeps the transport of the last opened device.
type sharingKernel struct {
	uverbs.Kernel
	transport uverbs.Transport
}

// Open opens a device.
func (k *sharingKernel) Open(info uverbs.DeviceInfo) (t uverbs.Transport, err error) {
	t, err = k.Kernel.Open(info)
	k.transport = t
	return t, err
}

// openKernel is a kernel whose devices are an open one.
type openKernel struct {
	uverbs.Kernel
	uverbs.Transport
}

// Open returns the open device.
func (k openKernel) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return k.Transport, nil }

// frameReceiver receives frames by a QP of raw packets. Packages verbs and provider have no flow rules, so the rules are created
// through another uverbs.File of the same open device.
type frameReceiver struct {
	end
	frames int // received
}

// Receives of a frameReceiver.
const (
	frameRecvs = 16
	frameRoom  = 2048 // bytes
)

// openReceiver creates a QP that receives the frames of receivedType to the port's interface, and IPv4 packets to packetTo.
func openReceiver(t *Target) (*frameReceiver, net.HardwareAddr, error) {
	r := &frameReceiver{end: end{target: t, cfg: Config{Memory: frameRecvs * frameRoom}}}
	iface, err := t.netInterface()
	if err == nil {
		err = r.start(iface.HardwareAddr)
	}
	if err != nil {
		return nil, nil, errors.Join(err, r.close())
	}
	return r, iface.HardwareAddr, nil
}

func (r *frameReceiver) start(mac net.HardwareAddr) error {
	k := &sharingKernel{Kernel: r.target.kernel()}
	host := &verbs.Host{Drivers: r.target.Host.Drivers, Kernel: k, Log: r.target.Host.Log}
	dev, err := host.Open(r.target.Device)
	if err != nil {
		return err
	}
	r.later(dev.Close)
	r.cfg.fill()
	r.dev = dev
	if err := r.buildShared(); err != nil {
		return err
	}
	if r.qp, err = r.pd.CreateQP(verbs.QPConfig{Type: verbs.RawPacket, SendCQ: r.sendCQ, RecvCQ: r.recvCQ, Cap: verbs.QPCap{RecvWR: frameRecvs}}); err != nil {
		return err
	}
	r.later(r.qp.Close)
	if err := rawStates(r.qp, r.target.Port); err != nil {
		return err
	}
	for i := range frameRecvs {
		if err := r.recv(uint64(i), []piece{{i * frameRoom, frameRoom}}); err != nil {
			return err
		}
	}
	info, err := r.target.info()
	if err != nil {
		return err
	}
	f, err := uverbs.Open(openKernel{k, k.transport}, info) // not closed, because dev owns the transport
	if err != nil {
		return err
	}
	eth := func(ethernetType uint16) []byte {
		s := abi.UverbsFlowSpecEth{Type: flowSpecEth, Size: uint16(abi.Size[abi.UverbsFlowSpecEth]())}
		copy(s.Val.DstMAC[:], mac)
		copy(s.Mask.DstMAC[:], bytes.Repeat([]byte{0xff}, len(mac)))
		binary.BigEndian.PutUint16(s.Val.EtherType[:], ethernetType)
		s.Mask.EtherType = [2]uint8{0xff, 0xff}
		return abi.Bytes(&s)
	}
	ip := abi.UverbsFlowSpecIPv4{Type: flowSpecIPv4, Size: uint16(abi.Size[abi.UverbsFlowSpecIPv4]())}
	ip.Val.DstIP, ip.Mask.DstIP = packetTo, [4]uint8{0xff, 0xff, 0xff, 0xff}
	for _, specs := range [][][]byte{{eth(receivedType)}, {eth(ipv4Type), abi.Bytes(&ip)}} {
		all := bytes.Join(specs, nil)
		flow, err := f.CreateFlow(r.qp.Provider().Handle(), abi.UverbsFlowAttr{Size: uint16(len(all)), NumOfSpecs: uint8(len(specs)), Port: r.target.Port}, all, uverbs.Driver{})
		if err != nil {
			return fmt.Errorf("create a flow rule: %w", err)
		}
		r.later(func() error { return f.DestroyFlow(flow) })
	}
	return nil
}

// Types of the parts of a flow rule (enum ib_flow_spec_type of the kernel).
const (
	flowSpecEth  = 0x20
	flowSpecIPv4 = 0x30
)

// ListenQP creates the frameReceiver of the far end, and returns the address of its interface.
func (x *Ends) ListenQP(_ struct{}, mac *net.HardwareAddr) error {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.raw != nil {
		return errors.New("the far end already receives frames by a QP")
	}
	r, addr, err := openReceiver(x.s.target)
	if err == nil {
		x.s.raw, *mac = r, addr
	}
	return err
}

// RawFrame is a received frame.
type RawFrame struct {
	Data []byte
	// Checked reports that the device has found the checksums of IPv4 and of the protocol in it to be right.
	Checked bool
}

// QPFrame returns the next frame that the QP of the far end has received, or the zero RawFrame if none comes.
func (x *Ends) QPFrame(_ struct{}, frame *RawFrame) error {
	x.s.mu.Lock()
	r := x.s.raw
	x.s.mu.Unlock()
	if r == nil {
		return errors.New("the far end receives no frames by a QP")
	}
	if r.frames == frameRecvs {
		return errors.New("the far end has no more receives")
	}
	ctx, cancel := context.WithTimeout(x.s.ctx, frameTime)
	defer cancel()
	var wcs [1]verbs.WC
	if n, err := r.recvCQ.Wait(ctx, wcs[:]); n == 0 {
		if ctx.Err() != nil && x.s.ctx.Err() == nil {
			err = nil
		}
		return err
	}
	if err := wcs[0].Err(); err != nil {
		return err
	}
	r.frames++
	at := int(wcs[0].ID) * frameRoom
	*frame = RawFrame{bytes.Clone(r.mr.Bytes()[at:][:wcs[0].ByteLen]), wcs[0].Flags&verbs.WCIPCsumOK != 0}
	return nil
}

// checkRawReceive receives frames by a QP. A flow rule of the device directs them to it.
func checkRawReceive(t *trial) {
	s := t.frameSender(0)
	if err := t.peer.client.Call("Ends.ListenQP", struct{}{}, &s.far); err != nil {
		t.skip("the device or the driver does not direct frames to a QP: %v", err)
	}
	received := 0
	compare := func(what string, frame []byte) (got RawFrame) {
		s.send(what, s.request(frame))
		t.call("QPFrame", struct{}{}, &got)
		if len(got.Data) == 0 {
			t.note("%s: not received", what)
			return got
		}
		received++
		if len(got.Data) < len(frame) || !bytes.Equal(got.Data[:len(frame)], frame) {
			t.fail("%s: %s", what, difference(got.Data, frame))
		}
		return got
	}
	for i, size := range frameSizes {
		compare(fmt.Sprintf("frame of %d bytes", size), append(s.header(receivedType), pattern(i, size-ethernetHeader)...))
	}
	// Packets with right and wrong checksums.
	for _, wrong := range []byte{0, 1} {
		frame := append(s.ipv4(protocolUDP, 100), pattern(1, 100)...)
		ip, transport := frame[ethernetHeader:ipv4Header], frame[ipv4Header:]
		binary.BigEndian.PutUint16(ip[10:], sum(0, ip))
		pseudo := uint32(^sum(0, ip[12:20])) + protocolUDP + uint32(len(transport))
		binary.BigEndian.PutUint16(transport[6:], sum(pseudo, transport))
		frame[len(frame)-1] += wrong
		got := compare("packet", frame)
		t.note("packet with %d wrong bytes: the device confirms the checksums: %t", wrong, got.Checked)
		if wrong > 0 && got.Checked {
			t.fail("the device confirms the checksums of a packet with a wrong byte")
		}
	}
	t.allFrames(received, len(frameSizes)+2)
}
