// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"purerdma/abi"
)

// fakeSocket answers each request with the next script.
type fakeSocket struct {
	scripts []script
	sent    []string // "command flags body" of each request
	closed  bool
}

// script is an answer: messages, and the error at the end.
type script struct {
	messages []*request
	err      error
	endless  bool // repeat the last message without end
}

func (s *fakeSocket) close() { s.closed = true }

func (s *fakeSocket) exchange(r *request, dump, ack bool, each func(value) error) error {
	flags := ""
	if dump {
		flags += "D"
	}
	if ack {
		flags += "A"
	}
	s.sent = append(s.sent, hex.EncodeToString([]byte{byte(r.cmd)})+flags+" "+hex.EncodeToString(r.body))
	sc := s.scripts[0]
	s.scripts = s.scripts[1:]
	for i := 0; i < len(sc.messages); i++ {
		if err := each(sc.messages[i].body); err != nil {
			return &incompleteError{err}
		}
		if sc.endless && i == len(sc.messages)-1 {
			i--
		}
	}
	return sc.err
}

func fakeConn(scripts ...script) (*Conn, *fakeSocket) {
	s := &fakeSocket{scripts: scripts}
	return &Conn{socket: s, limit: 10_000}, s
}

func qpMessage(numbers ...uint32) *request {
	table := message()
	for _, n := range numbers {
		table.addNested(abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, message().addU32(abi.RDMA_NLDEV_ATTR_RES_LQPN, n))
	}
	return message().addU32(abi.RDMA_NLDEV_ATTR_DEV_INDEX, 2).addNested(abi.RDMA_NLDEV_ATTR_RES_QP, table)
}

// TestLongList checks lists of several messages.
func TestLongList(t *testing.T) {
	var messages []*request
	var want []uint32
	for i := range uint32(1000) {
		messages = append(messages, qpMessage(10*i, 10*i+1, 10*i+2))
		want = append(want, 10*i, 10*i+1, 10*i+2)
	}
	c, _ := fakeConn(script{messages: append(messages, qpMessage())})
	qps, err := c.QPs(2)
	if err != nil {
		t.Fatalf("QPs(2): %v", err)
	}
	var got []uint32
	for _, q := range qps {
		got = append(got, q.Number)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("QPs(2) differs (-want +got):\n%s", diff)
	}
}

// TestChangingList checks that an interrupted list is requested again, and not without end.
func TestChangingList(t *testing.T) {
	interrupted := script{messages: []*request{qpMessage(1, 2)}, err: errInterrupted}
	c, s := fakeConn(interrupted, interrupted, script{messages: []*request{qpMessage(3)}})
	qps, err := c.QPs(2)
	if err != nil || len(qps) != 1 || qps[0].Number != 3 || len(s.sent) != 3 {
		t.Errorf("QPs(2) = %+v, %v after %d requests, want QP 3 after 3", qps, err, len(s.sent))
	}
	c, s = fakeConn(interrupted, interrupted, interrupted, interrupted)
	if _, err := c.QPs(2); !errors.Is(err, syscall.EINTR) {
		t.Errorf("QPs(2) of a list that always changes = %v, want EINTR", err)
	}
	if s.closed {
		t.Error("the socket is closed after a complete answer, want open")
	}
}

// TestEndlessList checks an answer without an end. Kernels send messages without objects if an object
// is larger than a message.
func TestEndlessList(t *testing.T) {
	for _, tc := range []struct {
		name string
		last *request
		want error
	}{
		{"no objects", qpMessage(), syscall.EMSGSIZE},
		{"too many objects", qpMessage(make([]uint32, 2000)...), syscall.E2BIG},
	} {
		c, s := fakeConn(script{messages: []*request{qpMessage(1), tc.last}, endless: true})
		if _, err := c.QPs(2); !errors.Is(err, tc.want) {
			t.Errorf("%s: QPs(2) = %v, want %v", tc.name, err, tc.want)
		}
		if !s.closed {
			t.Errorf("%s: the socket is open, want closed", tc.name)
		}
		if _, err := c.Devices(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: Devices() = %v, want net.ErrClosed", tc.name, err)
		}
	}
}

