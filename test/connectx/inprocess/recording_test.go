// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"purerdma/test/oracle/vector"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// recording names the file that TestRecording writes. TestRecordings of provider/mlx5 replays it.
var recording = flag.String("recording", "", "write the recording to this file")

// TestRecording records the operations of a connection on a device, and reads the recording. A list of requests,
// a failed request and flushed receives are in it.
func TestRecording(t *testing.T) {
	n := newNet(t, nil)
	dev, err := n.host.Open("mlx5_0")
	if err != nil {
		t.Fatalf("n.host.Open: %v", err)
	}
	closer(t, dev)
	d, err := mlx5dv.From(dev)
	if err != nil {
		t.Fatalf("mlx5dv.From: %v", err)
	}
	rec := d.Record(mlx5dv.RecordOptions{})
	a, b := n.pair(verbs.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 2, RecvSGE: 2, Inline: 64}, patient)
	signaled := verbs.SendSignaled
	at := verbs.SendWR{RemoteAddr: b.mr.Slice(0, 1).Addr, RKey: b.mr.RKey()}
	request := func(id uint64, op verbs.SendOpcode, sg ...verbs.SGE) verbs.SendWR {
		wr := at
		wr.ID, wr.Opcode, wr.Flags, wr.SGList = id, op, signaled, sg
		return wr
	}
	short, long := a.mr.Slice(0, 8), a.mr.Slice(64, 512)
	b.recv(verbs.RecvWR{ID: 1, SGList: []verbs.SGE{b.mr.Slice(4096, 64)}}, verbs.RecvWR{ID: 2, SGList: []verbs.SGE{b.mr.Slice(8192, 64)}})
	a.recv(verbs.RecvWR{ID: 1, SGList: []verbs.SGE{a.mr.Slice(4096, 64), a.mr.Slice(8192, 64)}}, verbs.RecvWR{ID: 2, SGList: []verbs.SGE{a.mr.Slice(4096, 64)}}, verbs.RecvWR{ID: 3})
	inline := request(1, verbs.OpSend)
	inline.InlineData = []byte("not in the recording")
	for _, list := range [][]verbs.SendWR{
		{inline},
		{request(2, verbs.OpWrite, long), request(3, verbs.OpRead, short, a.mr.Slice(1024, 100)), request(4, verbs.OpSendImm, short)},
		{request(5, verbs.OpFetchAdd, short)},
		{request(6, verbs.OpCompareSwap, short)},
	} {
		a.send(list...)
		a.wait(len(list))
	}
	b.wait(2)
	for id := range uint64(2) {
		b.send(verbs.SendWR{ID: id, Opcode: verbs.OpSend, SGList: []verbs.SGE{b.mr.Slice(int(id)*64, 40)}, Flags: signaled})
		b.wait(1)
		a.wait(1)
	}
	bad := request(7, verbs.OpWrite, short)
	bad.RKey++
	if err := a.cq.Arm(true); err != nil {
		t.Fatalf("a.cq.Arm: %v", err)
	}
	a.send(bad)
	if wcs := a.wait(2); wcs[0].Status == verbs.WCSuccess && wcs[1].Status == verbs.WCSuccess {
		t.Errorf("completions of a bad WRITE and a receive = %+v, want failures", wcs)
	}
	var text bytes.Buffer
	if _, err := rec.WriteTo(&text); err != nil {
		t.Fatalf("Recorder.WriteTo: %v", err)
	}
	if *recording != "" {
		if err := os.WriteFile(*recording, text.Bytes(), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	f, err := vector.Read(&text)
	if err != nil {
		t.Fatalf("vector.Read: %v", err)
	}
	count := map[string]int{}
	for _, r := range f.Sessions[0].Records {
		count[r.Type] += max(len(r.WRs), 1)
	}
	if count["send"] != 7 || count["recv"] != 3 || count["poll"] != 10 || count["arm"] == 0 || f.Head.Device != "mlx5_0" {
		t.Errorf("recording of %s = %v, want 7 sends, 3 receives, 10 completions and an arm of mlx5_0", f.Head.Device, count)
	}
}
