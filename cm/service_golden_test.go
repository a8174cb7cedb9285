// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"purerdma/abi"
	"purerdma/test/addrinfo"
	"purerdma/ucma"
	"purerdma/verbs"
)

// TestServiceGolden compares our commands for the services of InfiniBand fabrics, and what we
// read in the kernel's answers, with librdmacm's.
func TestServiceGolden(t *testing.T) {
	addrinfo.Golden(t, "services", func(t *testing.T, lines iter.Seq2[string, string]) {
		n := map[string]int{}
		for question, answer := range lines {
			kind, args, _ := strings.Cut(question, " ")
			check := map[string]func(*testing.T, string, string){
				"resolve": goldenResolve, "query": goldenQuery, "event": goldenEvent,
			}[kind]
			n[kind]++
			t.Run(question, func(t *testing.T) { check(t, args, answer) })
		}
		if n["resolve"] < 20 || n["query"] < 4 || n["event"] < 2 {
			t.Errorf("only %v", n)
		}
	})
}

// serviceKernel keeps the frames of the commands that services.c shows, without the
// number of the ID and the address of the answer, and answers as that does.
type serviceKernel struct {
	id      *ID
	records uint32
	status  int32             // of the event
	frames  map[uint32]string // by command
}

func newServiceKernel(t *testing.T, records uint32) *serviceKernel {
	t.Helper()
	h := &hooked{fakeKernel: newFakeKernel()}
	ch := newEventChannel(ucma.New(h), &verbs.Host{})
	t.Cleanup(func() { ch.Close() })
	k := &serviceKernel{id: newFakeID(t, ch), records: records, frames: make(map[uint32]string)}
	h.write = func(b []byte) {
		code, secret := binary.NativeEndian.Uint32(b), 4
		switch code {
		case abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE:
			typ := EventAddrInfoResolved
			if k.status != 0 {
				typ = EventAddrInfoError
			}
			h.queue(k.id.kid, typ, k.status)
		case abi.RDMA_USER_CM_CMD_QUERY:
			k.fill(b)
			secret = 12
		}
		b = bytes.Clone(b)
		clear(b[8 : 8+secret])
		k.frames[code] = hex.EncodeToString(b)
	}
	return k
}

// fill answers a query with as many records as there is room for.
func (k *serviceKernel) fill(query []byte) {
	room := (uint32(binary.NativeEndian.Uint16(query[6:])) - 8) / 176
	p := pointerAt(query, 8)
	*(*uint32)(p) = k.records
	recs := unsafe.Slice((*abi.IBUserServiceRec)(unsafe.Add(p, 8)), min(k.records, room))
	for i := range recs {
		recs[i] = abi.IBUserServiceRec{
			ID: [8]uint8{7: uint8(5 + i)}, GID: [16]uint8{0: 0xfe, 1: 0x80, 15: uint8(2 + i)}, PKey: [2]uint8{0x80, uint8(i)},
		}
	}
}

// find asks for the service, by its ID if name is empty, and returns the service records.
func (k *serviceKernel) find(t *testing.T, id uint64, name string) ([]ServiceRecord, error) {
	t.Helper()
	err := k.id.ResolveIBServiceName(name)
	if name == "" {
		err = k.id.ResolveIBService(id)
	}
	if err != nil {
		return nil, err
	}
	if err := expect(soonCtx(t), k.id, EventAddrInfoResolved); err != nil {
		return nil, err
	}
	return k.id.QueryIBService()
}

// sameFrame compares the frames of a command, but for how long the answer may be.
func (k *serviceKernel) sameFrame(t *testing.T, code uint32, theirs string) {
	t.Helper()
	const cmdAndIn, out = 12, 16 // digits
	ours := k.frames[code]
	if len(ours) != len(theirs) || ours[:cmdAndIn]+ours[out:] != theirs[:cmdAndIn]+theirs[out:] {
		t.Errorf("C gives %s\n  we give %s", theirs, ours)
	}
}

