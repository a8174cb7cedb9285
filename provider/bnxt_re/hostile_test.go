// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// TestHostileContext has the kernel respond with values that this package does not support.
func TestHostileContext(t *testing.T) {
	open := func(set func(*rig)) error {
		r := &rig{kernel: newKernel(t, chips["P7, push"])}
		set(r)
		return r.start()
	}
	for name, set := range map[string]func(*abi.BnxtReUctxResp){
		"completions of 64 bytes": func(r *abi.BnxtReUctxResp) { r.CQESz = 64 },
		"pages of 64 KiB":         func(r *abi.BnxtReUctxResp) { r.PgSize = 1 << 16 },
		"no completions":          func(r *abi.BnxtReUctxResp) { r.MaxCQD = 0 },
		"2^24 completions":        func(r *abi.BnxtReUctxResp) { r.MaxCQD = 1 << 24 },
		"mode":                    func(r *abi.BnxtReUctxResp) { r.Mode = 2 },
	} {
		if err := open(func(r *rig) { r.context = set }); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Driver.Open with %s = %v, want ErrUnsupported", name, err)
		}
	}
	for name, set := range map[string]func(*abi.UverbsExQueryDeviceResp){
		"no elements": func(r *abi.UverbsExQueryDeviceResp) { r.Base.MaxSGE = 0 },
		"no requests": func(r *abi.UverbsExQueryDeviceResp) { r.Base.MaxQPWR = 0 },
	} {
		if err := open(func(r *rig) { r.onDevice = set }); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Driver.Open with %s = %v, want ErrUnsupported", name, err)
		}
	}
	for name, set := range map[string]func(*uint64, *uint32){
		"offset": func(at *uint64, _ *uint32) { *at = 1 << 63 },
		"length": func(_ *uint64, n *uint32) { *n *= 2 },
	} {
		if err := open(func(r *rig) { r.onPage = set }); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Driver.Open with a wrong %s of a page = %v, want ErrUnsupported", name, err)
		}
	}
	for name, command := range map[string][2]uint64{
		"GET_CONTEXT":  {uint64(abi.UVERBS_OBJECT_DEVICE), abi.UVERBS_METHOD_GET_CONTEXT},
		"QUERY_DEVICE": {0, abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE},
		"ALLOC_PAGE":   {abi.BNXT_RE_OBJECT_ALLOC_PAGE, abi.BNXT_RE_METHOD_ALLOC_PAGE},
		"ALLOC_PD":     {0, abi.IB_USER_VERBS_CMD_ALLOC_PD},
	} {
		if err := open(func(r *rig) { r.fail[command] = syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("opening the device while %s fails = %v, want ENOSPC", name, err)
		}
	}
	if _, err := (Driver{}).open(nil, false); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Driver.open without ordered stores = %v, want ErrUnsupported", err)
	}
}

// TestHostileQueues has the kernel respond with numbers that do not fit a doorbell, or with wrong pages.
func TestHostileQueues(t *testing.T) {
	r := newRig(t, chips["P7"])
	cq := func() (provider.CQ, error) { return r.ctx.CreateCQ(&provider.CQConfig{Entries: 100}) }
	srq := func() (provider.SRQ, error) { return r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 10}) }
	wrong := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s = %v, want ErrUnsupported", what, err)
		}
	}
	r.onCQ = func(c *abi.BnxtReCQResp) { c.CQID = 1 << 20 }
	_, err := cq()
	wrong("CreateCQ with a number of 21 bits", err)
	r.onCQ, r.onPage = nil, func(_ *uint64, n *uint32) { *n = 1 }
	_, err = cq()
	wrong("CreateCQ with a wrong toggle page", err)
	_, err = srq()
	wrong("CreateSRQ with a wrong toggle page", err)
	r.onPage, r.onSRQ = nil, func(s *abi.BnxtReSRQResp) { s.SRQID = 1 << 20 }
	_, err = srq()
	wrong("CreateSRQ with a number of 21 bits", err)
	c, err := cq()
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	for _, set := range []func(*abi.BnxtReQPResp){
		func(q *abi.BnxtReQPResp) { q.QPID++ },
		func(q *abi.BnxtReQPResp) { q.QPID += 1 << 20 },
	} {
		r.onQP = set
		_, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: c, RecvCQ: c})
		wrong("CreateQP with a wrong number", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("CQ.Close: %v", err)
	}
	if n := len(r.device.qps) + len(r.device.cqs) + len(r.device.srqs) + r.leftPages(); n != 0 {
		t.Errorf("%d objects are left in the kernel, want 0", n)
	}
}