// TestRequests compares the bytes of the requests. The attributes were read from the kernel's handlers
// (drivers/infiniband/core/nldev.c).
func TestRequests(t *testing.T) {
	counter := script{messages: []*request{message().addU32(abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, 9)}}
	empty := script{messages: []*request{message()}}
	privileged := script{messages: []*request{message().addBool(abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, false)}}
	const dev, port, forQPs = "0800010003000000", "0800030001000000", "08004b0013000000"
	for _, tc := range []struct {
		name   string
		call   func(*Conn) error
		answer script
		want   string
	}{
		{"SetName", func(c *Conn) error { return c.SetName(3, "blue") }, script{}, "02A " + dev + "09000200626c756500000000"},
		{"SetNetNS", func(c *Conn) error { return c.SetNetNS(3, 5) }, script{}, "02A " + dev + "0800440005000000"},
		{"SetAdaptiveModeration", func(c *Conn) error { return c.SetAdaptiveModeration(3, true) }, script{}, "02A " + dev + "0500540001000000"},
		{"AddLink", func(c *Conn) error { return c.AddLink("a", "rxe", "eth0") }, script{}, "03A 060002006100000008004100727865000900330065746830" + "00000000"},
		{"DeleteLink", func(c *Conn) error { return c.DeleteLink(3) }, script{}, "04A " + dev},
		{"AddDevice", func(c *Conn) error { return c.AddDevice(3, "a", DeviceSMI) }, script{}, "1aA " + dev + "06000200610000000500630001000000"},
		{"DeleteDevice", func(c *Conn) error { return c.DeleteDevice(3) }, script{}, "1bA " + dev},
		{"SetSharedNetNS", func(c *Conn) error { return c.SetSharedNetNS(false) }, script{}, "07A 0500420000000000"},
		{"SetPrivilegedQKey", func(c *Conn) error { return c.SetPrivilegedQKey(true) }, privileged, "07A 0500600001000000"},
		{"HWCounters", func(c *Conn) error { _, err := c.HWCounters(3, 1); return err }, empty, "11 " + dev + port},
		{"Counters", func(c *Conn) error { _, err := c.Counters(3, 1); return err }, empty, "11D " + dev + port + forQPs},
		{"MRCounters", func(c *Conn) error { _, err := c.MRCounters(3); return err }, empty, "11D " + dev + "08004b0028000000"},
		{"HWCounterStatus", func(c *Conn) error { _, err := c.HWCounterStatus(3, 1); return err }, empty, "18 " + dev + port},
		{"SetOptionalCounters", func(c *Conn) error { return c.SetOptionalCounters(3, 1, 6, 7) }, empty, "10 " + dev + port + "1400508008005e000600000008005e0007000000"},
		{"CounterSettings", func(c *Conn) error { _, err := c.CounterSettings(3, 1); return err }, empty, "11 " + dev + port + "08004a0002000000" + forQPs},
		{"SetCounterAuto", func(c *Conn) error { return c.SetCounterAuto(3, 1, CounterByQPType, false) }, empty, "10 " + dev + port + forQPs + "08004a000100000008004c0001000000"},
		{"SetCounterAuto", func(c *Conn) error { return c.SetCounterAuto(3, 1, CounterByPID, true) }, empty, "10 " + dev + port + forQPs + "08004a000100000008004c00020000000500680001000000"},
		{"BindQP", func(c *Conn) error { _, err := c.BindQP(3, 1, 17, NewCounter); return err }, counter, "10 " + dev + port + forQPs + "08004a00020000000800150011000000"},
		{"BindQP", func(c *Conn) error { _, err := c.BindQP(3, 1, 17, 9); return err }, counter, "10 " + dev + port + forQPs + "08004a0002000000080015001100000008004f0009000000"},
		{"UnbindQP", func(c *Conn) error { return c.UnbindQP(3, 1, 17, 9) }, empty, "12 " + dev + port + forQPs + "08004f00090000000800150011000000"},
		{"Uverbs", func(c *Conn) error { _, err := c.Uverbs(3); return err }, script{messages: []*request{message().addText(abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, "u")}},
			"0f " + dev + "0b0045007576657262730000"},
	} {
		c, s := fakeConn(tc.answer, script{})
		if err := tc.call(c); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if last := s.sent[len(s.sent)-1]; last != tc.want {
			t.Errorf("%s sends %s, want %s", tc.name, last, tc.want)
		}
	}
}

