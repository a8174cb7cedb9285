// SPDX-License-Identifier: Apache-2.0

//go:build !race

package uverbs

import (
	"testing"

	"purerdma/abi"
)

// answering is a device that accepts every request and does nothing.
type answering struct{ Transport }

func (answering) Ioctl(req *Request) error { return nil }

// TestConnectionAllocates checks that the requests of a connection do not allocate. Each
// connection creates a QP, moves it several times, and destroys it. Many connections have their
// own PD, CQs and MR. The race detector makes each pool drop a quarter of its objects, so the
// tests of this file are not built with it.
func TestConnectionAllocates(t *testing.T) {
	f := &File{t: answering{}}
	mem := make([]byte, 1)
	most := map[string]float64{"RegMR": 1, "NewNotifier": 1}
	for what, run := range map[string]func() error{
		"CreateQP": func() error {
			_, err := f.CreateQP(QPConfig{Type: abi.IB_UVERBS_QPT_RC}, Driver{})
			return err
		},
		"ModifyQP":  func() error { return f.ModifyQP(&abi.UverbsModifyQP{QPHandle: 1}) },
		"DestroyQP": func() error { return f.DestroyQP(1) },
		"CreateCQ": func() error {
			_, err := f.CreateCQ(CQConfig{Entries: 1}, Driver{})
			return err
		},
		"NewNotifier": func() error {
			notifier = f.NewNotifier(1)
			return nil
		},
		"DestroyCQ": func() error { return f.DestroyCQ(1) },
		"AllocPD": func() error {
			_, err := f.AllocPD(Driver{})
			return err
		},
		"DeallocPD": func() error { return f.DeallocPD(1) },
		"RegMR": func() error {
			_, err := f.RegMR(1, mem, 0, 0, Driver{})
			return err
		},
		"DeregMR": func() error { return f.DeregMR(1) },
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := run(); err != nil {
				t.Fatalf("run: %v", err)
			}
		})
		if n > most[what] {
			t.Errorf("%s: %v allocations, want at most %v", what, n, most[what])
		}
	}
}

var notifier *Notifier // an unused variable need not be allocated

// TestEventFilesAllocate checks that creating a CQ does not allocate. Each connection may have
// its own CQs on one channel.
func TestEventFilesAllocate(t *testing.T) {
	f := &File{t: answering{}}
	cfg := CQConfig{Entries: 1, Channel: &CompChannel{dev: eventFD(t)}, Events: &AsyncChannel{dev: eventFD(t)}}
	n := testing.AllocsPerRun(100, func() {
		if _, err := f.CreateCQ(cfg, Driver{}); err != nil {
			t.Fatalf("File.CreateCQ: %v", err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
