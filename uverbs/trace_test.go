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
		t.Fatal(err)
	}
	f, err := uverbs.Open(k, infos[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.GetContext(uverbs.Driver{}); err != nil {
		t.Fatal(err)
	}
	pd, err := f.AllocPD(uverbs.Driver{})
	if err != nil {
		t.Fatal(err)
	}
	var resp abi.RxeCreateCQResp
	cq, err := f.CreateCQ(uverbs.CQConfig{Entries: 5, UserHandle: 77}, uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.NewNotifier(cq.Handle).Notify(true); err != nil {
		t.Fatal(err)
	}
	if _, err := f.RegMR(pd, make([]byte, 8), 0, abi.IB_UVERBS_ACCESS_REMOTE_WRITE, uverbs.Driver{}); err == nil {
		t.Fatal("a registration that the kernel refuses succeeded")
	}
	if err := f.DeallocPD(pd); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
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
			t.Errorf("line %d lacks %s\n%s", i, want, log.String())
		}
	}
}

// TestNotTraced: a Kernel that nobody traces is the Kernel itself.
func TestNotTraced(t *testing.T) {
	t.Setenv("RDMA_TRACE", "")
	k := uverbstest.New("fake0")
	if uverbs.Traced(k, nil) != uverbs.Kernel(k) {
		t.Error("Traced wraps though nobody asked")
	}
	t.Setenv("RDMA_TRACE", "1")
	if uverbs.Traced(k, nil) == uverbs.Kernel(k) {
		t.Error("RDMA_TRACE=1 does not trace")
	}
}
