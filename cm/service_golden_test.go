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

// TestServiceGolden compares the commands for the services of InfiniBand fabrics, and the
// interpretation of the kernel's answers, with those in librdmacm.
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
			t.Errorf("questions by kind = %v, want 20 resolve, 4 query, 2 event", n)
		}
	})
}

// serviceKernel records the frames of the commands in services.c, without the number of the ID
// and the address of the answer. It answers like services.c.
type serviceKernel struct {
	id      *ID
	records uint32
	status  int32             // the status of the event
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

// fill answers a query with as many records as fit into the response.
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

// find requests the service by its name, or by its ID if name is empty. It returns the service
// records.
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

// sameFrame compares the frames of a command, except for the length of the answer.
func (k *serviceKernel) sameFrame(t *testing.T, code uint32, theirs string) {
	t.Helper()
	const cmdAndIn, out = 12, 16 // digits
	ours := k.frames[code]
	if len(ours) != len(theirs) || ours[:cmdAndIn]+ours[out:] != theirs[:cmdAndIn]+theirs[out:] {
		t.Errorf("frame =\n%s\nwant that of C\n%s", ours, theirs)
	}
}

// goldenResolve compares the command that requests a service by its name, or by the ID that
// librdmacm reads from the name.
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
		// librdmacm requests the truncated name.
		if param := new(ArgumentError); !errors.As(err, &param) || len(k.frames) != 0 {
			t.Errorf("find of a long name = %v with commands %v, want an ArgumentError without a command", err, k.frames)
		}
		return
	}
	if err != nil {
		t.Fatalf("resolve %q: %v", service, err)
	}
	k.sameFrame(t, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE, frame)
}

// goldenQuery compares the command that requests the records, and the addresses in them.
// librdmacm has space for 6 records, and repeats the query if there are more.
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
		// librdmacm returns an error.
		want := fmt.Sprintf("event=%d status=%d ", EventAddrInfoError, syscall.ENOENT)
		if len(found) != 0 || !strings.HasPrefix(theirs, want) {
			t.Errorf("%d records, want none, C has %s, want %s", len(found), theirs, want)
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
		t.Errorf("records =\n%s\nwant those of C\n%s", ours, theirs)
	}
}

// TestManyServices repeats the query when there are more records than the response can hold.
func TestManyServices(t *testing.T) {
	for records, want := range map[uint32]int{15: 15, 16: 16, 17: 17, 372: 372, 373: 372, 1 << 31: 372} {
		found, err := newServiceKernel(t, records).find(t, 0, "storage")
		if err != nil || len(found) != want {
			t.Fatalf("find() with %d records = %d records, %v, want %d", records, len(found), err, want)
		}
		for i, r := range found {
			if r.PKey != 0x8000|uint16(i&0xff) || r.GID[0] != 0xfe {
				t.Errorf("record of %d, number %d = %+v, want its PKey and GID", records, i, r)
			}
		}
	}
}

// goldenEvent compares the command that queues an event.
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
	// librdmacm's struct is padded with 8 bytes. The kernel's struct is not.
	const longer = "18000000" + "48010000"
	rest, ok := strings.CutPrefix(strings.TrimSuffix(frame, strings.Repeat("0", 16)), longer)
	if !ok {
		t.Fatalf("frame of C = %s, want the prefix of WRITE_CM_EVENT", frame)
	}
	k.sameFrame(t, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, "18000000"+"40010000"+rest)
}
