// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"testing"

	"purerdma/abi"
)

// FuzzEvent checks events with arbitrary contents. Private data is never longer than its field
// in the struct, nothing panics, and the channel keeps working.
func FuzzEvent(f *testing.F) {
	for _, private := range []uint8{0, 1, 56, 255} { // the array has one byte more
		conn, ud := abi.UcmConnParam{PrivateDataLen: private, QPNum: 1<<32 - 1}, abi.UcmUDParam{PrivateDataLen: private, QPNum: 1<<32 - 1}
		for i := range conn.PrivateData {
			conn.PrivateData[i], ud.PrivateData[i] = byte(i)|1, byte(i)|1
		}
		for _, typ := range []EventType{EventConnectRequest, EventConnectResponse, EventUnreachable, EventRejected, EventEstablished} {
			f.Add(false, uint32(typ), uint32(0), abi.Bytes(&conn))
			f.Add(true, uint32(typ), uint32(1<<32-1), abi.Bytes(&ud))
		}
	}
	f.Add(false, uint32(1<<32-1), uint32(1<<31), bytes.Repeat([]byte{0xff}, 304))
	f.Fuzz(func(t *testing.T, datagram bool, typ, status uint32, param []byte) {
		ch, k := newFakeChannel(t)
		space := PortSpaceTCP
		if datagram {
			space = PortSpaceUDP
		}
		id, err := ch.NewID(IDConfig{PortSpace: space})
		if err != nil {
			t.Fatalf("NewID: %v", err)
		}
		ev := abi.UcmEventResp{UID: id.uid, ID: id.kid, Event: typ, Status: status}
		if EventType(typ) == EventConnectRequest {
			ev.ID = id.kid + 1
			k.uids[ev.ID] = 0
		}
		copy(ev.Param[:], param)
		k.events <- ev
		k.queue(id.kid, EventAddrChange, 4711)
		for {
			got := mustNext(t, ch)
			_, _ = got.String(), got.Err()
			conn, ud := ev.Conn(), ev.UD()
			want := conn.PrivateData[:conn.PrivateDataLen]
			if got.ID.datagram() {
				want = ud.PrivateData[:ud.PrivateDataLen]
			}
			last := got.Type == EventAddrChange && got.Status == 4711
			if b := got.PrivateData(); !last && len(b) != 0 && !bytes.Equal(b, want) {
				t.Fatalf("private data of %v = %x, want %x", got, b, want)
			}
			got.Ack()
			if last {
				return
			}
		}
	})
}