// goldenResolve compares the command that asks for a service: by the name, or by the ID that
// librdmacm read in it.
func goldenResolve(t *testing.T, service, frame string) {
	k := newServiceKernel(t, 1)
	theirs, err := hex.DecodeString(frame)
	if err != nil {
		t.Fatalf("hex.DecodeString: %v", err)
	}
	ask := abi.View[abi.UcmResolveIBService](theirs[8:]).IBS
	switch {
	case ask.Flags == abi.RDMA_USER_CM_IB_SERVICE_FLAG_ID:
		_, err = k.find(t, ask.ServiceID, "")
	case service == "":
		err = k.id.ResolveIBServiceName("")
	default:
		_, err = k.find(t, 0, service)
	}
	if len(service) > 63 {
		// librdmacm asks for what is left of it.
		if param := new(ArgumentError); !errors.As(err, &param) || len(k.frames) != 0 {
			t.Errorf("a name that is too long: %v, %v", err, k.frames)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	k.sameFrame(t, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE, frame)
}

// goldenQuery compares the command that asks for so many records, and the addresses in them.
// librdmacm leaves room for 6 and asks again if there are more.
func goldenQuery(t *testing.T, records, answer string) {
	var n uint32
	if _, err := fmt.Sscan(records, &n); err != nil {
		t.Fatalf("fmt.Sscan: %v", err)
	}
	k := newServiceKernel(t, n)
	found, err := k.find(t, 0, "storage")
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	frames, theirs, _ := strings.Cut(answer, " ; ")
	for _, frame := range strings.Fields(frames) {
		k.sameFrame(t, abi.RDMA_USER_CM_CMD_QUERY, frame)
	}
	if n == 0 {
		// librdmacm makes an error of it.
		want := fmt.Sprintf("event=%d status=%d ", EventAddrInfoError, syscall.ENOENT)
		if len(found) != 0 || !strings.HasPrefix(theirs, want) {
			t.Errorf("%d records, want none; C has %s, want %s", len(found), theirs, want)
		}
		return
	}
	ours := fmt.Sprintf("event=%d status=0", EventAddrInfoResolved)
	for _, r := range found {
		sa, size, err := ucma.EncodeSockaddr(ucma.Addr(r.Addr()))
		if err != nil {
			t.Fatalf("ucma.EncodeSockaddr: %v", err)
		}
		ours += fmt.Sprintf(" flags=16 family=%d ps=%d dst=%s", abi.AF_IB, PortSpaceIB, hex.EncodeToString(sa[:size]))
	}
	if ours != theirs {
		t.Errorf("   C has %s\nours has %s", theirs, ours)
	}
}

// TestManyServices asks again when there are more records than there is room for.
func TestManyServices(t *testing.T) {
	for records, want := range map[uint32]int{15: 15, 16: 16, 17: 17, 372: 372, 373: 372, 1 << 31: 372} {
		found, err := newServiceKernel(t, records).find(t, 0, "storage")
		if err != nil || len(found) != want {
			t.Fatalf("%d of %d records: %v", len(found), records, err)
		}
		for i, r := range found {
			if r.PKey != 0x8000|uint16(i&0xff) || r.GID[0] != 0xfe {
				t.Errorf("%d records: %d is %+v", records, i, r)
			}
		}
	}
}

// goldenEvent holds the command that queues an event.
func goldenEvent(t *testing.T, args, frame string) {
	var status int32
	var arg uint64
	if _, err := fmt.Sscan(args, &status, &arg); err != nil {
		t.Fatalf("fmt.Sscan: %v", err)
	}
	k := newServiceKernel(t, 0)
	if err := k.id.WriteEvent(EventUser, status, arg); err != nil {
		t.Fatalf("WriteEvent: %v", err)
	}
	// librdmacm's struct is rounded up by 8 bytes, which the kernel's has not.
	const longer = "18000000" + "48010000"
	rest, ok := strings.CutPrefix(strings.TrimSuffix(frame, strings.Repeat("0", 16)), longer)
	if !ok {
		t.Fatalf("C gives %s", frame)
	}
	k.sameFrame(t, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, "18000000"+"40010000"+rest)
}
