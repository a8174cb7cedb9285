// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"purerdma/abi"
)

// echo is a device that reads a command twice, and lets other goroutines run in between. Every
// byte of its response is the lowest byte of the ID. It refuses every third command.
type echo struct{ recorder }

func (*echo) Write(b []byte) error {
	before := bytes.Clone(b)
	for range 3 {
		runtime.Gosched()
	}
	if !bytes.Equal(b, before) {
		return fmt.Errorf("command changed while the kernel read it, from %x to %x", before, b)
	}
	hdr := abi.View[abi.UcmCmdHdr](b)
	switch cmd := b[abi.Size[abi.UcmCmdHdr]():]; hdr.Cmd {
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		c := abi.View[abi.UcmInitQPAttr](cmd)
		return answer(c.Response.Slice(int(hdr.Out)), c.ID)
	case abi.RDMA_USER_CM_CMD_QUERY:
		c := abi.View[abi.UcmQuery](cmd)
		return answer(c.Response.Slice(int(hdr.Out)), c.ID)
	case abi.RDMA_USER_CM_CMD_REJECT:
		c := abi.View[abi.UcmReject](cmd)
		n := int(c.PrivateDataLen)
		if n != int(c.ID%200) || !bytes.Equal(c.PrivateData[:], append(bytes.Repeat([]byte{byte(c.ID)}, n), make([]byte, 256-n)...)) {
			return fmt.Errorf("REJECT of ID %d: %d bytes of private data in %x", c.ID, n, c.PrivateData)
		}
	}
	return nil
}

func answer(room []byte, id uint32) error {
	if !bytes.Equal(room, make([]byte, len(room))) {
		return fmt.Errorf("response buffer = %x, want zeros", room)
	}
	for i := range room {
		room[i] = byte(id)
	}
	if id%3 == 2 {
		return syscall.EAGAIN
	}
	return nil
}

func (e *echo) WriteWhenReadable(ctx context.Context, b []byte) error {
	before := bytes.Clone(b)
	for range 3 {
		runtime.Gosched()
	}
	if !bytes.Equal(b, before) {
		return fmt.Errorf("GET_EVENT changed while the kernel read it, from %x to %x", before, b)
	}
	room := abi.View[abi.UcmGetEvent](b[abi.Size[abi.UcmCmdHdr]():]).Response.Slice(int(abi.View[abi.UcmCmdHdr](b).Out))
	if err := answer(room, 7); err != nil {
		return err
	}
	return ctx.Err()
}

// TestReuse runs commands in many goroutines, which share a pool of frames. No command may
// contain the input or the response of another or an earlier command.
func TestReuse(t *testing.T) {
	f := New(&echo{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	check := func(id uint32, what string, err error, got []byte) {
		if (id%3 == 2) != errors.Is(err, syscall.EAGAIN) || err != nil && id%3 != 2 {
			t.Errorf("%s of ID %d = %v, want EAGAIN only if ID%%3 is 2", what, id, err)
		} else if err == nil && !bytes.Equal(got, bytes.Repeat([]byte{byte(id)}, len(got))) {
			t.Errorf("%s of ID %d = %x, want %x in each byte", what, id, got, byte(id))
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var attr QPAttr // reused, as in cm
			var addrs Addrs
			var event Event
			for i := range 300 {
				id := uint32(8*i + g)
				check(id, "INIT_QP_ATTR", f.InitQPAttr(id, 1, &attr), abi.Bytes(attr.Attr()))
				check(id, "QUERY", f.QueryAddr(id, &addrs), abi.Bytes(addrs.Resp()))
				if err := f.Reject(id, bytes.Repeat([]byte{byte(id)}, int(id%200)), 0); err != nil {
					t.Errorf("File.Reject: %v", err)
				}
				if err := f.ReadEvent(context.Background(), &event); err != nil || event.ID != 0x07070707 {
					t.Errorf("ReadEvent = ID %#x, %v, want 0x07070707, nil", event.ID, err)
				}
				if err := f.ReadEvent(ended, &event); !errors.Is(err, context.Canceled) {
					t.Errorf("ReadEvent with a canceled context = %v, want context.Canceled", err)
				}
			}
		})
	}
	wg.Wait()
}

// TestFramesLeak checks that a command contains no bytes of the previous command that used its
// frame. Its private data may have been for another peer.
func TestFramesLeak(t *testing.T) {
	full := abi.UcmConnParam{PrivateDataLen: 255}
	for i := range full.PrivateData {
		full.PrivateData[i] = 0xff
	}
	dev := &recorder{}
	f := New(dev)
	f.Accept(1, 1, &full, abi.UcmECE{VendorID: 5, AttrMod: 6})
	f.Establish(0)
	f.Reject(1, full.PrivateData[:255], 1)
	f.Reject(0, nil, 0)
	for _, i := range []int{1, 3} {
		if b := dev.frames[i][abi.Size[abi.UcmCmdHdr]():]; !bytes.Equal(b, make([]byte, len(b))) {
			t.Errorf("command %d = %x, want zeros", i, b)
		}
	}
}

// TestFrameFree checks that a free frame keeps no pointer to a response, and that it has one
// user at a time.
func TestFrameFree(t *testing.T) {
	fr := newFrame[abi.UcmMigrateID](abi.RDMA_USER_CM_CMD_MIGRATE_ID, 1)
	fr.cmd = abi.UcmMigrateID{Response: abi.NewPointer(new(abi.UcmMigrateResp))}
	fr.free()
	if fr.cmd != (abi.UcmMigrateID{}) {
		t.Errorf("command of a free frame = %+v, want zero", fr.cmd)
	}
	a := newFrame[abi.UcmMigrateID](abi.RDMA_USER_CM_CMD_MIGRATE_ID, 1)
	if b := newFrame[abi.UcmMigrateID](abi.RDMA_USER_CM_CMD_MIGRATE_ID, 1); a == b {
		t.Error("newFrame returned the same frame twice")
	}
}