// TestPrivilegedQKeyOfOldKernels checks that nothing is changed if the kernel does not know the setting.
func TestPrivilegedQKeyOfOldKernels(t *testing.T) {
	c, s := fakeConn(script{messages: []*request{message()}})
	if err := c.SetPrivilegedQKey(true); !errors.Is(err, errors.ErrUnsupported) || len(s.sent) != 1 {
		t.Errorf("SetPrivilegedQKey(true) = %v after %d requests, want %v after 1", err, len(s.sent), errors.ErrUnsupported)
	}
}

// TestErrors checks the texts, and that errors.Is finds the errno.
func TestErrors(t *testing.T) {
	c, _ := fakeConn(script{err: &refusal{errno: syscall.EPERM}}, script{err: &refusal{errno: syscall.EBUSY, message: "manual mode"}}, script{}, script{messages: []*request{message()}})
	for _, tc := range []struct {
		err  error
		is   error
		text string
	}{
		{c.SetName(3, "x"), syscall.EPERM, "rename device 3: operation not permitted"},
		{c.SetCounterAuto(3, 1, CounterByQPType, false), syscall.EBUSY, "set counter settings of device 3 port 1: device or resource busy (manual mode)"},
		{get(c.System()), syscall.EBADMSG, "query RDMA subsystem: no message in the answer"},
		{get(c.Device(4)), syscall.EBADMSG, "get device 4: no message in the answer"},
	} {
		if !errors.Is(tc.err, tc.is) || tc.err.Error() != tc.text {
			t.Errorf("error = %v, want %q, which is %v", tc.err, tc.text, tc.is)
		}
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if _, err := c.Ports(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Ports(1) after Close = %v, want net.ErrClosed", err)
	}
}

func get[T any](_ T, err error) error { return err }

// fakeEvents is a socket whose messages come from a channel.
type fakeEvents struct {
	messages chan []value
	closed   chan struct{}
}

func (s *fakeEvents) close() { close(s.closed) }

func (s *fakeEvents) receive() ([]value, error) {
	select {
	case m := <-s.messages:
		if m == nil {
			return nil, syscall.ENOBUFS
		}
		return m, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func TestMonitor(t *testing.T) {
	s := &fakeEvents{messages: make(chan []value, 4), closed: make(chan struct{})}
	event := func(t EventType, name string) value {
		return message().addU8(abi.RDMA_NLDEV_ATTR_EVENT_TYPE, uint8(t)).addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, name).body
	}
	s.messages <- []value{event(EventRegister, "a"), message().unknown().body, event(EventUnregister, "b")}
	s.messages <- nil
	s.messages <- []value{event(EventRename, "c")}
	m := newMonitor(s)
	receive := func(want Event, wantErr error) {
		t.Helper()
		got, err := m.Receive(t.Context())
		if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(Attributes{})); diff != "" || !errors.Is(err, wantErr) {
			t.Errorf("Receive() = %+v, %v, want %+v, %v", got, err, want, wantErr)
		}
	}
	receive(Event{Type: EventRegister, DeviceName: "a"}, nil)
	receive(Event{Type: EventUnregister, DeviceName: "b"}, nil)
	receive(Event{}, syscall.ENOBUFS)
	receive(Event{Type: EventRename, DeviceName: "c"}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Receive(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Receive(cancelled) = %v, want context.Canceled", err)
	}
	done := make(chan error)
	go func() {
		_, err := m.Receive(t.Context())
		done <- err
	}()
	m.Close()
	m.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive() during Close = %v, want net.ErrClosed", err)
	}
	if _, err := m.Receive(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive() after Close = %v, want net.ErrClosed", err)
	}
}
