// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/verbs"
)

func TestRemoteMemory(t *testing.T) {
	_, pd := openPD(t, fakeRoute().h, "rxe0")
	mr, err := pd.Alloc(5000, everything)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	if got, want := mr.Remote(), (verbs.RemoteMemory{Addr: mr.Addr(), Length: 5000, RKey: mr.RKey()}); got != want {
		t.Errorf("MR.Remote() = %+v, want %+v", got, want)
	}
	w, err := pd.AllocMW(verbs.MWType2)
	if err != nil {
		t.Fatalf("PD.AllocMW: %v", err)
	}
	defer w.Close()
	if got := w.Remote(); got != (verbs.RemoteMemory{}) {
		t.Errorf("MW.Remote() before the first Bind = %+v, want none", got)
	}
	w.Bind(mr, 100, 30, verbs.RemoteRead)
	first := w.Remote()
	if want := (verbs.RemoteMemory{Addr: mr.Addr() + 100, Length: 30, RKey: w.RKey()}); first != want {
		t.Errorf("MW.Remote() = %+v, want %+v", first, want)
	}
	w.Bind(mr, 200, 40, verbs.RemoteRead)
	if got := w.Remote(); got.RKey == first.RKey || got.Addr != mr.Addr()+200 || got.Length != 40 {
		t.Errorf("MW.Remote() after the second Bind = %+v, want 40 bytes at offset 200 with a new key", got)
	}
	if err := mr.Close(); err != nil {
		t.Fatalf("MR.Close: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Remote() of a closed MR does not panic")
		}
	}()
	mr.Remote()
}