// TestRefused requests objects and sizes that the driver does not have.
func TestRefused(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.make(t, provider.QPConfig{Cap: provider.QPCap{SendWR: 3, RecvWR: 3, SendSGE: 2, RecvSGE: 2, Inline: 40}})
	if got := e.q.Cap(); got.SendWR < 3 || got.RecvWR != 3 || got.SendSGE != 3 || got.RecvSGE != 2 || got.Inline != 48 {
		t.Errorf("QP.Cap() = %+v, want at least 3 requests of 3 elements or 48 bytes, and 3 receives of 2 elements", got)
	}
	is := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s = %v, want %v", what, err, want)
		}
	}
	qp := func(cfg provider.QPConfig) error {
		cfg.PD = r.pd
		if cfg.SendCQ == nil {
			cfg.SendCQ, cfg.RecvCQ = e.c, e.c
		}
		if cfg.Type == 0 {
			cfg.Type = provider.RC
		}
		_, err := r.ctx.CreateQP(&cfg)
		return err
	}
	is("CreateQP of UC", qp(provider.QPConfig{Type: provider.UC}), errors.ErrUnsupported)
	is("CreateQP with a foreign CQ", qp(provider.QPConfig{SendCQ: runningCQ{}}), syscall.EINVAL)
	is("CreateQP with a foreign SRQ", qp(provider.QPConfig{SRQ: struct{ provider.SRQ }{}}), syscall.EINVAL)
	for _, c := range []provider.QPCap{
		{SendWR: 16385}, {SendWR: -1}, {RecvWR: 16385}, {RecvWR: -1}, {SendSGE: 14}, {SendSGE: -1}, {RecvSGE: 14}, {RecvSGE: -1}, {Inline: 13*16 + 1}, {Inline: -1},
	} {
		if err := qp(provider.QPConfig{Cap: c}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("CreateQP of %+v = %v, want EINVAL", c, err)
		}
	}
	for _, n := range []int{-1, 0, 65536} {
		_, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: n})
		is("CreateCQ", err, syscall.EINVAL)
		is("CQ.Resize", e.c.Resize(n), syscall.EINVAL)
	}
	_, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 1, Vendor: 1})
	is("CreateCQ with options", err, syscall.EINVAL)
	for _, s := range []provider.SRQConfig{{MaxWR: 0}, {MaxWR: 16385}, {MaxWR: 1, MaxSGE: 7}, {MaxWR: 1, MaxSGE: -1}} {
		s.PD = r.pd
		_, err := r.ctx.CreateSRQ(&s)
		is("CreateSRQ", err, syscall.EINVAL)
	}
	_, err = r.ctx.CreateSRQ(&provider.SRQConfig{MaxWR: 1, XRCD: struct{ provider.XRCD }{}})
	is("CreateSRQ of XRC", err, errors.ErrUnsupported)
	_, err = r.ctx.CreateAH(&provider.AHConfig{PD: r.pd})
	is("CreateAH without a GID", err, syscall.EINVAL)
	is("Modify of the path MTU", e.q.Modify(&provider.QPAttr{PathMTU: 6}, provider.QPAttrPathMTU), syscall.EINVAL)
	old := newRig(t, chip{num: 0x16d7, maxSGE: 6, noAtomics: true, old: true})
	_, err = old.ctx.AllocMW(old.pd, provider.MWType2)
	is("AllocMW", err, errors.ErrUnsupported)
	f := old.ctx.Features()
	if f.Atomics || f.MWType1 || f.MWType2 || f.LocalInv || f.SendInvMW {
		t.Errorf("Features() = %+v, want neither atomics nor windows", f)
	}
	l := old.connected(t, provider.QPCap{SendWR: 1})
	is("Modify of the rate", l.q.Modify(&provider.QPAttr{RateLimit: 1}, provider.QPAttrRateLimit), errors.ErrUnsupported)
	for _, op := range []provider.SendOpcode{provider.OpFetchAdd, provider.OpBindMW, provider.OpLocalInv} {
		_, err := l.q.PostSend([]provider.SendWR{{Opcode: op, SGList: make([]provider.SGE, 1), Bind: &provider.MWBindInfo{Type: provider.MWType2}}})
		is("PostSend of "+op.String(), err, errors.ErrUnsupported)
	}
}

// records collects the messages of a log.
type records struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *records) has(s string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(r.text.String(), s)
}

