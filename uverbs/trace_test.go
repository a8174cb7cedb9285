// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

func TestTraced(t *testing.T) {
	var log bytes.Buffer
	k := uverbs.Traced(uverbstest.New("fake0"), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	infos, err := k.Devices()
	if err != nil {
		t.Fatalf("Kernel.Devices: %v", err)
	}
	f, err := uverbs.Open(k, infos[0])
	if err != nil {
		t.Fatalf("uverbs.Open: %v", err)
	}
	if _, err := f.GetContext(uverbs.Driver{}); err != nil {
		t.Fatalf("File.GetContext(uverbs.Driver{}): %v", err)
	}
	pd, err := f.AllocPD(uverbs.Driver{})
	if err != nil {
		t.Fatalf("File.AllocPD(uverbs.Driver{}): %v", err)
	}
	var resp abi.RxeCreateCQResp
	cq, err := f.CreateCQ(uverbs.CQConfig{Entries: 5, UserHandle: 77}, uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		t.Fatalf("File.CreateCQ: %v", err)
	}
	if err := f.NewNotifier(cq.Handle).Notify(true); err != nil {
		t.Fatalf("Notifier.Notify(true): %v", err)
	}
	if _, err := f.RegMR(pd, make([]byte, 8), 0, abi.IB_UVERBS_ACCESS_REMOTE_WRITE, uverbs.Driver{}); err == nil {
		t.Fatal("RegMR of memory without LocalWrite succeeded")
	}
	if err := f.DeallocPD(pd); err != nil {
		t.Fatalf("File.DeallocPD: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("File.Close: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, want := range []string{
		`msg=open device=fake0 in="path=\"/dev/infiniband/uverbs0\", driver=rxe"`,
		`out="num_comp_vectors=1, core_support=1"`,
		`msg=IB_USER_VERBS_CMD_ALLOC_PD`,
		`msg=UVERBS_METHOD_CQ_CREATE device=fake0 in="cqe=5, user_handle=77, comp_vector=0"`,
		`msg="write IB_USER_VERBS_CMD_REQ_NOTIFY_CQ" device=fake0 in="CQHandle=1, SolicitedOnly=1"`,
		`error="EINVAL (invalid argument)"`,
		`msg=UVERBS_METHOD_PD_DESTROY device=fake0 in="handle=0"`,
		`msg=close`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d does not contain %s:\n%s", i, want, log.String())
		}
	}
}

// TestNotTraced checks that Traced returns the Kernel itself if tracing is off.
func TestNotTraced(t *testing.T) {
	t.Setenv("RDMA_TRACE", "")
	k := uverbstest.New("fake0")
	if uverbs.Traced(k, nil) != uverbs.Kernel(k) {
		t.Error("Traced(k, nil) wraps the Kernel although RDMA_TRACE is empty")
	}
	t.Setenv("RDMA_TRACE", "1")
	if uverbs.Traced(k, nil) == uverbs.Kernel(k) {
		t.Error("Traced(k, nil) returned the Kernel although RDMA_TRACE is 1")
	}
}
