// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"bytes"
	"testing"

	"purerdma/abi"
)

// answering is a device that answers every query with the bytes of response, as many as fit
// into the response buffer.
type answering struct {
	recorder
	response []byte
	queries  int
}

func (d *answering) Write(b []byte) error {
	hdr := abi.View[abi.UcmCmdHdr](b)
	if hdr.Cmd == abi.RDMA_USER_CM_CMD_QUERY {
		d.queries++
		copy(abi.View[abi.UcmQuery](b[abi.Size[abi.UcmCmdHdr]():]).Response.Slice(int(hdr.Out)), d.response)
	}
	return nil
}

// FuzzQueries queries the paths and the service records of an ID. The count in the response
// exceeds the number of records in it, or the size of the buffer.
func FuzzQueries(f *testing.F) {
	count := func(n uint32, more int) []byte {
		return append(abi.Bytes(&abi.UcmQueryPathResp{NumPaths: n})[:8:8], bytes.Repeat([]byte{0xa5}, more)...)
	}
	for _, n := range []uint32{0, 1, maxPaths, maxPaths + 1, fewServiceRecs, fewServiceRecs + 1, maxServiceRecs, maxServiceRecs + 1, 1 << 31, 1<<32 - 1} {
		f.Add(count(n, 100))
		f.Add(abi.Bytes(&abi.UcmQueryIBServiceResp{NumServiceRecs: n}))
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, response []byte) {
		d := &answering{response: response}
		file := New(d)
		paths, err := file.QueryPath(1)
		head := new(abi.UcmQueryPathResp)
		copy(abi.Bytes(head), response)
		if err != nil || len(paths) != int(min(head.NumPaths, maxPaths)) {
			t.Errorf("QueryPath = %d paths, %v, the kernel counts %d", len(paths), err, head.NumPaths)
		}
		recs, err := file.QueryIBService(1)
		services := new(abi.UcmQueryIBServiceResp)
		copy(abi.Bytes(services), response)
		if err != nil || len(recs) != int(min(services.NumServiceRecs, maxServiceRecs)) || d.queries > 3 {
			t.Errorf("QueryIBService = %d records, %v, after %d queries, the kernel counts %d", len(recs), err, d.queries, services.NumServiceRecs)
		}
		var addrs Addrs
		if err := file.QueryAddr(1, &addrs); err != nil {
			t.Errorf("File.QueryAddr: %v", err)
		}
		if err := file.QueryGID(1, &addrs); err != nil {
			t.Errorf("File.QueryGID: %v", err)
		}
	})
}