// TestHostileCompletions adds an entry that makes no sense. The entry must be skipped and logged. If it names a QP, the
// QP must fail, and each of its requests must complete once.
func TestHostileCompletions(t *testing.T) {
	for name, tc := range map[string]struct {
		add   func(e *end)
		fails bool
	}{
		"no QP has the handle": {func(e *end) { e.dev.sendCQ.put(typeSend, 0, 0, [6]uint32{0xfffff, 77}, 0) }, false},
		"old handle": {func(e *end) {
			e.dev.sendCQ.put(typeSend, 0, 0, [6]uint32{uint32(e.q.cookie), uint32(e.q.cookie>>32) - 1, 1}, 0)
		}, false},
		"unknown type":                {func(e *end) { e.dev.sendCQ.put(9, 0, 0, [6]uint32{}, 0) }, false},
		"end of an unchanged ring":    {func(e *end) { e.dev.sendCQ.put(typeCutoff, 0, 0, [6]uint32{}, 0) }, false},
		"request behind the posted":   {func(e *end) { e.dev.sendDone(0, 4) }, true},
		"no request":                  {func(e *end) { e.dev.sendDone(0, 0) }, true},
		"request before the oldest":   {func(e *end) { e.dev.sendDone(0, 0xffff) }, true},
		"receive behind the oldest":   {func(e *end) { e.dev.recvDone(0, 0, 5, 0, 1) }, true},
		"receive that does not exist": {func(e *end) { e.dev.recvDone(0, 0, 5, 0, 1<<20-1) }, true},
		"receive of another CQ":       {func(e *end) { e.dev.recvCQ = e.rig.other; e.dev.recvDone(0, 0, 5, 0, 0) }, true},
		"request of another CQ":       {func(e *end) { e.dev.sendCQ = e.rig.other; e.dev.sendDone(0, 1) }, true},
	} {
		for _, chip := range []string{"P4", "P7"} {
			t.Run(name+"/"+chip, func(t *testing.T) {
				r := newRig(t, chips[chip])
				var log records
				r.ctx.SetLog(slog.New(slog.NewTextHandler(&log, nil)))
				other := r.make(t, provider.QPConfig{})
				r.other = other.dev.sendCQ
				e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
				e.send(1, 2, 3)
				e.recv(11, 12)
				tc.add(e)
				polled := e
				if strings.Contains(name, "another CQ") {
					polled = other
				}
				// A goroutine moves the QP to the error state, possibly before the poll returns.
				first := polled.poll(9)
				strange := func(w provider.WC) bool { return w.Status != provider.WCWRFlushErr || !tc.fails }
				if polled.c.skipped.Load() != 1 || slices.ContainsFunc(first, strange) {
					t.Errorf("completions = %+v, %d skipped, want only flushed ones, and 1", first, polled.c.skipped.Load())
				}
				eventually(t, "a log record", func() bool { return log.has("completion not understood") })
				if !tc.fails {
					if e.q.State() != provider.QPRTS {
						t.Errorf("QP.State() = %v, want RTS", e.q.State())
					}
					return
				}
				eventually(t, "a move to ERR", func() bool { return e.q.State() == provider.QPErr && r.movedTo(provider.QPErr) })
				got := append(ids(first), ids(e.poll(9))...)
				slices.Sort(got)
				if !slices.Equal(got, []uint64{1, 2, 3, 11, 12}) {
					t.Errorf("flushed IDs = %v, want 1 to 3, 11 and 12", got)
				}
			})
		}
	}
}

// eventually waits for a goroutine of the provider.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// TestFailingCommands has the kernel refuse the commands for objects. Nothing may be left.
func TestFailingCommands(t *testing.T) {
	r := newRig(t, chips["P7, push"])
	for name, tc := range map[string]struct {
		command [2]uint64
		run     func() error
	}{
		"CreateCQ": {[2]uint64{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE}, func() error {
			_, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 5})
			return err
		}},
		"toggle page": {[2]uint64{abi.BNXT_RE_OBJECT_GET_TOGGLE_MEM, abi.BNXT_RE_METHOD_GET_TOGGLE_MEM}, func() error {
			_, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 5})
			return err
		}},
		"CreateSRQ": {[2]uint64{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE}, func() error {
			_, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 5})
			return err
		}},
		"CreateAH": {[2]uint64{0, abi.IB_USER_VERBS_CMD_CREATE_AH}, func() error {
			_, err := r.ctx.CreateAH(&provider.AHConfig{PD: r.pd, Attr: provider.AHAttr{Global: true}})
			return err
		}},
	} {
		r.fail[tc.command] = syscall.ENOSPC
		if err := tc.run(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s = %v, want ENOSPC", name, err)
		}
		delete(r.fail, tc.command)
	}
	e := r.make(t, provider.QPConfig{})
	create := [2]uint64{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE}
	r.fail[create] = syscall.ENOSPC
	if _, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: e.c, RecvCQ: e.c}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("CreateQP = %v, want ENOSPC", err)
	}
	delete(r.fail, create)
	e.ready()
	modify := [2]uint64{0, abi.IB_USER_VERBS_CMD_MODIFY_QP}
	r.fail[modify] = syscall.EINVAL
	for _, s := range []provider.QPState{provider.QPErr, provider.QPReset} {
		if err := e.q.Modify(&provider.QPAttr{State: s}, provider.QPAttrState); !errors.Is(err, syscall.EINVAL) || e.q.State() != provider.QPRTS {
			t.Errorf("Modify to %v = %v, state %v, want EINVAL and RTS", s, err, e.q.State())
		}
	}
	delete(r.fail, modify)
	e.send(1)
	for what, tc := range map[string]struct {
		command [2]uint64
		close   func() error
	}{
		"QP": {[2]uint64{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY}, e.q.Close},
		"CQ": {[2]uint64{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}, e.c.Close},
	} {
		r.fail[tc.command] = syscall.EIO
		if err := tc.close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Close of a %s = %v, want EIO", what, err)
		}
		delete(r.fail, tc.command)
	}
	e.send(2) // the QP and the CQ still work
	if err := e.c.Arm(false); err != nil {
		t.Errorf("CQ.Arm after a failed Close: %v", err)
	}
}

// TestArmedWhileClosed arms and posts while the kernel destroys the objects. No doorbell may be rung, because the kernel
// may use the numbers again.
func TestArmedWhileClosed(t *testing.T) {
	r := newRig(t, chips["P5"])
	c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 5})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 5})
	if err != nil {
		t.Fatalf("Context.CreateSRQ: %v", err)
	}
	calls := 0
	r.onEnd = func() {
		calls++
		if err := c.Arm(false); err == nil {
			t.Error("Arm during Close succeeded, want net.ErrClosed")
		}
		if _, err := s.PostRecv(make([]provider.RecvWR, 1)); calls == 2 && err == nil {
			t.Error("SRQ.PostRecv during Close succeeded, want net.ErrClosed")
		}
		bells := c.(*cq).bell.last
		if _, err := c.Poll(make([]provider.WC, 1)); calls == 1 && err != nil || c.(*cq).bell.last != bells {
			t.Errorf("Poll during Close = %v with a doorbell, want nil without", err)
		}
	}
	for _, o := range []interface{ Close() error }{c, s, c, s} {
		if err := o.Close(); err != nil {
			t.Errorf("Close of %T: %v", o, err)
		}
	}
	r.onEnd = nil
	if calls != 2 {
		t.Errorf("destructions = %d, want 2", calls)
	}
	if err := c.Arm(true); err == nil {
		t.Error("Arm after Close succeeded, want net.ErrClosed")
	}
}

// TestClosedFile uses objects after the file was closed.
func TestClosedFile(t *testing.T) {
	r := &rig{kernel: newKernel(t, chips["P7, push"])}
	if err := r.start(); err != nil {
		t.Fatalf("rig.start: %v", err)
	}
	e := r.connected(t, provider.QPCap{SendWR: 2, RecvWR: 2, Inline: 16})
	e.send(1)
	if err := r.f.Close(); err != nil {
		t.Fatalf("File.Close: %v", err)
	}
	if _, err := e.q.PostSend(make([]provider.SendWR, 1)); err == nil {
		t.Error("PostSend succeeded, want net.ErrClosed")
	}
	if _, err := e.q.PostRecv(make([]provider.RecvWR, 1)); err == nil {
		t.Error("PostRecv succeeded, want net.ErrClosed")
	}
	if err := e.c.Arm(false); err == nil {
		t.Error("Arm succeeded, want net.ErrClosed")
	}
	if _, err := e.c.Poll(make([]provider.WC, 1)); err == nil {
		t.Error("Poll succeeded, want net.ErrClosed")
	}
	t.Cleanup(func() {
		if err := r.ctx.Close(); err != nil {
			t.Errorf("Context.Close: %v", err)
		}
	})
}

var _ uverbs.ReadOnlyMapper = (*kernel)(nil)
